"""Stores to one shared variable do not keep loads of another from being done once for all lanes; others do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_code import llvm_code
from tests.unit.cpu_rig import Rig, rig

THREADS = 64
ROUNDS = 40
SOURCE = r"""
#define KERNEL extern "C" __global__ void

KERNEL two_variables(const float *in, float *out, int rounds)
{
    __shared__ float row[64], mine[64];
    int x = threadIdx.x;
    row[x] = in[x];
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        mine[x] = row[i] + x;
        mine[x] += row[i + 1] * row[i + 2];
        out[x * 64 + i] = mine[x];
    }
}

/* The same in one variable: a load may read what the thread has just stored. */
KERNEL one_variable(const float *in, float *out, int rounds)
{
    __shared__ float row[128];
    int x = threadIdx.x;
    row[x] = in[x];
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        row[x + 64] = row[i] + x;
        row[x + 64] += row[i + 1] * row[i + 2];
        out[x * 64 + i] = row[x + 64];
    }
}

extern __shared__ float dynamic[];
extern __shared__ float also_dynamic[];

/* All threads store the same number, and each reads its own. */
KERNEL dynamic_variables(float *out, int rounds)
{
    __shared__ float mine[64];
    int x = threadIdx.x;
    mine[x] = 0;
    for (int i = 0; i < rounds; i++) {
        dynamic[i] = i * 3;
        mine[x] += also_dynamic[i];
        out[x * 64 + i] = mine[x];
    }
}

KERNEL chosen_variable(float *out, int rounds, int which)
{
    __shared__ float a[64], b[64];
    int x = threadIdx.x;
    a[x] = b[x] = -1;
    __syncthreads();
    float *chosen = which ? a : b;
    for (int i = 0; i < rounds; i++) {
        chosen[i] = i * 5;
        out[x * 64 + i] = a[i] + x * b[i];
    }
}

/* A variable's address comes back from a call that is not inlined. */
__device__ __noinline__ float *pass_on(float *p, int by)
{
    return by > 1000 ? p + by : p;
}

KERNEL passed_on(float *out, int rounds)
{
    __shared__ float a[64], b[64];
    int x = threadIdx.x;
    b[x] = x;
    a[x] = -1;
    __syncthreads();
    float *again = pass_on(a, rounds);
    for (int i = 0; i < rounds; i++) {
        again[i] = i * 7;
        out[x * 64 + i] = a[i] + b[i];
    }
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load(SOURCE)
        yield made


def gathers(name: str) -> int:
    """Loads by lanes from addresses of their own, in the kernel's code behind its barrier."""
    return llvm_code(SOURCE).split(f"@{name}.region1(")[1].split("\n}\n")[0].count("@llvm.masked.gather")


@pytest.mark.parametrize("name", ["two_variables", "one_variable"])
def test_loads_beside_stores_read_the_right_numbers(gpu: Rig, name: str) -> None:
    values = np.arange(THREADS, dtype=np.float32) / 4
    out = gpu.array((THREADS, 64), np.float32)
    gpu.launch(name, 1, THREADS, gpu.array(THREADS, np.float32, values), out, np.int32(ROUNDS))
    row = values[:ROUNDS] + values[1 : ROUNDS + 1] * values[2 : ROUNDS + 2]
    assert out[:, :ROUNDS].tolist() == (row + np.arange(THREADS, dtype=np.float32)[:, None]).tolist()


def test_only_stores_to_other_variables_let_loads_be_done_once() -> None:
    assert gathers("two_variables") == 0
    assert gathers("one_variable") > 0


def test_dynamic_variables_are_one_memory(gpu: Rig) -> None:
    out = gpu.array((THREADS, 64), np.float32)
    gpu.launch("dynamic_variables", 1, THREADS, out, np.int32(ROUNDS), shared=256)
    expected = np.cumsum(3 * np.arange(ROUNDS, dtype=np.float32))
    assert out[:, :ROUNDS].tolist() == [expected.tolist()] * THREADS


@pytest.mark.parametrize("which", [0, 1])
def test_pointer_that_is_chosen_may_be_either_variable(gpu: Rig, which: int) -> None:
    out = gpu.array((THREADS, 64), np.float32)
    gpu.launch("chosen_variable", 1, THREADS, out, np.int32(ROUNDS), np.int32(which))
    written, x = 5 * np.arange(ROUNDS, dtype=np.float32), np.arange(THREADS, dtype=np.float32)[:, None]
    assert out[:, :ROUNDS].tolist() == (written - x if which else x * written - 1).tolist()


def test_pointer_that_comes_back_from_a_call(gpu: Rig) -> None:
    out = gpu.array((THREADS, 64), np.float32)
    gpu.launch("passed_on", 1, THREADS, out, np.int32(ROUNDS))
    assert out[:, :ROUNDS].tolist() == [(8 * np.arange(ROUNDS, dtype=np.float32)).tolist()] * THREADS
