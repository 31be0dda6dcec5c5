"""Bounds checks that the compiler hoists out of the loop over threads still exclude exactly the right threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_code import kernel_code, llvm_code
from tests.unit.cpu_rig import Rig, rig

BLOCK = 48
COMPARISONS = {
    "lt": ("i < n", np.less),
    "le": ("i <= n", np.less_equal),
    "gt": ("i > n", np.greater),
    "ge": ("i >= n", np.greater_equal),
    "swapped": ("n > i", np.less),
}
TYPES: dict[str, tuple[str, type[np.integer[Any]]]] = {
    "u32": ("unsigned", np.uint32),
    "i32": ("int", np.int32),
    "u64": ("unsigned long long", np.uint64),
    "i64": ("long long", np.int64),
}


def _kernel(name: str, kind: str, condition: str, index: str = "base + threadIdx.x") -> str:
    body = f"{kind} i = ({kind})({index}); if ({condition}) out[threadIdx.x] = 1;"
    return f'extern "C" __global__ void {name}({kind} base, {kind} n, unsigned char *out) {{ {body} }}\n'


def _rounds(name: str, kind: str, condition: str) -> str:
    """Source of a loop with a step that all threads share: counts each thread's rounds and adds their indices."""
    loop = f"for ({kind} i = ({kind})(base + threadIdx.x); {condition}; i += step) rounds++, sum += i;"
    body = (
        f"unsigned long long rounds = 0, sum = 0; {loop} out[2 * threadIdx.x] = rounds, out[2 * threadIdx.x + 1] = sum;"
    )
    return (
        f'extern "C" __global__ void {name}({kind} base, {kind} n, {kind} step, unsigned long long *out) {{ {body} }}\n'
    )


