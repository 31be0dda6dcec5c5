"""4096 channels of a real worker: opened, all of them working, and released, while kernels run."""

from __future__ import annotations

from typing import Any, Final

from tests.fakes.daemon import SANDBOX
from tests.limits import NO_DEADLINE_NS
from tests.protocol.control_worker_rig import ControlWorkerRig, control_worker_rig
from tests.unit.cpu_rig import compile_image
from virtio_proto.control.records import Function

FUNCTIONS: Final = (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT)
PES: Final = 1024 if SANDBOX != "off" else 128
"""Fewer of them where a sanitizer watches every thread."""
CHANNELS: Final = PES * len(FUNCTIONS)
WAIT_NS: Final = NO_DEADLINE_NS
SOURCE: Final = r"""
#include <vgc.h>
__device__ void says_everything(int round) {
    printf("printed %d\n", round);
    vgc_event("round", round);
    vgc_log(VGC_INFO, "logged %d", round);
    vgc_fault(1, "odd %d", round);
}
// It runs all the while, and speaks in each round: gate[0] is the round, < 0: the end
extern "C" __global__ void __launch_bounds__(64) stays(volatile int *gate) {
    for (int round = 0; gate[0] >= 0;)
        if (round < gate[0]) {
            says_everything(++round);
            atomicAdd((int *)&gate[1], 1);
        }
}
// A block on each other element: it stays there until nobody listens to it any more
extern "C" __global__ void speaks(int *gate) {
    char c;
    says_everything(gate[0]);
    atomicAdd(&gate[1], 1);
    vgc_read(&c, 1);
}
"""


def channels_of(function: Function) -> range:
    first = 1 + PES * FUNCTIONS.index(function)
    return range(first, first + PES)


def open_all(rig: ControlWorkerRig) -> None:
    for function in FUNCTIONS:
        waits: dict[str, Any] = {"in_bytes": 64, "wait_ns": WAIT_NS} if function is Function.STDIO else {}
        ack = rig.open(function, channels_of(function), range(PES), slots=8, **waits)
        assert ack.ok, ack.error


def test_thousands_of_channels_open_work_and_close_while_kernels_run() -> None:
    with control_worker_rig(PES, channels=CHANNELS, area_bytes=64 << 20) as rig:
        functions = rig.load_image(compile_image(SOURCE)[0])
        staying = rig.run_gated(functions["stays"])
        gate = rig.gate_address().to_bytes(8, "little")
        for number in (1, 2):
            before = len(rig.seen.sections)
            open_all(rig)
            rig.set_gate(number)
            speaking = rig.run(functions["speaks"], gate, blocks=PES - 1, stream=1)
            rig.wait_made(number * PES)
            for function in FUNCTIONS:
                assert rig.release(channels_of(function)).ok
            rig.finish(speaking)
            sections = rig.seen.sections[before:]
            assert {section.channel for section in sections if section.records} == set(range(1, CHANNELS + 1))
            assert {section.lost for section in sections} == {0}
        rig.set_gate(-1)
        rig.finish(staying)
