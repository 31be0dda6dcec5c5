"""Firmware slots of the CPU engine: control code changes between two blocks, and is rolled back if unhealthy."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.unit.control_rig import GATED, ControlRig, control_rig, let_end
from tests.unit.cpu_rig import compile_image
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from vhost_backend.control.firmware.build import amalgamate
from virtio_proto.control.records import Function

A, B = 0, 1
BUILT_IN = lib.VGC_CTL_BUILT_IN_MAJOR << 32 | lib.VGC_CTL_BUILT_IN_MINOR << 16 | lib.VGC_CTL_BUILT_IN_PATCH
NEW = 2 << 32 | 5 << 16
BEGIN = "VGC_CTL_FN void vgc_ctl_block_begin(const struct vgc_ctl_unit *unit)\n{\n"
TEST = "    struct vgc_ctl_unit tested = *unit;\n"
DIES = "    *(volatile int *)8 = 1;\n"


@functools.cache
def image(*changes: tuple[str, str]) -> bytes:
    """The control code as an image, with each first text replaced by the second."""
    source = amalgamate()
    for before, after in changes:
        assert source.count(before) == 1
        source = source.replace(before, after)
    return compile_image(source)[0]


@pytest.fixture
def one() -> Iterator[ControlRig]:
    with control_rig(pes=1) as made:
        made.load(GATED)
        made.area.open(6, Function.FIRMWARE)
        made.area.bind(0, Function.FIRMWARE, 6)
        yield made


def load(made: ControlRig, slot: int, contents: bytes, version: int = NEW) -> str:
    """Loads an image into a slot; returns the reason of a refusal, or an empty text."""
    fd, why = os.memfd_create("image"), ffi.new("char[]", lib.VGC_CPU_WHY)
    try:
        os.write(fd, contents)
        done = lib.vgc_cpu_firmware_load(made.rig.engine.handle, fd, len(contents), slot, version, why)
    finally:
        os.close(fd)
    assert (done == 0) == (ffi.string(why) == b"")
    return str(ffi.string(why), "utf-8")


def unload(made: ControlRig, slot: int) -> str:
    why = ffi.new("char[]", lib.VGC_CPU_WHY)
    done = lib.vgc_cpu_firmware_unload(made.rig.engine.handle, slot, why)
    return "" if done == 0 else str(ffi.string(why), "utf-8")


def want(made: ControlRig, slot: int, attention: int = 0) -> None:
    row = made.area.pe(0)
    row.firmware_state = 0
    row.firmware_wanted = slot + 1
    made.area.attend(0, lib.VGC_CTL_ATTEND_FIRMWARE | attention)


def activate(made: ControlRig, slot: int) -> tuple[int, int, int, int]:
    """Has an idle element change to the slot; returns version, slot, state and code of its record."""
    want(made, slot)
    made.kick()
    version, number, state, code = until(lambda: made.area.take_one(6)).words()
    return version, number, state, code


def active(made: ControlRig) -> tuple[int, int]:
    row = made.area.pe(0)
    return row.firmware_slot, row.firmware_version


def events(made: ControlRig) -> list[tuple[int, ...]]:
    """Texts of a kernel's three events on the host."""
    made.area.open(2, Function.PERF)
    made.area.bind(0, Function.PERF, 2, 5)
    made.rig.launch("say", 1, 1, np.int32(3))
    return [record.words() for record in made.area.take(2)]


def test_an_engine_begins_with_its_built_in_code(one: ControlRig) -> None:
    assert active(one) == (A, BUILT_IN)


def test_an_idle_element_changes_when_it_is_kicked(one: ControlRig) -> None:
    before = events(one)
    assert load(one, B, image()) == ""
    assert activate(one, B) == (NEW, B, lib.VGC_CTL_FW_ACTIVE, 0)
    assert active(one) == (B, NEW)
    assert one.area.pe(0).firmware_state == lib.VGC_CTL_FW_ACTIVE
    assert events(one) == before, "the same source does the same"


def test_an_element_changes_between_two_blocks_of_a_kernel(one: ControlRig) -> None:
    gate = one.rig.array(2, np.int32)
    assert load(one, B, image((BEGIN, BEGIN + "    unit->pe->reserved4[0]++;\n"))) == ""
    one.area.attend(0, lib.VGC_CTL_ATTEND_BLOCKS)
    with one.running("gated", 6, 1, gate):
        let_end(gate, 2)
        want(one, B, lib.VGC_CTL_ATTEND_BLOCKS)
        let_end(gate, 3)
        assert active(one) == (B, NEW)
        assert one.area.pe(0).reserved4[0] == 1, "block 3 is the first one of the new code"
        gate[0] = 6
    assert one.area.pe(0).reserved4[0] == 3
    assert one.area.pe(0).blocks == 6, "none was missed"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((TEST, TEST + "    return 99;\n"), 99),
        ((TEST, TEST + DIES), 256 + signal.SIGSEGV),
        ((TEST, TEST + "    __builtin_trap();\n"), 256 + signal.SIGILL),
        (("vgc_ctl_own_add64(&pe->blocks, 1);", ""), 1),
        (("head.sequence = (uint32_t)number;", "head.sequence = 3;"), 2),
        (("vgc_ctl_add64(&channel->lost, 1);", ""), 3),
        (("__atomic_store_n(readers, 0, __ATOMIC_RELEASE);", ""), 4),
        ((BEGIN, BEGIN + DIES), 256 + signal.SIGSEGV),
    ],
)
def test_an_image_that_is_not_healthy_is_rolled_back(one: ControlRig, change: tuple[str, str], code: int) -> None:
    assert load(one, B, image(change)) == ""
    assert activate(one, B) == (NEW, B, lib.VGC_CTL_FW_ROLLED_BACK, code)
    assert active(one) == (A, BUILT_IN)
    row = one.area.pe(0)
    assert (row.firmware_state, row.firmware_tried, row.firmware_code) == (lib.VGC_CTL_FW_ROLLED_BACK, B, code)
    assert len(events(one)) == 3


