"""Records that kernels make with vgc.h, and records about them: printf, assertions, faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.unit.control_rig import ControlRig, control_rig, laid_out
from tests.unit.cpu_rig import LaunchError, Shape
from tests.waiting import until
from vhost_backend._dataplane import lib
from virtio_proto.control.records import Function, Level, Record, describe

REPOSITORY = Path(__file__).resolve().parents[2]

KERNELS = r"""
#include <vgc.h>
__global__ void print_all(unsigned char *own) {
    enum kind { NONE, SOME = 7 };
    vgc_printf("%d %u %ld %llu|%hhd %c|%5.2f %g|%s %s|%x %p %% %d", -3, 4000000000u, -5000000000l, ~0ull,
               (signed char)-1, 'z', 2.5f, 1e100, "text", (char *)own, 0xbeef, (void *)0x1234, SOME);
    vgc_printf("nothing else");
}
__global__ void logs() {
    vgc_log(VGC_CRITICAL, "critical");
    vgc_log(VGC_ERROR, "error %d", 1);
    vgc_log(VGC_WARNING, "warning");
    vgc_log(VGC_INFO, "info");
    vgc_log(VGC_DEBUG, "debug");
}
__global__ void counts(int rounds) {
    for (int i = 0; i < rounds; i++) {
        vgc_count("rows", 3);
        vgc_count("columns");
        vgc_count("less", -1);
    }
}
__global__ void gauges(const double *values, int count) {
    for (int i = 0; i < count; i++)
        vgc_gauge("temperature", values[i]);
}
__global__ void many_counters() {
    vgc_count("0"); vgc_count("1"); vgc_count("2"); vgc_count("3"); vgc_count("4"); vgc_count("5"); vgc_count("6");
    vgc_count("7"); vgc_count("8"); vgc_count("9"); vgc_count("10"); vgc_count("11"); vgc_count("12"); vgc_count("13");
    vgc_count("14"); vgc_count("15"); vgc_count("16"); vgc_count("17"); vgc_count("18"); vgc_count("19");
    vgc_count("20"); vgc_count("21"); vgc_count("22"); vgc_count("23"); vgc_count("24"); vgc_count("0");
}
__global__ void warns() {
    vgc_fault(12, "row %d of %s", 4, "A");
}
__global__ void echo(char *into, unsigned *sizes, int reads, unsigned size) {
    for (int i = 0; i < reads; i++) {
        sizes[i] = vgc_read(into, size);
        into += sizes[i];
    }
}
__global__ void prints(int blocks) {
    if (threadIdx.x % 32 == 0)
        printf("block %d warp %d\n", blockIdx.x, threadIdx.x / 32);
}
__global__ void fails(int what) {
    __shared__ int shared;
    if (what == 0)
        assert(threadIdx.x > 99);
    if (what == 1)
        __trap();
    if (threadIdx.x == 0) {
        __syncwarp(0xffffffff);
        shared = 1;
    } else
        __syncthreads();
}
__global__ void polls(volatile int *polled) {
    while (vgc_poll())
        *polled = 1;
    *polled = 2;
}
"""


@pytest.fixture
def one() -> Iterator[ControlRig]:
    with control_rig(pes=1) as made:
        made.load(KERNELS)
        yield made


def bind(made: ControlRig, function: Function, level: int = Level.DEBUG, **how: int) -> None:
    """Binds the function on element 0 to the channel of the function's number + 1."""
    made.area.open(function + 1, function, **how)
    made.area.bind(0, function, function + 1, level)


def heard(made: ControlRig, function: Function) -> list[Record]:
    return made.area.take(function + 1)


def said(made: ControlRig, record: Record) -> str:
    """The record's text for people; the engine supplies the texts at the addresses in it."""
    texts = {word: made.text(word) for word in record.words()}
    return describe(record, {word: text for word, text in texts.items() if isinstance(text, str)})


def launch(made: ControlRig, name: str, *args: object, grid: Shape = 1, block: Shape = 1) -> None:
    made.rig.launch(name, grid, block, *args)


# ---- unbound -----------------------------------------------------------------------------------------------------


def test_a_kernel_without_open_channels_runs_normally(one: ControlRig) -> None:
    own, sizes = one.rig.array(8, np.uint8), one.rig.array(4, np.uint32, 9)
    launch(one, "print_all", own)
    launch(one, "logs")
    launch(one, "counts", np.int32(10))
    launch(one, "echo", own, sizes, np.int32(4), np.uint32(2))
    assert list(sizes) == [0, 0, 0, 0], "reading ends at once"
    assert one.area.pe(0).counters[0].name == 0


# ---- stdio, out --------------------------------------------------------------------------------------------------


