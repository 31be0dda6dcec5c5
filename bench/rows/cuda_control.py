"""Rows of the control system on a GPU: cost of hooks, beside the same program compiled without, and its throughput.

They use a separate worker, for which this process plays the daemon: with a control area, a record socket and a ring.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from bench.cuda.compile import cubin_of
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Samples, outcome
from bench.workloads import KERNELS
from tests.protocol.control_worker_rig import ControlWorkerRig, control_worker_rig
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.compiler.trailer import with_kinds
from vhost_backend.engines.cuda.toolchain import unhooked
from vhost_backend.worker_protocol.control_messages import ControlSnapshot
from vhost_backend.worker_protocol.protocol import EngineSetup
from virtio_proto.control.records import Function

BLOCK_US: Final = 5.0
CRITICAL, INFO = 1, 4
FEW_SLOTS: Final = 16
AGAINST: Final = f"the same program compiled without hooks, blocks of {BLOCK_US:g} us"
MEMORY_BYTES: Final = 4 << 30
"""Device memory of the VM: enough for the stacks of all threads that a GPU can hold, in a kernel with hooks."""
FUNCTIONS: Final = (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT)


class Hooked:
    """Worker with the busy kernel twice: ``hooked`` and ``plain``, functions of one GPU context."""

    def __init__(self, rig: ControlWorkerRig, lab: Lab) -> None:
        self.rig = rig
        self._gpu = lab.cuda.gpu
        self.sms = list(range(rig.control_pes))
        self.channels = [sm + 1 for sm in self.sms]
        self.blocks = lab.cuda.size(64 * self._gpu.num_pes, 4)
        self._contexts: dict[int, int] = {}
        self.plain, self.hooked = self._load("off"), self._load("on")
        self.rounds = lab.cuda.size(1 << 12, 1)
        if not lab.cuda.smoke:
            with lab.cuda.measured():
                self.rounds = self._rounds_for(BLOCK_US)

    def _load(self, hooks: str) -> int:
        image = cubin_of((KERNELS / "busy.cu").read_bytes(), self._gpu, hooks=hooks)
        has_hooks = cubin.parse(image).hooks is not None
        assert has_hooks == (hooks == "on"), f"compiled with hooks={hooks}: {unhooked(self._gpu.driver_version)}"
        function = self.rig.load_image(with_kinds(image, b""))["busy"]
        self._contexts[function] = self.rig.guest_context
        return function

    def run(self, function: int, blocks: int = 0) -> float:
        """Runs `blocks` blocks of a function; returns the time in seconds."""
        out = self.rig.region_address + self.rig.region.size // 2
        params = struct.pack("<IffxxxxQ", self.rounds, 0.99, 0.01, out)
        self.rig.guest_context = self._contexts[function]
        began = time.perf_counter()
        self.rig.finish(self.rig.run(function, params, blocks or self.blocks))
        return time.perf_counter() - began

    def _rounds_for(self, block_us: float) -> int:
        """Rounds of the kernel's loop with which a block takes an SM `block_us`, without the time of the launch."""
        few, many = (min(self.run(self.plain, blocks) for _ in range(5)) for blocks in (1, self.blocks))
        each_us = (many - few) * 1e6 / (self.blocks / self._gpu.num_pes)
        return max(1, int(self.rounds * block_us / max(each_us, 0.01)))

    def open(self, function: Function, first: int = 0, **terms: Any) -> list[int]:
        channels = [first + channel for channel in self.channels]
        answer = self.rig.open(function, channels, self.sms, **terms)
        assert answer.ok, answer.error
        return channels

    def release(self, channels: list[int]) -> None:
        assert self.rig.release(channels).ok

    def taken(self) -> int:
        """Number of records of all channels that this process has received."""
        self.rig.read()
        last = {section.channel: section.taken for section in self.rig.seen.sections}
        return sum(last.values())


@contextmanager
def hooked(lab: Lab) -> Iterator[Hooked]:
    """Runs a worker on the GPU.

    :raise SkipRow: there is no GPU, or no compiler for it.
    """
    gpu = lab.cuda.gpu
    engine = EngineSetup("cuda", gpu.engine()["options"])
    with control_worker_rig(pes=gpu.num_pes, engine=engine, memory_bytes=MEMORY_BYTES) as rig:
        yield Hooked(rig, lab)


def _ratio(lab: Lab, made: Hooked) -> float:
    """Ratio of the fastest run with hooks to the fastest run without, measured alternately."""
    own, theirs = lab.cuda.alternate(lab.samples(51, 11), lambda: made.run(made.hooked), lambda: made.run(made.plain))
    assert isinstance(own, Samples)
    assert isinstance(theirs, Samples)
    return min(own.values) / min(theirs.values)


@row("cuda_hook_unbound_percent", "cuda_hook_block_percent", "cuda_ring_full_ratio")
def hooks(lab: Lab) -> Iterator[Outcome]:
    """Cost of hooks without channels; with counters on every SM; with records of each block into full links."""
    with hooked(lab) as made:
        percent = (_ratio(lab, made) - 1) * 100
        yield outcome("cuda_hook_unbound_percent", percent, "%", "lower", against=AGAINST)
        channels = made.open(Function.PERF, level=CRITICAL, period_ns=10**9)
        percent = (_ratio(lab, made) - 1) * 100
        yield outcome("cuda_hook_block_percent", percent, "%", "lower", against=AGAINST)
        made.release(channels)
        channels = made.open(Function.PERF, level=INFO, period_ns=10**12, slots=FEW_SLOTS)
        yield outcome("cuda_ring_full_ratio", _ratio(lab, made), "", "lower", 1.0, against=AGAINST)
        made.release(channels)


@row("cuda_records_per_s")
def records(lab: Lab) -> Iterator[Outcome]:
    """Records per second of begins and ends of blocks, from all SMs to one reader."""
    with hooked(lab) as made:
        channels = made.open(Function.PERF, level=INFO, period_ns=10**12, slots=lab.cuda.size(2048, 64))
        (rates,) = lab.cuda.alternate(lab.samples(9, 3), lambda: _records_per_s(made))
        made.release(channels)
    yield outcome("cuda_records_per_s", rates, "1/s", "higher")


def _records_per_s(made: Hooked) -> float:
    before, began = made.taken(), time.perf_counter()
    made.run(made.hooked)
    return (made.taken() - before) / (time.perf_counter() - began)


@row("cuda_channels_open_close_s", "cuda_snapshot_all_ms")
def many(lab: Lab) -> Iterator[Outcome]:
    """Opening and closing of four functions on every SM, and a snapshot of all SMs."""
    with hooked(lab) as made:
        numbers = count(1)
        times, looks = lab.cuda.alternate(
            lab.samples(9, 3), lambda: _open_close_s(made), lambda: _look_ms(made, next(numbers))
        )
    against = f"{len(made.sms)} SMs"
    yield outcome("cuda_channels_open_close_s", times, "s", "lower", against=f"{against}, 4 channels each")
    yield outcome("cuda_snapshot_all_ms", looks, "ms", "lower", against=against)


def _open_close_s(made: Hooked) -> float:
    began = time.perf_counter()
    opened = [made.open(function, place * len(made.sms)) for place, function in enumerate(FUNCTIONS)]
    for channels in opened:
        made.release(channels)
    return time.perf_counter() - began


def _look_ms(made: Hooked, number: int) -> float:
    began = time.perf_counter()
    assert made.rig.command(ControlSnapshot, number=number, deadline_ms=0).ok
    return (time.perf_counter() - began) * 1e3
