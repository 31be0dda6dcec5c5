"""The CPU engine keeps to the contract."""

from __future__ import annotations

from functools import cache

from tests.unit.cpu_rig import compile_image
from tests.unit.engine_contract import EngineContract
from vhost_backend.engines.base import Engine
from vhost_backend.engines.cpu import CpuEngine

SOURCE = """
#include <assert.h>
extern "C" __global__ void add_one(unsigned *data, unsigned count)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        data[i] += 1;
}

extern "C" __global__ void slow(unsigned *data, unsigned rounds)
{
    volatile unsigned spent = 0;
    for (unsigned i = 0; i < 20000; i++)
        spent = spent + 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        atomicAdd(data, rounds);
}

extern "C" __global__ void fails()
{
    assert(threadIdx.x != 0);
}
"""


@cache
def image() -> bytes:
    return compile_image(SOURCE)[0]


class TestCpuEngine(EngineContract):
    def open_engine(self) -> Engine:
        return CpuEngine.open({}, 2, 1 << 24, 10**9)

    def image(self) -> bytes:
        return image()