SOURCE = "".join(
    _kernel(f"{comparison}_{short}", kind, condition)
    for (comparison, (condition, _)), (short, (kind, _)) in itertools.product(COMPARISONS.items(), TYPES.items())
)
SOURCE += "".join(
    _rounds(f"rounds_{comparison}_{short}", kind, condition)
    for (comparison, (condition, _)), (short, (kind, _)) in itertools.product(COMPARISONS.items(), TYPES.items())
    if not comparison.startswith("g")
)
SOURCE += r"""
extern "C" __global__ void widened(unsigned base, unsigned n, unsigned char *out) {
    unsigned long long i = base + threadIdx.x; /* wraps before it is widened */
    if (i < n) out[threadIdx.x] = 1;
}
extern "C" __global__ void offsets(unsigned up, unsigned down, const int *in, int *out) {
    int i = threadIdx.x + up - down; /* the sum may wrap, the index does not */
    out[threadIdx.x] = in[i];
}
extern "C" __global__ void twice_up(unsigned up, unsigned again, const int *in, int *out) {
    int i = threadIdx.x + up + again;
    out[threadIdx.x] = in[i];
}
extern "C" __global__ void in_bytes(unsigned up, unsigned down, const char *in, int *out) {
    int i = threadIdx.x * 12 + up - down; /* the same of an index in bytes */
    out[threadIdx.x] = *(const int *)(in + i);
}
extern "C" __global__ void backward(int last, const int *in, int *out) { out[threadIdx.x] = in[last - (int)threadIdx.x * 3]; }
template <bool ROUNDS> __device__ void of_four(unsigned base, unsigned n, const float *in, float *out) {
    unsigned i = base + threadIdx.x * 4; /* elements of a thread */
    float a = 0, b = 0, c = 0, d = 0;
    if (i < n) a = in[threadIdx.x * 4];
    if (i + 1 < n) b = in[threadIdx.x * 4 + 1];
    if (i + 2 < n) c = in[threadIdx.x * 4 + 2];
    if (i + 3 < n) d = in[threadIdx.x * 4 + 3];
    if (ROUNDS)
        for (unsigned k = 0; k < n % 3; k++) { a += b; c += d; }
    if (i < n) out[threadIdx.x * 4] = a;
    if (i + 1 < n) out[threadIdx.x * 4 + 1] = b;
    if (i + 2 < n) out[threadIdx.x * 4 + 2] = c;
    if (i + 3 < n) out[threadIdx.x * 4 + 3] = d;
}
extern "C" __global__ void plain_four(unsigned base, unsigned n, const float *in, float *out) { of_four<false>(base, n, in, out); }
extern "C" __global__ void four_in_rounds(unsigned base, unsigned n, const float *in, float *out) { of_four<true>(base, n, in, out); }
extern "C" __global__ void narrow(unsigned base, const int *in, int *out) {
    out[threadIdx.x] = in[(unsigned short)(base + threadIdx.x)];
}
extern "C" __global__ void hashes(int rounds, long long *out) {
    long long sum = 0;
    for (int k = 0; k < rounds; k++)
        sum += (int)(threadIdx.x * 2654435761u + k);
    out[threadIdx.x] = sum;
}
extern "C" __global__ void ragged(const int *starts, const int *columns, const float *x, float *out) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; k++)
        sum += x[columns[k]];
    out[row] = sum;
}
extern "C" __global__ void early_return(int n, int *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n - 1 || y >= n || x < 1)
        return;
    out[y * n + x] = x - y;
}
extern "C" __global__ void after_barrier(int n, int *out) {
    __shared__ int all[64];
    int i = threadIdx.x;
    all[i] = i;
    __syncthreads();
    if (i < n - 1)
        out[i] = all[i + 1];
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def _interesting(dtype: type[np.integer[Any]]) -> list[int]:
    """Values near which a row of threads may begin, end or overflow."""
    limits = np.iinfo(dtype)
    near = [limits.min, 0, 100, limits.max // 2, limits.max]
    values = {value + step for value in near for step in (-BLOCK, -BLOCK // 2, -1, 0, 1, BLOCK // 2, BLOCK)}
    return sorted(value for value in values if limits.min <= value <= limits.max)


@pytest.mark.parametrize("short", TYPES)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_guard_admits_the_threads_of_its_comparison(gpu: Rig, comparison: str, short: str) -> None:
    dtype = TYPES[short][1]
    out = gpu.array(BLOCK, np.uint8)
    for base, bound in itertools.product(_interesting(dtype), repeat=2):
        if short == "i64" and base + BLOCK > np.iinfo(dtype).max:
            continue  # the sum overflows: undefined in C++
        out[:] = 0
        gpu.launch(f"{comparison}_{short}", 1, BLOCK, dtype(base), dtype(bound), out)
        threads = np.array([base], dtype) + np.arange(BLOCK).astype(dtype)
        expected = COMPARISONS[comparison][1](threads, dtype(bound))
        assert (out == expected).all(), f"base {base}, n {bound}"


BEGINNINGS = {
    "less": "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] += in[i];",
    "returns": "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; out[i] += in[i];",
    "inside": "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i > 0 && i < n - 1) out[i] = in[i - 1] + in[i + 1];",
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_row_of_which_no_thread_passes_its_first_guard_is_passed_over(name: str) -> None:
    source = f'extern "C" __global__ void {name}(int n, const float *in, float *out) {{ {BEGINNINGS[name]} }}\n'
    row = kernel_code(llvm_code(source), name).split("\nrow:")[1].split("\n\n")[0]
    assert row.endswith("label %row.end")


def test_guard_on_an_index_that_wraps_before_it_is_widened(gpu: Rig) -> None:
    out = gpu.array(BLOCK, np.uint8)
    for base, bound in itertools.product(_interesting(np.uint32), repeat=2):
        out[:] = 0
        gpu.launch("widened", 1, BLOCK, np.uint32(base), np.uint32(bound), out)
        threads = np.array([base], np.uint32) + np.arange(BLOCK, dtype=np.uint32)
        assert (out == (threads < np.uint32(bound))).all(), f"base {base}, n {bound}"


@pytest.mark.parametrize("threads", [1, 7, 32, BLOCK])
@pytest.mark.parametrize("name", ["plain_four", "four_in_rounds"])
def test_guards_of_threads_with_several_elements(gpu: Rig, name: str, threads: int) -> None:
    values = np.arange(4 * BLOCK, dtype=np.float32) + 1
    given = gpu.array(4 * BLOCK, np.float32, values)
    bounds = [0, 1, 3, 4, 5, 6, 4 * threads - 1, 4 * threads, 4 * threads + 1, (1 << 32) - 1]
    for base, bound in itertools.product([0, 5, (1 << 31) - 8, (1 << 32) - 6], bounds):
        out = gpu.array(4 * BLOCK, np.float32, -1)
        n = (base + bound) % (1 << 32)
        gpu.launch(name, 1, threads, np.uint32(base), np.uint32(n), given, out)
        index = np.array([base], np.uint32) + np.arange(4 * BLOCK, dtype=np.uint32)
        inside = (index < np.uint32(n)) & (np.arange(4 * BLOCK) < 4 * threads)
        expected = np.where(inside, values, 0).reshape(-1, 4)
        expected[:, [0, 2]] += (n % 3 if name == "four_in_rounds" else 0) * expected[:, [1, 3]]
        assert out.tolist() == np.where(inside, expected.reshape(-1), -1).tolist(), f"base {base}, n {n}"


def test_rows_whose_threads_pass_all_their_guards_have_no_masks() -> None:
    # four neighbours of each thread at once
    assert "%wide.vec = load <" in kernel_code(llvm_code(SOURCE), "plain_four")


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 33, 48])
def test_two_dimensional_guard_with_early_return(gpu: Rig, size: int) -> None:
    out = gpu.array((size, size), np.int32, -99)
    gpu.launch("early_return", (3, 3), (16, 16), np.int32(size), out)
    y, x = np.mgrid[0:size, 0:size]
    expected = np.where((x >= 1) & (x < size - 1), x - y, -99)
    assert (out == expected).all()


@pytest.mark.parametrize("size", [1, 2, 63, 64])
def test_guard_behind_a_barrier(gpu: Rig, size: int) -> None:
    out = gpu.array(64, np.int32, -1)
    gpu.launch("after_barrier", 1, 64, np.int32(size), out)
    assert (out == [i + 1 if i < size - 1 else -1 for i in range(64)]).all()


@pytest.mark.parametrize("up", [0, 5, 1 << 31, (1 << 32) - 7])
def test_sums_of_an_index_may_wrap(gpu: Rig, up: int) -> None:
    values, out = gpu.array(64, np.int32, np.arange(64)), gpu.array(BLOCK, np.int32)
    gpu.launch("offsets", 1, BLOCK, np.uint32((up + 3) % (1 << 32)), np.uint32(up), values, out)
    assert out.tolist() == list(range(3, BLOCK + 3))
    gpu.launch("twice_up", 1, BLOCK, np.uint32(up), np.uint32((9 - up) % (1 << 32)), values, out)
    assert out.tolist() == list(range(9, BLOCK + 9))


@pytest.mark.parametrize("up", [0, 60, 1 << 31, (1 << 32) - 84])
def test_sums_of_an_index_in_bytes_may_wrap(gpu: Rig, up: int) -> None:
    values, out = gpu.array(3 * BLOCK + 9, np.int32, np.arange(3 * BLOCK + 9)), gpu.array(BLOCK, np.int32)
    gpu.launch("in_bytes", 1, BLOCK, np.uint32((up + 8) % (1 << 32)), np.uint32(up), values, out)
    assert out.tolist() == [3 * i + 2 for i in range(BLOCK)]
    gpu.launch("backward", 1, BLOCK, np.int32(3 * BLOCK), values, out)
    assert out.tolist() == [3 * BLOCK - 3 * i for i in range(BLOCK)]


def test_narrow_index_wraps_between_neighbours(gpu: Rig) -> None:
    values, out = gpu.array(1 << 16, np.int32, np.arange(1 << 16)), gpu.array(BLOCK, np.int32)
    gpu.launch("narrow", 1, BLOCK, np.uint32((1 << 16) - 20), values, out)
    assert out.tolist() == [((1 << 16) - 20 + i) % (1 << 16) for i in range(BLOCK)]


def test_extended_value_that_is_no_index_wraps(gpu: Rig) -> None:
    out = gpu.array(BLOCK, np.int64)
    gpu.launch("hashes", 1, BLOCK, np.int32(3), out)
    threads = np.arange(BLOCK, dtype=np.uint64)
    sums = [(threads * 2654435761 + k).astype(np.uint32).view(np.int32).astype(np.int64) for k in range(3)]
    assert out.tolist() == np.sum(sums, axis=0).tolist()


def test_loops_of_different_lengths_over_scattered_memory(gpu: Rig) -> None:
    random = np.random.default_rng(1)
    counts = random.integers(0, 9, 2 * BLOCK)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    columns, x = random.integers(0, 50, starts[-1]).astype(np.int32), random.integers(0, 9, 50).astype(np.float32)
    out = gpu.array(2 * BLOCK, np.float32)
    arrays = [gpu.array(len(a), a.dtype, a) for a in (starts, columns, x)]
    gpu.launch("ragged", 2, BLOCK, *arrays, out)
    assert out.tolist() == [float(np.sum(x[columns[a:b]])) for a, b in itertools.pairwise(starts)]


@pytest.mark.parametrize("threads", [48, 300])
@pytest.mark.parametrize("comparison", [name for name in COMPARISONS if not name.startswith("g")])
@pytest.mark.parametrize("short", TYPES)
def test_loop_that_threads_leave_one_by_one(gpu: Rig, short: str, comparison: str, threads: int) -> None:
    dtype = TYPES[short][1]
    out = gpu.array((threads, 2), np.uint64)
    for base, bound, step in itertools.product((-100, -24, 0, 5), (0, 1, 90, 1000), (1, 7, 64, 300)):
        out[:] = 99
        begin = np.array([base]).astype(dtype)
        gpu.launch(f"rounds_{comparison}_{short}", 1, threads, begin[0], dtype(bound), dtype(step), out)
        first = (begin + np.arange(threads).astype(dtype)).astype(np.float64)  # unsigned ones wrap
        last = bound if comparison == "le" else bound - 1
        rounds = np.where(first <= last, (last - first) // step + 1, 0)
        sums = rounds * first + step * rounds * (rounds - 1) // 2
        assert out[:, 0].tolist() == rounds.tolist(), f"base {base}, n {bound}, step {step}"
        assert out[:, 1].view(np.int64).tolist() == sums.tolist(), f"base {base}, n {bound}, step {step}"
