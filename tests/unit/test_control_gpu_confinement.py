"""Confinement on the CPU engine: confined elements take no further blocks, and launches still end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.control_rig import ControlRig, control_rig
from tests.waiting import until
from vhost_backend._dataplane import lib
from virtio_proto.control.records import Function

KERNELS = r"""
// began[i]: element that runs block i, + 1; gate[i]: the block may end
__global__ void gated(volatile int *gate, volatile int *began) {
    unsigned pe;
    asm("mov.u32 %0, %%smid;" : "=r"(pe));
    if (threadIdx.x == 0) {
        began[blockIdx.x] = pe + 1;
        while (gate[blockIdx.x] == 0)
            ;
    }
}
__global__ void where(int *ran) {
    unsigned pe;
    asm("mov.u32 %0, %%smid;" : "=r"(pe));
    ran[blockIdx.x] = pe + 1;
}
"""


@pytest.fixture
def two() -> Iterator[ControlRig]:
    with control_rig(pes=2) as made:
        made.load(KERNELS)
        yield made


def confine(made: ControlRig, *pes: int) -> None:
    for pe in range(made.area.num_pes):
        made.area.attend(pe, lib.VGC_CTL_ATTEND_CONFINED if pe in pes else 0)
    made.kick()


def places(made: ControlRig, blocks: int) -> set[int]:
    ran = made.rig.array(blocks, np.int32)
    made.rig.launch("where", blocks, 1, ran)
    assert ran.all(), "every block runs"
    return set(ran - 1)


def test_a_confined_element_takes_no_blocks(two: ControlRig) -> None:
    for confined in (0, 1):
        confine(two, confined)
        for blocks in (1, 2, 100, 10000):
            assert places(two, blocks) == {1 - confined}


def test_an_element_that_is_free_again_takes_blocks_again(two: ControlRig) -> None:
    confine(two, 0)
    assert places(two, 10) == {1}
    confine(two)
    confine(two, 1)
    assert places(two, 10) == {0}


def test_it_takes_effect_at_the_next_block_of_a_launch_that_runs(two: ControlRig) -> None:
    """A confined element returns the blocks that it had taken, for the others to run."""
    blocks = 400
    gate, began = two.rig.array(blocks, np.int32), two.rig.array(blocks, np.int32)
    with two.running("gated", blocks, 1, gate, began):
        running = until(lambda: np.flatnonzero(began).tolist() if (began != 0).sum() == 2 else [])
        confined = int(began[running[1]]) - 1
        confine(two, confined)
        gate[...] = 1
    places = began - 1
    assert (places == confined).sum() == 1, "the block that it was running"
    assert (began != 0).all()


def test_confinement_of_all_elements_has_no_effect(two: ControlRig) -> None:
    confine(two, 0, 1)
    assert places(two, 100) <= {0, 1}


def test_confinement_comes_and_goes_while_launches_run(two: ControlRig) -> None:
    ran = two.rig.array(20000, np.int32)
    for round_number in range(40):
        ran[...] = 0
        with two.running("where", len(ran), 32, ran):
            confine(two, round_number % 2)
            confine(two)
            confine(two, 1 - round_number % 2)
        assert ran.all()
    confine(two)


def test_confined_elements_are_counted_as_idle(two: ControlRig) -> None:
    two.area.open(1, Function.PERF)
    for pe in range(2):
        two.area.bind(pe, Function.PERF, 1, 1)
        two.area.attend(pe, lib.VGC_CTL_ATTEND_BLOCKS | (lib.VGC_CTL_ATTEND_CONFINED if pe else 0))
    two.kick()
    assert places(two, 1000) == {0}
    assert [two.area.pe(pe).blocks for pe in range(2)] == [1000, 0]
