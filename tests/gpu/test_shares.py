"""A VM's share of a GPU: processing elements as a partition, memory including modules."""

from __future__ import annotations

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import gpu_host, vm

MIB = 1 << 20
BALLAST = """
__device__ unsigned ballast[%d];
extern "C" __global__ void empty() { }
"""
PLACES = """
extern "C" __global__ void places(unsigned *seen)
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    long long start = clock64();
    while (clock64() - start < 20000) { }
    if (threadIdx.x == 0)
        atomicAdd(&seen[sm], 1);
}
"""


def given_for(gpu: Gpu, asked: int) -> int:
    """The number of processing elements that a VM gets when it asks for `pes`."""
    with gpu_host(vm(gpu, pes=asked)) as host:
        dev = host.open()
        given = dev.info().processing_elements
        assert given == dev.usage().num_pes
        return given


def test_share_is_whole_groups_and_reported(any_gpu: Gpu) -> None:
    group = any_gpu.pe_granularity
    for asked in (1, group, group + 1, any_gpu.num_pes // 2):
        given = given_for(any_gpu, asked)
        assert 0 < given < any_gpu.num_pes
        assert given % group == 0
        assert given >= min(asked, group)


def test_whole_gpu_is_given_whole(any_gpu: Gpu) -> None:
    assert given_for(any_gpu, any_gpu.num_pes) == any_gpu.num_pes


@pytest.mark.gpu
def test_kernels_stay_on_their_share(real_gpu: Gpu) -> None:
    """Blocks that spin a little spread over all multiprocessors that they may use."""
    with gpu_host(vm(real_gpu, pes=real_gpu.num_pes // 4)) as host:
        dev = host.open()
        seen = dev.zeros(4096, "uint32")
        dev.compile(PLACES)["places"].launch(real_gpu.num_pes * 64, 32, seen)
        assert np.count_nonzero(seen.get()) == dev.info().processing_elements


def test_memory_share_holds(any_gpu: Gpu) -> None:
    with gpu_host(vm(any_gpu, memory="64M")) as host:
        dev = host.open()
        held = dev.alloc(40 * MIB)
        with pytest.raises(vgc.OutOfMemory):
            dev.alloc(40 * MIB)
        held.free()
        dev.alloc(40 * MIB)


def test_modules_count_against_the_memory_quota(any_gpu: Gpu) -> None:
    """A program's variables are charged to the VM's quota, and credited when the program is unloaded."""
    with gpu_host(vm(any_gpu, memory="64M")) as host:
        dev = host.open()
        before = dev.usage().memory_used_bytes
        program = dev.compile(BALLAST % (8 * MIB))
        assert dev.usage().memory_used_bytes - before >= 32 * MIB
        with pytest.raises(vgc.OutOfMemory):
            dev.alloc(40 * MIB)
        program.unload()
        assert dev.usage().memory_used_bytes == before


def test_program_beyond_the_share_is_refused(any_gpu: Gpu) -> None:
    with gpu_host(vm(any_gpu, memory="16M")) as host:
        dev = host.open()
        with pytest.raises(vgc.OutOfMemory):
            dev.compile(BALLAST % (8 * MIB))
