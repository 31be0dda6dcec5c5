"""CPU engines with and without a control area, in this process, for the rows of the control system."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np

from tests.unit.cpu_rig import Rig, compile_image, make_launch, rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.channels.area import ControlArea
from vhost_backend.channels.driver import Driver
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control.records import Function
from virtio_proto.schema import Status

SOURCE: Final = r"""
#include <vgc.h>
extern "C" __global__ void spins(float *out, int turns) {
    float x = threadIdx.x + 1.0f;
    for (int i = 0; i < turns; i++)
        x = x * 0.999f + 0.5f;
    out[blockIdx.x % 64 * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void events(int count) {
    for (int i = 0; i < count; i++)
        vgc_event("event", i);
}
extern "C" __global__ void waits(volatile int *gate) {
    while (gate[0] == 0)
        ;
}
"""
THREADS: Final = 64
SOCKET_S: Final = 0.002
"""Shortest period of a worker's control system thread."""


class Controlled:
    """Engine with `SOURCE` loaded; with a control area also a driver, whose links a thread can empty."""

    def __init__(self, made: Rig, image: bytes, driver: Driver | None) -> None:
        self.rig = made
        self._driver = driver
        made.load_image(image)
        self.out = made.array((64 * THREADS,), np.float32)
        self.taken = 0
        self.lost = 0
        self._generations = itertools.count(1)
        self._done = threading.Event()
        self._counts: dict[int, tuple[int, int]] = {}

    @property
    def driver(self) -> Driver:
        assert self._driver is not None  # the engine was made with an area
        return self._driver

    def spin(self, blocks: int, turns: int) -> float:
        """Runs `blocks` blocks; returns the time in ns."""
        began_ns = time.perf_counter_ns()
        self.rig.launch("spins", blocks, THREADS, self.out, np.int32(turns))
        return time.perf_counter_ns() - began_ns

    def turns_for(self, block_us: float) -> int:
        """Number of turns of ``spins`` with which a block takes `block_us`, all elements busy."""
        probe = 1 << 12
        ns = min(self.spin(64, probe) for _ in range(5)) / 64 * self.rig.engine.num_pes
        return max(1, int(probe * block_us * 1000 / ns))

    def turns_for_one(self, seconds: float) -> int:
        """Number of turns of ``spins`` with which a single block takes `seconds`."""
        probe = 1 << 14
        return max(1, int(probe * seconds * 1e9 / min(self.spin(1, probe) for _ in range(5))))

    def open(self, function: Function, level: int, first: int = 1, pes: Sequence[int] = (), **terms: int) -> range:
        chosen = pes or range(self.rig.engine.num_pes)
        channels = range(first, first + len(chosen))
        generations = [next(self._generations) for _ in channels]
        self.driver.open(Terms(function, level=level, **terms), chosen, channels, generations)
        return channels

    def release(self, channels: Sequence[int]) -> None:
        """Closes channels after emptying their links; `taken` and `lost` are then complete."""
        self.driver.unbind(channels)
        while self.driver.unsettled():
            self._drain()
        self.driver.close_channels(channels)

    def _drain(self) -> bool:
        packet = self.driver.drain(time.monotonic_ns())
        if packet is None:
            return False
        for section in packets.sections(bytes(packet[1:])):
            final = self._counts.get(section.channel, (0, 0))
            self.taken += section.taken - final[0]
            self.lost += section.lost - final[1]
            self._counts[section.channel] = (section.taken, section.lost)
        self.driver.drained(sent=True)
        return True

    @contextmanager
    def drained(self, budget_ppm: int = 0) -> Iterator[None]:
        """Empties the links in a thread during the block, as a worker does; with a budget, also governs."""
        self._counts, self.taken, self.lost = {}, 0, 0
        self._done.clear()

        def run() -> None:
            governed = 0.0
            while not self._done.is_set():
                if not self._drain():
                    self._done.wait(SOCKET_S)
                if budget_ppm and time.monotonic() - governed > 0.05:
                    governed = time.monotonic()
                    self.driver.govern(time.monotonic_ns(), budget_ppm)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    @contextmanager
    def busy(self, blocks: int) -> Iterator[None]:
        """Runs a kernel on `blocks` elements during the block."""
        gate = self.rig.array((1,), np.int32)
        op, _keep = make_launch(self.rig.functions["waits"], blocks, 1, (gate,))
        engine: Any = self.rig.engine.handle
        assert engine.ops.submit(engine, op) == lib.VGC_QUEUED
        try:
            yield
        finally:
            gate[0] = 1
            while lib.vgc_engine_take_finished(engine) == ffi.NULL:
                time.sleep(SOCKET_S)
            assert op.status == Status.OK


@contextmanager
def controlled(pes: int, *, area_bytes: int = 0, channels: int = 4096) -> Iterator[Controlled]:
    """Yields an engine, with a control area if `area_bytes` is not 0."""
    image = compile_image(SOURCE)[0]
    with ExitStack() as stack:
        made = stack.enter_context(rig(pes))
        driver = None
        if area_bytes:
            area = stack.enter_context(ControlArea(area_bytes))
            driver = Driver(made.engine.handle, area.fd, area_bytes, pes, channels)
        yield Controlled(made, image, driver)
