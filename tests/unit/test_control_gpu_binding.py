"""Binding table of the control code on processing elements, on the CPU engine: a binding takes effect in a running kernel."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.control_rig import GATED, ControlRig, attach, control_rig, let_end
from tests.unit.cpu_rig import rig
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from virtio_proto.control import records
from virtio_proto.control.records import Function, Level
from virtio_proto.control.selector import FUNCTIONS

HEADER = Path(__file__).parents[2] / "kernels" / "control" / "vgc_control.h"


@pytest.fixture
def one() -> Iterator[ControlRig]:
    """A rig with one element, so that blocks run in order."""
    with control_rig(pes=1) as made:
        made.load(GATED)
        yield made


def test_a_function_is_bound_and_released_while_its_kernel_runs(one: ControlRig) -> None:
    gate, area = one.rig.array(2, np.int32), one.area
    area.open(1, Function.PERF)
    with one.running("gated", 5, 32, gate):
        let_end(gate, 1)
        area.bind(0, Function.PERF, 1)
        area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
        let_end(gate, 3)  # block 1 began unseen, block 2 is seen whole, block 3 begins
        area.attend(0, 0)
        area.release(0, Function.PERF)
        gate[0] = 5
    assert [(r.kind, r.block) for r in area.take(1)] == [("block_begin", 2), ("block_end", 2), ("block_begin", 3)]
    assert area.pe(0).blocks == 2, "the block that was running when it was released counts"


def test_block_records_name_kernel_launch_and_duration(one: ControlRig) -> None:
    area = one.area
    area.open(1, Function.PERF)
    area.bind(0, Function.PERF, 1)
    area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    one.rig.launch("say", 1, 96, np.int32(0))
    begin, end = area.take(1)
    assert one.text(begin.words()[0]) == one.rig.functions["say"].name
    assert begin.words()[1:] == (1, 96)
    assert end.words()[:2] == begin.words()[:2]
    assert end.words()[2] == end.time_ns - begin.time_ns
    row = area.pe(0)
    assert (row.blocks, row.warps_done, row.launches, row.busy_ns) == (1, 3, 1, end.words()[2])


def test_attended_blocks_are_counted_even_without_records(one: ControlRig) -> None:
    one.area.open(1, Function.PERF)
    one.area.bind(0, Function.PERF, 1, Level.CRITICAL)
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    one.rig.launch("say", 10, 32, np.int32(1))
    assert one.area.pe(0).blocks == 10
    assert one.area.take(1) == []


def apart(passed_ns: int) -> int:
    """Possible error of the processor's counter, that long after its comparison with the clock."""
    return 100_000 + passed_ns // 256


def test_times_are_those_of_the_monotonic_clock(one: ControlRig) -> None:
    one.area.open(1, Function.PERF)
    one.area.bind(0, Function.PERF, 1)
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    before = time.monotonic_ns()
    one.rig.launch("say", 5, 32, np.int32(1))
    after = time.monotonic_ns()
    times = [record.time_ns for record in one.area.take(1)]
    assert before - apart(after - before) < times[0] <= times[-1] < after + apart(after - before)
    assert times == sorted(times)


def test_an_elements_figures_add_up_over_launches(one: ControlRig) -> None:
    one.area.open(1, Function.LOAD)
    one.area.bind(0, Function.LOAD, 1)
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    before = time.monotonic_ns()
    for _ in range(3):
        one.rig.launch("say", 4, 64, np.int32(0))
    passed, row = time.monotonic_ns() - before, one.area.pe(0)
    assert (row.launches, row.blocks, row.warps_done) == (3, 12, 24)
    assert 0 < row.busy_ns + row.stall_ns <= passed + apart(passed)
    assert (row.kernel, row.warps) == (0, 0), "it runs nothing any more"


def test_nothing_is_counted_while_nothing_is_attended(one: ControlRig) -> None:
    one.rig.launch("say", 10, 32, np.int32(1))
    row = one.area.pe(0)
    assert (row.blocks, row.launches, row.busy_ns, row.since_ns) == (0, 0, 0, 0)


@pytest.mark.parametrize("number", [0, 63, 64, 65535])
def test_a_bind_word_with_an_impossible_channel_has_no_effect(one: ControlRig, number: int) -> None:
    for function in Function:
        one.area.pe(0).bind[function] = 7 << 32 | number << 16 | 5 << 8
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    one.rig.launch("say", 2, 32, np.int32(3))
    assert one.area.pe(0).readers == 0
    assert one.area.channel(63).records == 0


def test_a_bind_word_of_an_earlier_generation_has_no_effect(one: ControlRig) -> None:
    one.area.open(1, Function.PERF)
    one.area.bind(0, Function.PERF, 1)
    one.area.channel(1).generation += 1
    one.rig.launch("say", 1, 32, np.int32(3))
    assert one.area.channel(1).records == 0


