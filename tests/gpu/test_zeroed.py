"""Memory of a VM that has ended is zero when the next VM gets it: all of it, and before its first copy or kernel."""

from __future__ import annotations

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import gpu_host, vm

MIB = 1 << 20
PATTERN = 0xA5
SLACK = 64 * MIB
"""Part of the quota that is left to programs."""
PART = 16 * MIB
"""Size of the second VM's allocations, which the region has room for."""
COUNT = """
extern "C" __global__ void count_set(const unsigned *words, unsigned long long n, unsigned *found)
{
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        if (words[i])
            atomicAdd(found, 1);
}
"""
KINDS = pytest.mark.parametrize("kind", ["pool", "mapped"])


def quota(gpu: Gpu) -> int:
    """Three quarters of a GPU's memory, so that a second VM must get what the first one had."""
    return (gpu.memory_bytes // 4 * 3) // MIB * MIB if gpu.driver is None else 256 * MIB


def fill(dev: vgc.Device, size: int) -> None:
    """Writes the pattern to as much memory as the VM may have."""
    memory = dev.empty(size, np.uint8)
    memory.fill(PATTERN)
    memory.free()


@KINDS
def test_next_vm_sees_zeros(any_gpu: Gpu, kind: str) -> None:
    """The first VM's process has ended when the second one starts; copies see zeros everywhere."""
    size = quota(any_gpu) - SLACK
    machine = vm(any_gpu, engine=any_gpu.engine(memory=kind), memory=f"{quota(any_gpu) // MIB}M", deadline="60s")
    with gpu_host(machine) as host:
        fill(host.open(), size)
    with gpu_host(machine) as host:
        dev = host.open()
        parts = [dev.empty(min(PART, size - begin), np.uint8) for begin in range(0, size, PART)]
        assert [part.get().any() for part in parts] == [False] * len(parts)


@pytest.mark.gpu
@KINDS
def test_next_vms_kernel_sees_zeros(real_gpu: Gpu, kind: str) -> None:
    """A kernel reads all memory directly behind its allocation."""
    size = quota(real_gpu) - SLACK
    machine = vm(real_gpu, engine=real_gpu.engine(memory=kind), memory=f"{quota(real_gpu) // MIB}M", deadline="60s")
    with gpu_host(machine) as host:
        fill(host.open(), size)
    with gpu_host(machine) as host:
        dev = host.open()
        found, kernel = dev.zeros(1, "uint32"), dev.compile(COUNT)["count_set"]
        words = dev.alloc(size)
        kernel.launch(real_gpu.num_pes * 8, 256, words, np.uint64(size // 4), found)
        assert found.get()[0] == 0
