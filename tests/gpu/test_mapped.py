"""Device memory that the engine maps at chosen addresses (`memory: mapped`), in a sandboxed worker."""

from __future__ import annotations

import numpy as np
import pytest

from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import gpu_host, vm
from tests.vm.vgcd import VmSettings
from vhost_backend.daemon import worker_messages
from vhost_backend.sandbox import launch

MIB = 1 << 20
SOURCE = """
extern "C" __global__ void add_one(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i]++;
}
extern "C" __global__ void wait_for(volatile int *flag, int *told, long long clocks)
{
    for (long long begin = clock64(); !*flag && clock64() - begin < clocks;) {}
    *told = *flag;
}
"""
CLOCKS = 8_000_000_000
"""Clock cycles after which the kernel ends by itself: some seconds, less than the deadline."""


def mapped(gpu: Gpu, sandbox: str = "best-effort") -> VmSettings:
    return vm(gpu, engine=gpu.engine(memory="mapped"), sandbox=sandbox, deadline="60s")


@pytest.mark.parametrize("sandbox", ["strict", "best-effort"])
def test_memory_is_in_the_arena_that_the_daemon_chose(any_gpu: Gpu, sandbox: str) -> None:
    """The driver grants the chosen addresses; kernels compute there; memory is mapped and unmapped in the sandbox."""
    missing = launch.missing_feature(proc=True)
    if sandbox == "strict" and missing is not None:
        pytest.skip(f"this host has not all walls: {missing}")
    with gpu_host(mapped(any_gpu, sandbox)) as host:
        dev, count = host.open(), 1000
        x = dev.to_device(np.arange(count, dtype=np.int32))
        assert worker_messages.ARENA_FIRST <= x.address < worker_messages.ARENA_END
        dev.compile(SOURCE)["add_one"].launch(4, 256, x, count)
        assert np.array_equal(x.get(), np.arange(1, count + 1))
        for size in (64 * MIB, 200 * MIB, 3 * MIB + 1) * 3:
            memory = dev.alloc(size)
            assert worker_messages.ARENA_FIRST <= memory.address < worker_messages.ARENA_END
            memory.free()


@pytest.mark.gpu
def test_memory_is_mapped_beside_a_running_kernel(real_gpu: Gpu) -> None:
    """The driver is documented to be allowed to wait for running kernels. If it does, this kernel ends by its clock."""
    with gpu_host(mapped(real_gpu)) as host:
        dev = host.open()
        flag, told, stream = dev.zeros(1, "int32"), dev.zeros(1, "int32"), dev.stream()
        dev.compile(SOURCE)["wait_for"].launch_async(1, 1, flag, told, np.int64(CLOCKS), stream=stream)
        memory = dev.alloc(100 * MIB)
        flag.set(np.ones(1, "int32"))
        stream.synchronize()
        assert told.get()[0] == 1, "mapping memory waited for the kernel"
        memory.free()