def test_the_engine_reports_the_state_of_an_element(one: ControlRig) -> None:
    gate = one.rig.array(2, np.int32)
    assert one.look(0) is None
    assert one.look(1) is None, "there is no such element"
    with one.running("gated", 3, 64, gate):
        let_end(gate, 1)
        state = one.look(0)
        assert one.text(state.kernel) == one.rig.functions["gated"].name
        assert (state.block, state.warps) == (1, 2)
        gate[0] = 3
    until(lambda: one.look(0) is None)


def test_a_snapshot_is_answered_once_per_binding(one: ControlRig) -> None:
    gate, area = one.rig.array(2, np.int32), one.area
    area.open(1, Function.SNAPSHOT)
    with one.running("gated", 6, 32, gate):
        let_end(gate, 1)
        area.bind(0, Function.SNAPSHOT, 1)
        area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
        let_end(gate, 3)
        (state,) = area.take(1)
        assert (state.kind, state.words()[2]) == ("state", 2)
        area.release(0, Function.SNAPSHOT)
        area.open(2, Function.SNAPSHOT)
        area.bind(0, Function.SNAPSHOT, 2)
        gate[0] = 6
    assert [record.words()[2] for record in area.take(2)] == [4]


def test_an_idle_element_answers_when_it_is_kicked(one: ControlRig) -> None:
    one.area.open(1, Function.SNAPSHOT)
    one.area.bind(0, Function.SNAPSHOT, 1)
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    one.kick()
    state = until(lambda: one.area.take_one(1))
    assert state.words()[0] == 0, "it runs no kernel"


def test_texts_are_those_of_loaded_programs_only(one: ControlRig) -> None:
    program = one.rig.programs[0]
    name = int(ffi.cast("uintptr_t", one.rig.functions["say"].kernel.name))
    assert one.text(name) == "_Z3sayi"
    assert one.text(name, room=4) == "_Z3"
    for address in (0, 1, one.area.device, 2**64 - 1, name + (1 << 30)):
        assert one.text(address) == -14, "EFAULT"
    one.rig.engine.unload_program(program)
    one.rig.programs.remove(program)
    assert one.text(name) == -14


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("magic", 1),
        ("version", 2),
        ("size", 1),
        ("num_pes", 0),
        ("num_pes", 5000),
        ("num_channels", 1 << 20),
        ("pes", 4097),
        ("pes", 8),
        ("pes", 1 << 40),
        ("channels", 2**64 - 64),
    ],
)
def test_an_area_that_does_not_fit_is_refused(field: str, value: int) -> None:
    with control_rig(pes=1) as other, rig(1) as fresh:
        setattr(other.area.at("struct vgc_ctl_area", 0), field, value)
        with pytest.raises(AssertionError, match="Invalid argument"):
            attach(fresh, other.area)


def test_an_area_is_attached_once(one: ControlRig) -> None:
    with pytest.raises(AssertionError, match=os.strerror(16)):
        attach(one.rig, one.area)


def test_the_device_sees_the_area_at_an_address_of_its_own(one: ControlRig) -> None:
    host = int(ffi.cast("uintptr_t", ffi.from_buffer(one.area.memory)))
    assert one.area.device not in (0, host)


def test_records_mean_the_same_to_the_device_and_to_the_host() -> None:
    text = HEADER.read_text()
    assert [getattr(lib, f"VGC_CTL_{name.upper()}") for name in FUNCTIONS] == list(range(len(FUNCTIONS)))
    assert {level.name: getattr(lib, f"VGC_CTL_{level.name}") for level in Level} == {v.name: v.value for v in Level}
    types = re.search(r"enum vgc_ctl_type \{(.*?)\n\};", text, re.DOTALL)
    assert types is not None
    found = re.findall(r"VGC_CTL_([A-Z]+)_([A-Z_]+) = (\d+)", types[1])
    assert {(f, int(n)): t.lower() for f, t, n in found} == {
        (function.name, number): name for function, names in records.TYPES.items() for number, name in names.items()
    }
    assert lib.VGC_CTL_MAX_PAYLOAD == records.MAX_PAYLOAD


def test_structs_have_the_sizes_that_others_count_on() -> None:
    sizes = {"record": 64, "more": 64, "pe": 1024, "channel": 256, "area": 64, "gauge": 32, "counter": 16}
    assert {name: ffi.sizeof(f"struct vgc_ctl_{name}") for name in sizes} == sizes
    fields = struct.Struct("<QBBHHHII")
    assert ffi.offsetof("struct vgc_ctl_record", "payload") == 8 + fields.size == 8 + records.HEADER.size
    assert [ffi.offsetof("struct vgc_ctl_pe", name) for name in ("attention", "readers", "blocks", "gauges")] == [
        64,
        128,
        192,
        256,
    ]