def test_code_that_crashes_in_a_hook_is_rolled_back_and_the_kernel_goes_on(one: ControlRig) -> None:
    """The self test sends no text, so code that crashes on texts passes it."""
    text = "    while (length != 0) {\n        uint32_t part"
    assert load(one, B, image((text, DIES + text))) == ""
    assert activate(one, B)[2] == lib.VGC_CTL_FW_ACTIVE
    one.load('__global__ void prints(int *to) { printf("hello\\n"); *to = 1; printf("again\\n"); }')
    to = one.rig.array(1, np.int32)
    one.area.open(1, Function.STDIO)
    one.area.bind(0, Function.STDIO, 1)
    one.rig.launch("prints", 1, 1, to)
    assert to[0] == 1
    assert one.rig.take_output()[0] == "hello\nagain\n"
    (record,) = one.area.take(6)
    assert record.words() == (NEW, B, lib.VGC_CTL_FW_ROLLED_BACK, 256 + signal.SIGSEGV)
    assert active(one) == (A, BUILT_IN)
    assert [r.payload for r in one.area.take(1)] == [b"again\n"], "from there on it is sent"


def test_slots_take_turns(one: ControlRig) -> None:
    for turn in range(6):
        slot = (turn + 1) % 2
        assert load(one, slot, image(), NEW + turn) == ""
        assert activate(one, slot) == (NEW + turn, slot, lib.VGC_CTL_FW_ACTIVE, 0)
    assert activate(one, B) == (NEW + 4, B, lib.VGC_CTL_FW_ACTIVE, 0), "what was there before is kept"


def test_a_slot_that_elements_run_is_not_touched(one: ControlRig) -> None:
    refusal = "processing elements run the code in slot A"
    assert load(one, A, image()).startswith(refusal)
    assert unload(one, A).startswith(refusal)
    load(one, B, image())
    activate(one, B)
    assert unload(one, A) == ""
    assert load(one, A, image()) == ""


def test_an_emptied_slot_has_the_built_in_code_again(one: ControlRig) -> None:
    load(one, B, image())
    assert unload(one, B) == ""
    assert activate(one, B) == (BUILT_IN, B, lib.VGC_CTL_FW_ACTIVE, 0)


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (lambda: b"", "cannot be mapped"),
        (lambda: b"no ELF file" * 100, "is not an x86-64 shared object"),
        (lambda: compile_image(GATED)[0], "it has no table of control code"),
        (lambda: image(("{VGC_CTL_ABI,", "{VGC_CTL_ABI + 1,")), "another version of VGC_CTL_ABI"),
        (
            lambda: image(
                ("vgc_ctl_modules = VGC_CTL_MODULES", "vgc_ctl_modules = {VGC_CTL_ABI, sizeof(vgc_ctl_modules)}")
            ),
            "out of the image",
        ),
    ],
    ids=["nothing", "text", "program", "abi", "empty table"],
)
def test_bytes_that_are_no_firmware_are_refused(one: ControlRig, contents: Callable[[], bytes], reason: str) -> None:
    assert reason in load(one, B, contents())
    assert activate(one, B)[0] == BUILT_IN, "the slot is as it was"


@pytest.mark.parametrize("slot", [2, 77, 2**32 - 1])
def test_a_slot_other_than_a_and_b_is_refused(one: ControlRig, slot: int) -> None:
    assert "allowed: 0 (A), 1 (B)" in load(one, slot, image())
    assert "allowed: 0 (A), 1 (B)" in unload(one, slot)


def test_a_change_to_an_unknown_slot_is_reported(one: ControlRig) -> None:
    assert activate(one, 7) == (0, 7, lib.VGC_CTL_FW_ROLLED_BACK, 22)


def test_a_kernel_that_polls_changes_in_the_middle_of_a_block(one: ControlRig) -> None:
    one.load("#include <vgc.h>\n__global__ void polls(volatile int *to) { while (vgc_poll()) *to = 1; }")
    to = one.rig.array(1, np.int32)
    load(one, B, image())
    with one.cancelled("polls", 1, 1, to):
        until(lambda: to[0] == 1)
        want(one, B)
        until(lambda: active(one) == (B, NEW))
