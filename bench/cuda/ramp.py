"""Work that raises a GPU's clocks: an idle GPU runs at low clocks, and a short row would end before they rise."""

from __future__ import annotations

import time
from typing import Final

from bench.cuda import work
from bench.cuda.gpu import Gpu
from bench.cuda.native import NativeGpu
from bench.cuda.work import Native

LONG_S: Final = 1.0
SHORT_S: Final = 0.1
SMOKE_S: Final = 0.01
RESTED_S: Final = 1.0
"""Time without work after which a GPU counts as idle, and is kept busy for `LONG_S` instead of `SHORT_S`."""

BATCH: Final = 16
"""Launches between two readings of the clock, about 2 ms each on a large GPU."""


def ramp_seconds(rested_s: float) -> float:
    """Time for which a GPU is kept busy after `rested_s` without work."""
    return LONG_S if rested_s > RESTED_S else SHORT_S


class Ramp:
    """Kernel on the native side that keeps every SM busy. The constructor verifies its result.

    :param smoke: use a small kernel, for an instant.
    """

    def __init__(self, native: NativeGpu, gpu: Gpu, cubin: bytes, *, smoke: bool) -> None:
        made = work.busy(gpu.num_pes, 50) if smoke else work.busy(gpu.num_pes * 2048, 1000)
        with native.keeping():
            self._work = Native(native, made, cubin)
        self._smoke = smoke
        self._busy_until = float("-inf")

    def up(self) -> None:
        """Keeps the GPU busy until its clocks have had time to rise."""
        now = time.monotonic()
        until = now + (SMOKE_S if self._smoke else ramp_seconds(now - self._busy_until))
        while True:
            self._work.per_second(BATCH)
            if time.monotonic() >= until:
                return

    def busy_until_now(self) -> None:
        """Records that the GPU has had work until now."""
        self._busy_until = time.monotonic()
