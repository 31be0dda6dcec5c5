"""Functions of CUDA's runtime that device code calls about its device, and for graphs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import rig

SOURCE = r"""
extern "C" __global__ void ask(const int *attributes, int count, int *values, int *errors) {
    for (int i = 0; i < count; i++)
        errors[i] = cudaDeviceGetAttribute(&values[i], static_cast<cudaDeviceAttr>(attributes[i]), 0);
}
extern "C" __global__ void ask_limits(const int *limits, int count, size_t *values, int *errors) {
    for (int i = 0; i < count; i++)
        errors[i] = cudaDeviceGetLimit(&values[i], static_cast<cudaLimit>(limits[i]));
}
extern "C" __global__ void decide(unsigned *condition, unsigned value) {
    cudaGraphSetConditional(reinterpret_cast<cudaGraphConditionalHandle>(condition), value);
}
"""
THREADS, MEMORY_CLOCK, ELEMENTS, MAJOR = 1, 36, 16, 75
STACK, HEAP = 0, 2


@pytest.mark.parametrize("elements", [1, 2])
def test_device_code_learns_of_its_device(elements: int) -> None:
    with rig(pes=elements) as cpu:
        cpu.load(SOURCE)
        asked = cpu.array(4, np.int32, [THREADS, ELEMENTS, MAJOR, MEMORY_CLOCK])
        values, errors = cpu.array(4, np.int32), cpu.array(4, np.int32)
        cpu.launch("ask", 1, 1, asked, np.int32(4), values, errors)
        assert values[:3].tolist() == [1024, elements, 8]
        assert errors.tolist() == [0, 0, 0, 801], "what it cannot know is not supported"


def test_limits_are_those_of_the_program() -> None:
    with rig(pes=1) as cpu:
        cpu.load(SOURCE, ["--malloc-heap-size=1048576"])
        asked = cpu.array(2, np.int32, [HEAP, STACK])
        values, errors = cpu.array(2, np.uint64), cpu.array(2, np.int32)
        cpu.launch("ask_limits", 1, 1, asked, np.int32(2), values, errors)
        assert values[0] == 1 << 20
        assert errors.tolist() == [0, 215]


def test_conditions_of_graphs_are_set() -> None:
    with rig(pes=1) as cpu:
        cpu.load(SOURCE)
        condition = cpu.array(1, np.uint32)
        cpu.launch("decide", 1, 1, condition, np.uint32(7))
        assert condition[0] == 7