def test_every_kind_of_argument_arrives(one: ControlRig) -> None:
    own = one.rig.array(6, np.uint8, list(b"made\0!"))
    bind(one, Function.STDIO)
    launch(one, "print_all", own)
    found = [said(one, record) for record in heard(one, Function.STDIO)]
    assert found == [
        f"-3 4000000000 -5000000000 {2**64 - 1}|-1 z| 2.50 1e+100|text made|beef 0x1234 % 7",
        "nothing else",
    ]


def test_plain_printf_of_a_kernel_reaches_the_channel(one: ControlRig) -> None:
    bind(one, Function.STDIO)
    launch(one, "prints", np.int32(2), grid=2, block=64)
    found = heard(one, Function.STDIO)
    texts = [f"block {block} warp {warp}\n" for block in range(2) for warp in range(2)]
    assert [record.payload.decode() for record in found] == texts
    assert [(record.block, record.warp) for record in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert one.rig.take_output()[0] == "".join(texts), "and where they always were"


# ---- stdio, in ---------------------------------------------------------------------------------------------------


def test_a_kernel_reads_its_input(one: ControlRig) -> None:
    into, sizes = one.rig.array(64, np.uint8), one.rig.array(3, np.uint32)
    bind(one, Function.STDIO, in_bytes=16, wait_ns=int(ANSWERS_WITHIN_S * 1e9))
    with one.running("echo", 1, 1, into, sizes, np.int32(3), np.uint32(10)):
        (wants,) = until(lambda: heard(one, Function.STDIO))
        assert (wants.kind, wants.words()) == ("wants", (10,))
        one.area.send(1, b"first ")
        took = until(lambda: heard(one, Function.STDIO))
        assert (took[0].kind, took[0].payload) == ("took", b"first ")
        one.area.send(1, b"second, long", eof=True)
    assert list(sizes) == [6, 10, 2], "as soon as there is something, at most what was asked for"
    assert bytes(into[:18]) == b"first second, long"


def test_reading_ends_at_the_end_of_the_input(one: ControlRig) -> None:
    into, sizes = one.rig.array(64, np.uint8), one.rig.array(3, np.uint32, 9)
    bind(one, Function.STDIO, in_bytes=16, wait_ns=2**62)
    one.area.send(1, b"all", eof=True)
    launch(one, "echo", into, sizes, np.int32(3), np.uint32(10))
    assert list(sizes) == [3, 0, 0]


def test_reading_waits_no_longer_than_the_deadline(one: ControlRig) -> None:
    into, sizes = one.rig.array(64, np.uint8), one.rig.array(1, np.uint32, 9)
    bind(one, Function.STDIO, in_bytes=16, wait_ns=1000)
    launch(one, "echo", into, sizes, np.int32(1), np.uint32(10))
    assert sizes[0] == 0


def test_reading_ends_when_the_channel_is_released(one: ControlRig) -> None:
    into, sizes = one.rig.array(64, np.uint8), one.rig.array(1, np.uint32, 9)
    bind(one, Function.STDIO, in_bytes=16, wait_ns=2**62)
    with one.running("echo", 1, 1, into, sizes, np.int32(1), np.uint32(10)):
        until(lambda: heard(one, Function.STDIO))
        one.area.release(0, Function.STDIO)
    assert sizes[0] == 0


def test_input_goes_round_in_its_link(one: ControlRig) -> None:
    into, sizes = one.rig.array(256, np.uint8), one.rig.array(1, np.uint32)
    bind(one, Function.STDIO, in_bytes=16, wait_ns=2**62)
    for lap in range(20):
        one.area.send(1, bytes(range(lap, lap + 7)))
        launch(one, "echo", into, sizes, np.int32(1), np.uint32(256))
        assert bytes(into[: sizes[0]]) == bytes(range(lap, lap + 7))


# ---- log, perf ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", list(Level)[1:])
def test_logs_are_filtered_by_level(one: ControlRig, level: Level) -> None:
    bind(one, Function.LOG, level)
    launch(one, "logs")
    names = ["critical", "error 1", "warning", "info", "debug"]
    assert [said(one, record) for record in heard(one, Function.LOG)] == names[:level]


def counters_of(made: ControlRig) -> dict[object, int]:
    return {made.text(counter.name): counter.value for counter in made.area.pe(0).counters if counter.name}


def test_counters_are_added_to_by_all_threads(one: ControlRig) -> None:
    bind(one, Function.PERF, Level.CRITICAL)
    launch(one, "counts", np.int32(5), grid=3, block=40)
    assert counters_of(one) == {"rows": 1800, "columns": 600, "less": -600}
    assert heard(one, Function.PERF) == [], "they are looked at, not sent"


def test_a_counter_beyond_the_limit_has_no_effect(one: ControlRig) -> None:
    bind(one, Function.PERF, Level.CRITICAL)
    launch(one, "many_counters")
    assert counters_of(one) == {str(number): 1 + (number == 0) for number in range(lib.VGC_CTL_COUNTERS)}


def test_a_gauge_that_crosses_a_threshold_makes_a_record(one: ControlRig) -> None:
    bind(one, Function.PERF)
    values = one.rig.array(9, np.float64, [5, 50, 9, 11, 99, 10, 3, 2, 4.5])
    launch(one, "gauges", values[:1], np.int32(1))
    gauge = one.area.pe(0).gauges[0]
    assert (one.text(gauge.name), gauge.value, gauge.low, gauge.high) == ("temperature", 5, -np.inf, np.inf)
    launch(one, "gauges", values, np.int32(2))
    assert heard(one, Function.PERF) == [], "without thresholds there are no crossings"
    gauge.low, gauge.high = 4, 10
    launch(one, "gauges", values[2:], np.int32(7))
    crossings = [np.frombuffer(r.payload, np.float64)[1:].tolist() for r in heard(one, Function.PERF)]
    assert crossings == [[9, 10], [11, 10], [10, 10], [3, 4], [4.5, 4]]


# ---- fault -------------------------------------------------------------------------------------------------------


def test_a_kernel_reports_a_fault_of_its_own(one: ControlRig) -> None:
    launch(one, "warns")
    bind(one, Function.FAULT)
    launch(one, "warns")
    (record,) = heard(one, Function.FAULT)
    assert record.words()[0] == lib.VGC_CTL_FAULT_USER + 12
    assert said(one, record) == "row 4 of A"
    assert one.area.pe(0).faults == 2, "counted whether anybody listens or not"


@pytest.mark.parametrize(
    ("what", "code", "text"),
    [(0, "ASSERT", "Assertion `threadIdx.x > 99` failed."), (1, "TRAP", "__trap()"), (2, "DEADLOCK", "wait for each")],
)
def test_a_failed_launch_makes_a_fault_record(one: ControlRig, what: int, code: str, text: str) -> None:
    bind(one, Function.FAULT)
    bind(one, Function.PERF)
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    with pytest.raises(LaunchError) as error:
        launch(one, "fails", np.int32(what), block=64)
    (record,) = heard(one, Function.FAULT)
    assert record.words()[0] == getattr(lib, f"VGC_CTL_FAULT_{code}")
    assert record.level == Level.CRITICAL
    assert text in record.payload[8:].decode() == str(error.value)
    assert [r.kind for r in heard(one, Function.PERF)] == ["block_begin", "block_end"], "the block that was left ended"


@pytest.mark.parametrize(
    ("kernel", "shape", "block", "thread"),
    [
        ("dies", (2, 32), 1, 0),
        ("dies_late", (1, 96), 0, 70),
        ("dies_in_strip", (64, 4), 25, 0),
        ("dies_in_strip", (4, 64), 1, 36),
    ],
)
def test_the_fault_record_of_a_dying_worker_is_in_the_area(
    kernel: str, shape: tuple[int, int], block: int, thread: int
) -> None:
    """A worker that dies of a kernel's fault leaves the record in the area, which the daemon has mapped, too."""
    with laid_out(pes=1) as area:
        os.set_inheritable(area.fd, True)
        argv = [sys.executable, "-m", "tests.unit.control_fault_child", str(area.fd), kernel, *map(str, shape)]
        done = subprocess.run(
            argv, cwd=REPOSITORY, capture_output=True, text=True, close_fds=False, check=False, timeout=HANGS_AFTER_S
        )
        assert done.returncode == lib.VGC_EXIT_FATAL, done.stdout + done.stderr
        area.device = area.channel(1).out - area.next_link
        area.tails[1] = 0
        (record,) = area.take(1)
        assert record.words()[0] == lib.VGC_CTL_FAULT_KERNEL
        assert (record.block, record.warp) == (block, thread // 32)
        said = record.payload[8:].decode()
        assert said.startswith("invalid address 0x")
        assert said.endswith(f"in kernel '{kernel}', block ({block},0,0), thread ({thread},0,0)")


# ---- polling -----------------------------------------------------------------------------------------------------


def test_a_loop_that_polls_ends_when_its_launch_is_cancelled(one: ControlRig) -> None:
    polled = one.rig.array(1, np.int32)
    with one.cancelled("polls", 1, 1, polled):
        until(lambda: polled[0] == 1)
    assert polled[0] == 2


def test_a_poll_answers_a_snapshot_in_the_middle_of_a_block(one: ControlRig) -> None:
    polled = one.rig.array(1, np.int32)
    with one.cancelled("polls", 1, 1, polled):
        until(lambda: polled[0] == 1)
        bind(one, Function.SNAPSHOT)
        one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
        (state,) = until(lambda: heard(one, Function.SNAPSHOT))
        assert one.text(state.words()[0]) == one.rig.functions["polls"].name
