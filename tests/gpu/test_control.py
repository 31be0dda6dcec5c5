"""The control system on a GPU: records of kernels that were compiled here, while they run, and input to them.

On hardware only: the fake GPU runs no code. Which SM a block runs on is the GPU's affair, so channels are opened on all.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.cuda.gpu import Gpu
from tests.protocol.control_worker_rig import SOURCE, ControlWorkerRig, control_worker_rig
from tests.unit.cuda_compile_rig import compile_image
from vhost_backend.channels.packets import DeviceState
from vhost_backend.control.links.channel_port import DRIFT_DIVISOR
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.compiler.trailer import with_kinds
from vhost_backend.worker_protocol.control_messages import ControlSend, ControlSnapshot
from vhost_backend.worker_protocol.protocol import EngineSetup
from virtio_proto.control.records import Function, Record

pytestmark = pytest.mark.gpu
BLOCK_BEGIN, BLOCK_END, WANTS = 1, 2, 3
BLOCKS = 1000
STREAMS = 40
"""Number of streams: more than the connections to a GPU."""
MEMORY_BYTES = 4 << 30
"""Quota of device memory: programs are charged a stack for every thread that can be resident."""
MORE = """
#include <assert.h>
#include <cstdio>
extern "C" __global__ void prints(int number) { printf("number %d of %s, %.1f\\n", number, "text", 2.5); }
extern "C" __global__ void blocks() { }
extern "C" __global__ void waits(const int *gate) { while (*(const volatile int *)gate != -1) { } }
extern "C" __global__ void deep(int seed)
{
    volatile int frame[2048];
    for (int i = 0; i < 2048; i++)
        frame[(i * 7 + seed) % 2048] = i;
    assert(frame[seed % 2048] >= 0);
}
"""


class Watched:
    """A worker on the GPU with `SOURCE` and `MORE` loaded."""

    def __init__(self, rig: ControlWorkerRig, gpu: Gpu) -> None:
        self.rig = rig
        self.sms = list(range(gpu.num_pes))
        self.channels = [sm + 1 for sm in self.sms]
        image, log = compile_image(SOURCE + MORE, arch=gpu.arch)
        assert cubin.parse(image).hooks is not None, log
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
    with control_worker_rig(pes=real_gpu.num_pes, engine=engine, memory_bytes=MEMORY_BYTES, max_streams=STREAMS) as rig:
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


def test_printed_text_arrives(watched: Watched) -> None:
    watched.open(Function.STDIO)
    watched.rig.finish(watched.rig.run(watched.functions["prints"], (7).to_bytes(4, "little")))
    watched.await_records(1)
    assert watched.lines() == ["number 7 of text, 2.5\n"]


def test_records_have_the_hosts_times(watched: Watched) -> None:
    """Times are right within the error that the engine reports: some microseconds, soon after its readings."""
    watched.open(Function.STDIO)
    before = time.monotonic_ns()
    watched.rig.finish(watched.rig.run(watched.functions["prints"], (7).to_bytes(4, "little")))
    after = time.monotonic_ns()
    watched.await_records(1)
    told = watched.rig.read_until(
        lambda: [packet for packet in watched.rig.seen.packets if isinstance(packet, DeviceState)]
    )[-1]
    assert told.clock_error_ns is not None
    error_ns = told.clock_error_ns + abs(after - told.clock_read_ns) // DRIFT_DIVISOR
    (record,) = watched.records()
    assert before - error_ns <= record.time_ns <= after + error_ns
    assert told.num_pes >= len(watched.sms)


def test_channels_are_opened_beside_more_busy_streams_than_connections(watched: Watched) -> None:
    """Two streams that share a connection wait for each other; the control system's stream must share none."""
    rig = watched.rig
    rig.set_gate(0)
    gate = rig.gate_address().to_bytes(8, "little")
    pending = [rig.run(watched.functions["waits"], gate, stream=stream) for stream in range(STREAMS)]
    watched.open(Function.LOG)
    assert rig.release(watched.channels).ok
    rig.set_gate(-1)
    for launch in pending:
        rig.finish(launch)


def test_a_kernel_with_a_larger_stack_starts_beside_a_running_one(watched: Watched) -> None:
    rig = watched.rig
    rig.set_gate(0)
    waiting = rig.run(watched.functions["waits"], rig.gate_address().to_bytes(8, "little"))
    rig.finish(rig.run(watched.functions["deep"], (3).to_bytes(4, "little"), stream=1))
    rig.set_gate(-1)
    rig.finish(waiting)


def test_a_kernel_reads_typed_input(watched: Watched) -> None:
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
