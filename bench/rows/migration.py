"""Rows of live migration to a new worker: the pause of the guest's requests, and the time in all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle
from typing import Final

import numpy as np

from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import SkipRow, outcome
from bench.stats import Subject, alternate
from bench.vgcd import running
from tests.fakes.control_caller import ControlCaller

BYTES: Final = 64 << 20
"""Device memory that was written to; untouched memory is not copied."""
MS_NS: Final = 1_000_000


class Migrations:
    """Subject that migrates to one processing element and back to two, alternately; keeps the pauses, in ms."""

    def __init__(self, control: ControlCaller) -> None:
        self._control = control
        self._pes = cycle((1, 2))
        self.pauses: list[float] = []

    def __call__(self) -> float:
        """Migrates once; returns the time from the command to the end, in ms.

        :raise SkipRow: the migration fails.
        """
        began_ns = time.perf_counter_ns()
        migration = self._control.migrate("bench", next(self._pes))
        took_ns = time.perf_counter_ns() - began_ns
        if migration["state"] != "done":
            raise SkipRow(migration["text"])
        self.pauses.append(migration["paused_ns"] / MS_NS)
        return took_ns / MS_NS


def _memcpy() -> Subject:
    source, to = (np.ones(BYTES, np.uint8) for _ in range(2))

    def run() -> float:
        began_ns = time.perf_counter_ns()
        np.copyto(to, source)
        return (time.perf_counter_ns() - began_ns) / MS_NS

    return run


@row("migrate_ms", "migrate_pause_ms")
def migrate(lab: Lab) -> Iterator[Outcome]:
    """Migration of 64 MiB of device memory: time in all, with the start of the second worker, and the pause."""
    folder = lab.own_folder("migration")
    control_socket = folder / "control.sock"
    with (
        running(folder, "cpu", 2, control={"socket": str(control_socket)}) as ours,
        ControlCaller(control_socket) as control,
    ):
        data = np.random.default_rng(1).integers(0, 255, BYTES, np.uint8)
        ours.device.upload(data, lab.staging(ours.device, BYTES))
        migrations = Migrations(control)
        floor, whole = alternate(lab.samples(9, 3), _memcpy(), migrations)
        yield outcome("migrate_ms", whole, "ms", "lower", floor, against="memcpy of 64 MiB")
        pause = whole if isinstance(whole, SkipRow) else float(np.median(migrations.pauses[1:]))
        yield outcome("migrate_pause_ms", pause, "ms", "lower", floor, against="memcpy of 64 MiB")
