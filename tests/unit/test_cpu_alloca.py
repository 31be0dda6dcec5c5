"""Local memory of a size known at run time: alloca() in kernels of the CPU engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, rig

SOURCE = r"""
__device__ int backwards(int n, int step) { // sum of multiples, written before any is read
    int *cells = (int *)alloca(n * sizeof(int)), sum = 0;
    for (int i = 0; i < n; i++) cells[i] = i * step;
    for (int i = n; i-- > 0;) sum += cells[i];
    return sum;
}
__device__ __noinline__ int apart(int n, int step) { return backwards(n, step); }
__device__ __noinline__ int nested(int n) { return n > 0 ? apart(n, 1) + nested(n - 1) : 0; }
extern "C" __global__ void in_the_kernel(int *out, int n) {
    int *cells = (int *)alloca(n * sizeof(int)), sum = 0;
    for (int i = 0; i < n; i++) cells[i] = i + threadIdx.x;
    for (int i = n; i-- > 0;) sum += cells[i];
    if (threadIdx.x % 2) return;
    out[threadIdx.x] = sum;
}
extern "C" __global__ void in_functions(int *out, int n) {
    int sum = 0;
    for (int round = 0; round < 300; round++) sum += backwards(n, round) + apart(n, 1);
    out[threadIdx.x] = sum + nested(threadIdx.x);
}
"""
KIBIBYTES = 64


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=1) as running:
        running.load(SOURCE)
        yield running


def test_threads_give_their_memory_back(gpu: Rig) -> None:
    """All threads of a block together would take more than the stack has."""
    out, n = gpu.array(1024, np.int32, -1), KIBIBYTES * 256
    gpu.launch("in_the_kernel", 2, 1024, out, np.int32(n))
    first = np.arange(0, 1024, 2) * n + n * (n - 1) // 2
    assert np.array_equal(out[::2], first.astype(np.int64).astype(np.int32))
    assert (out[1::2] == -1).all()


def test_functions_give_their_memory_back(gpu: Rig) -> None:
    """All rounds together would take more than the stack has."""
    out, n = gpu.array(64, np.int32), KIBIBYTES * 256
    gpu.launch("in_functions", 1, 64, out, np.int32(n))
    once = n * (n - 1) // 2
    expected = [once * (sum(range(300)) + 300) + sum(i * (i - 1) // 2 for i in range(t + 1)) for t in range(64)]
    assert out.tolist() == np.array(expected, np.int64).astype(np.int32).tolist()


def test_memory_of_threads_that_wait_has_a_known_size() -> None:
    source = SOURCE.replace("if (threadIdx.x % 2) return;", "__syncthreads();")
    with pytest.raises(CompileError, match="'in_the_kernel' uses variable-length local memory together with barriers"):
        compile_image(source)
