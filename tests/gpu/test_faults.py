"""A kernel that fails ends nothing but its own VM's context; other VMs are not affected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import GpuHost, gpu_host, vm

SOURCE = """
#include <assert.h>
extern "C" __global__ void illegal_address() { *(volatile int *)16 = 1; }
extern "C" __global__ void trap() { __trap(); }
extern "C" __global__ void fails() { assert(threadIdx.x != 0); }
extern "C" __global__ void hang() { for (volatile int turning = 1; turning;) { } }
extern "C" __global__ void add_one(unsigned *data, unsigned count)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        data[i] += 1;
}
"""
COUNT = 10_000

FAULTS = {
    "illegal_address": (vgc.KernelFault, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    "trap": (vgc.KernelFault, "CUDA_ERROR_LAUNCH_FAILED|CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    "fails": (vgc.KernelAssert, "CUDA_ERROR_ASSERT"),
    "hang": (vgc.Timeout, "ran longer than"),
}
"""The guest's status and the driver's error name, by kernel (each architecture has its own for a trap)."""


class Counter:
    """An array of a VM, which a kernel counts up."""

    def __init__(self, dev: vgc.Device) -> None:
        self.dev = dev
        self.program = dev.compile(SOURCE)
        self.numbers = dev.zeros(COUNT, "uint32")
        self.expected = 0

    def count(self, times: int = 1) -> None:
        """Counts up once and checks. :raise AssertionError: a number is wrong."""
        for _ in range(times):
            self.program["add_one"].launch(16, 128, self.numbers, np.uint32(COUNT))
        self.expected += times
        assert (self.numbers.get() == self.expected).all()


@pytest.fixture(scope="module")
def host(any_gpu: Gpu) -> Iterator[GpuHost]:
    half = max(any_gpu.num_pes // 2, 1)
    with gpu_host(vm(any_gpu, "a", pes=half), vm(any_gpu, "b", pes=half)) as made:
        yield made


@pytest.fixture(scope="module")
def other(host: GpuHost) -> Counter:
    """A VM beside the one whose kernels fail."""
    return Counter(host.open("b"))


@pytest.mark.parametrize("kernel", FAULTS)
def test_failure_is_reported_by_name_and_spares_other_vms(host: GpuHost, other: Counter, kernel: str) -> None:
    expected, name = FAULTS[kernel]
    generation = other.dev.info().generation
    with host.open("a") as dev:
        mine = Counter(dev)
        mine.count()
        stream = dev.stream()
        failing = mine.program[kernel].launch_async(1, 32, stream=stream)
        other.count(20)
        with pytest.raises(expected, match=name) as caught:
            failing.wait()
        assert kernel in str(caught.value)
        other.count(20)
        assert other.dev.info().generation == generation


def test_device_computes_again_after_a_failure(host: GpuHost) -> None:
    with host.open("a") as dev:
        before = Counter(dev)
        with pytest.raises(vgc.KernelAssert):
            before.program["fails"].launch(1, 32)
        with pytest.raises(vgc.DeviceLost):
            before.program["add_one"].launch(1, 32, before.numbers, np.uint32(1))
        dev.reset()
        Counter(dev).count(3)
