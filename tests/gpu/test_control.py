"""The control system on a GPU: what kernels that were compiled here say, while they run, and what they are told.

On hardware only: the fake GPU runs no code. Which SM a block runs on is the GPU's affair, so channels are opened on all.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from bench.cuda.gpu import Gpu
from tests.protocol.control_worker_rig import SOURCE, ControlWorkerRig, control_worker_rig
from tests.unit.cuda_compile_rig import compile_image
from vhost_backend.engines.cuda.compiler.trailer import with_kinds
from vhost_backend.worker.control_messages import ControlSend, ControlSnapshot
from vhost_backend.worker.protocol import EngineSetup
from virtio_proto.control.records import Function, Record

pytestmark = pytest.mark.gpu
BLOCK_BEGIN, BLOCK_END, WANTS = 1, 2, 3
BLOCKS = 1000
MEMORY_BYTES = 4 << 30
"""Programs are charged a stack for every thread that can be resident."""
MORE = """
#include <cstdio>
extern "C" __global__ void prints(int number) { printf("number %d of %s, %.1f\\n", number, "text", 2.5); }
extern "C" __global__ void blocks() { }
"""


class Watched:
    """A worker on the GPU with `SOURCE` and `MORE` loaded."""

    def __init__(self, rig: ControlWorkerRig, gpu: Gpu) -> None:
        self.rig = rig
        self.sms = list(range(gpu.num_pes))
        self.channels = [sm + 1 for sm in self.sms]
        image, log = compile_image(SOURCE + MORE, arch=gpu.arch)
        assert "will not see" not in log
        self.functions = rig.load_image(with_kinds(image, b""))

    def open(self, function: Function, **terms: Any) -> None:
        assert self.rig.open(function, self.channels, self.sms, **terms).ok

    def records(self) -> list[Record]:
        return [record for channel in self.channels for record in self.rig.seen.records(channel)]

    def lines(self) -> list[str]:
        return [line for channel in self.channels for line in self.rig.seen.lines(channel)]

    def await_records(self, count: int, *types: int) -> None:
        self.rig.read_until(lambda: len([r for r in self.records() if not types or r.type in types]) >= count)


@pytest.fixture
def watched(real_gpu: Gpu) -> Iterator[Watched]:
    engine = EngineSetup("cuda", real_gpu.engine()["options"])
    with control_worker_rig(pes=real_gpu.num_pes, engine=engine, memory_bytes=MEMORY_BYTES) as rig:
        yield Watched(rig, real_gpu)


def test_a_channel_is_bound_and_released_while_a_kernel_runs(watched: Watched) -> None:
    rig = watched.rig
    pending = rig.run_gated(watched.functions["speaks"])
    rig.set_gate(5)
    rig.wait_made(5)
    watched.open(Function.LOG)
    rig.set_gate(8)
    rig.wait_made(8)
    watched.await_records(3)
    assert rig.release(watched.channels).ok
    rig.set_gate(10)
    rig.wait_made(10)
    rig.set_gate(-1)
    rig.finish(pending)
    assert watched.lines() == [f"record {number} of speaks" for number in (5, 6, 7)]


def test_begin_and_end_of_every_block_are_recorded(watched: Watched) -> None:
    watched.open(Function.PERF, slots=128)
    watched.rig.finish(watched.rig.run(watched.functions["blocks"], blocks=BLOCKS))
    watched.await_records(2 * BLOCKS, BLOCK_BEGIN, BLOCK_END)
    assert watched.rig.release(watched.channels).ok
    for kind in (BLOCK_BEGIN, BLOCK_END):
        assert sorted(record.block for record in watched.records() if record.type == kind) == list(range(BLOCKS))
    assert sum(watched.rig.seen.last(channel).lost for channel in watched.channels) == 0


def test_what_printf_says_arrives(watched: Watched) -> None:
    watched.open(Function.STDIO)
    watched.rig.finish(watched.rig.run(watched.functions["prints"], (7).to_bytes(4, "little")))
    watched.await_records(1)
    assert watched.lines() == ["number 7 of text, 2.5\n"]


def test_a_kernel_is_told_what_was_typed(watched: Watched) -> None:
    rig = watched.rig
    watched.open(Function.STDIO, in_bytes=256, wait_ns=10**10)
    pending = rig.run_gated(watched.functions["echoes"])
    watched.await_records(1, WANTS)
    waiting = next(record.pe for record in watched.records() if record.type == WANTS)
    data = base64.b64encode(b"typed").decode()
    assert rig.command(ControlSend, channel=waiting + 1, data=data, eof=False).ok
    rig.finish(pending)
    rig.read_until(lambda: "got typed" in watched.lines())


def test_all_elements_answer_a_snapshot(watched: Watched) -> None:
    assert watched.rig.command(ControlSnapshot, number=1, deadline_ms=1000).ok


def test_channels_of_every_function_on_every_element(watched: Watched) -> None:
    functions = (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT, Function.LOAD)
    opened: list[int] = []
    for function in functions:
        channels = [len(opened) + number for number in watched.channels]
        assert watched.rig.open(function, channels, watched.sms).ok
        opened += channels
    watched.rig.finish(watched.rig.run(watched.functions["blocks"], blocks=BLOCKS))
    assert watched.rig.release(opened).ok
