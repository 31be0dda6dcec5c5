"""PTX modules that NVRTC, nvcc and clang make of CUDA sources while the test runs, on the software GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, rig
from tests.unit.cuda_compile_rig import needs_nvcc
from tests.unit.ptx_compilers import clang_ptx, needs_clang, needs_nvrtc, nvcc_ptx, nvrtc_ptx
from tests.unit.ptx_rig import signed

BENCHMARKS = Path(__file__).resolve().parents[2] / "bench" / "kernels"

KERNELS = r"""
#define EXPORT extern "C" __global__ void
struct Point { float x, y; int weights[3]; };
__constant__ float coefficients[4] = {1.0f, 0.5f, 0.25f, 0.125f};
__device__ unsigned total;
__device__ int primes[5] = {2, 3, 5, 7, 11};
__device__ int *first_prime = primes;

EXPORT warp_sums(const float *x, float *sums) {
    float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = sum;
}
EXPORT count_odd(const unsigned *x) {
    if (x[threadIdx.x] % 2) atomicAdd(&total, 1u);
}
EXPORT reverse_block(float *x, int n) {
    extern __shared__ float room[];
    room[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = room[n - 1 - threadIdx.x];
}
EXPORT polynomial(float *x) {
    float value = 0;
    for (int i = 3; i >= 0; i--) value = value * x[threadIdx.x] + coefficients[i];
    x[threadIdx.x] = value;
}
EXPORT collatz(const unsigned *in, unsigned *out) {
    unsigned n = in[threadIdx.x], steps = 0;
    for (; n > 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    out[threadIdx.x] = steps;
}
static __device__ __noinline__ float distance(Point a, Point b, int *weight) {
    *weight = a.weights[2] - b.weights[0];
    return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}
EXPORT structs(Point a, const Point *points, float *distances, int *weights) {
    int weight;
    distances[threadIdx.x] = distance(a, points[threadIdx.x], &weight);
    weights[threadIdx.x] = weight + a.weights[threadIdx.x % 3];
}
static __device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
EXPORT recursion(unsigned *out) { out[threadIdx.x] = ackermann(2, threadIdx.x); }
static __device__ int add(int a, int b) { return a + b; }
static __device__ int multiply(int a, int b) { return a * b; }
EXPORT function_pointers(int *x, int which) {
    int (*functions[2])(int, int) = {add, multiply};
    x[threadIdx.x] = functions[(which + threadIdx.x) % 2](x[threadIdx.x], 3);
}
EXPORT pointers(int *x) { x[threadIdx.x] = first_prime[threadIdx.x]; }
EXPORT kinds(bool b, char c, short s, unsigned u, long long l, float f, double d, int *p, Point point) {
    *p = b + c + s + u + l + f + d + point.weights[1];
}
EXPORT local_array(int *x, int n) {
    int found[32];
    for (int i = 0; i < n; i++) found[i] = x[i] * (threadIdx.x + 1);
    int sum = 0;
    for (int i = 0; i < n; i++) sum += found[(i * 7 + threadIdx.x) % n] * i;
    x[64 + threadIdx.x] = sum;
}
"""

NVRTC_ONLY = r"""
EXPORT mathematics(const float *x, float *out, double *wide) {
    float v = x[threadIdx.x];
    out[threadIdx.x] = sinf(v) + expf(-v) * sqrtf(v) + logf(1 + v) + powf(v, 1.5f);
    wide[threadIdx.x] = sin((double)v) / cosh((double)v) + cbrt((double)v);
}
EXPORT votes(unsigned *out) {
    unsigned t = threadIdx.x;
    out[t] = __ballot_sync(~0u, t % 3 == 0) + __popc(__match_any_sync(~0u, t / 8)) + __reduce_add_sync(~0u, t);
}
EXPORT says(int n) { if (threadIdx.x < n) printf("%d of %d: %s %.2f\n", threadIdx.x, n, "yes", 1.5 * threadIdx.x); }
EXPORT bits(const unsigned *x, unsigned *out) {
    unsigned v = x[threadIdx.x];
    out[threadIdx.x] = __brev(v) ^ __clz(v) ^ __byte_perm(v, ~v, 0x5140) ^ __funnelshift_l(v, v + 1, 7) ^ __umulhi(v, v);
}
struct Shape { virtual __device__ int area() const = 0; };
struct Square : Shape { int side; __device__ Square(int s) : side(s) {} __device__ int area() const { return side * side; } };
struct Line : Shape { __device__ int area() const { return -1; } };
EXPORT virtuals(int *x) {
    Shape *shape = threadIdx.x % 2 ? (Shape *)new Square(threadIdx.x) : (Shape *)new Line;
    x[threadIdx.x] = shape->area();
    delete shape;
}
"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(nvrtc_ptx, marks=needs_nvrtc),
        pytest.param(nvcc_ptx, marks=needs_nvcc),
        pytest.param(clang_ptx, marks=needs_clang),
    ],
)
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Rig, Callable[[str], str]]]:
    """An engine with the kernels, and the compiler that made their PTX."""
    with rig(pes=2) as gpu:
        gpu.load_ptx(request.param(KERNELS))
        yield gpu, request.param


@pytest.fixture
def gpu(made: tuple[Rig, Callable[[str], str]]) -> Rig:
    return made[0]


@pytest.fixture(scope="module")
def nvrtc() -> Iterator[Rig]:
    with rig(pes=2) as gpu:
        gpu.load_ptx(nvrtc_ptx(KERNELS + NVRTC_ONLY))
        yield gpu


@pytest.fixture
def compiled(made: tuple[Rig, Callable[[str], str]]) -> Callable[[str], Rig]:
    """Loads a benchmark's kernels."""
    gpu, to_ptx = made

    def load(name: str) -> Rig:
        gpu.load_ptx(to_ptx((BENCHMARKS / f"{name}.cu").read_text()))
        return gpu

    return load


def test_saxpy(compiled: Callable[[str], Rig]) -> None:
    gpu = compiled("saxpy")
    x, y = gpu.array(1000, np.float32, np.arange(1000)), gpu.array(1000, np.float32, 1)
    gpu.launch("saxpy", 4, 256, np.uint64(999), np.float32(2), x, y)
    assert np.array_equal(y[:999], 2 * np.arange(999) + 1)
    assert y[999] == 1


@pytest.mark.parametrize("kernel", ["matmul", "matmul_tiled"])
@pytest.mark.parametrize("n", [48, 80])
def test_matrices(compiled: Callable[[str], Rig], kernel: str, n: int) -> None:
    gpu = compiled("matmul")
    generator = np.random.default_rng(n)
    a, b = (gpu.array((n, n), np.float32, generator.random((n, n))) for _ in range(2))
    c = gpu.array((n, n), np.float32)
    gpu.launch(kernel, (n // 16, n // 16), (16, 16), np.uint64(n), a, b, c)
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_sums_of_blocks(compiled: Callable[[str], Rig]) -> None:
    gpu = compiled("reduce")
    x, sums = gpu.array(10_000, np.float32, np.arange(10_000) % 7), gpu.array(5, np.float32)
    gpu.launch("reduce", 5, 256, np.uint64(10_000), x, sums)
    assert sums.sum() == x.sum()


def test_shuffles(gpu: Rig) -> None:
    x, sums = gpu.array(256, np.float32, np.arange(256)), gpu.array(8, np.float32)
    gpu.launch("warp_sums", 2, 128, x, sums)
    assert np.array_equal(sums, x.reshape(8, 32).sum(axis=1))


def test_atomics_on_a_variable(gpu: Rig) -> None:
    gpu.variable("total")[:] = 0
    gpu.launch("count_odd", 1, 100, gpu.array(100, np.uint32, np.arange(100) % 3))
    assert gpu.variable("total").view(np.uint32)[0] == 33


def test_dynamic_shared_memory(gpu: Rig) -> None:
    x = gpu.array(100, np.float32, np.arange(100))
    gpu.launch("reverse_block", 1, 100, x, np.int32(100), shared=400)
    assert np.array_equal(x, np.arange(100)[::-1])


def test_constant_memory_that_the_host_changes(gpu: Rig) -> None:
    x = gpu.array(3, np.float32, [0, 1, 2])
    gpu.launch("polynomial", 1, 3, x)
    assert list(x) == [1, 1.875, 4]
    gpu.variable("coefficients").view(np.float32)[:] = 1
    gpu.launch("polynomial", 1, 3, x)
    assert list(x) == [4, 1 + 1.875 + 1.875**2 + 1.875**3, 85]


def _steps(n: int) -> int:
    return 0 if n <= 1 else 1 + _steps(3 * n + 1 if n % 2 else n // 2)


def test_loops_of_different_length(gpu: Rig) -> None:
    numbers, out = gpu.array(200, np.uint32, np.arange(200)), gpu.array(200, np.uint32)
    gpu.launch("collatz", 1, 200, numbers, out)
    assert list(out) == [_steps(n) for n in range(200)]


POINT = np.dtype([("place", np.float32, 2), ("weights", np.int32, 3)])


def test_structs_by_value(gpu: Rig) -> None:
    points = gpu.array(10, POINT)
    points["place"], points["weights"] = np.arange(20).reshape(10, 2), np.arange(30).reshape(10, 3)
    distances, weights = gpu.array(10, np.float32), gpu.array(10, np.int32)
    one = np.array([([1, 2], [10, 20, 30])], POINT)
    gpu.launch("structs", 1, 10, one.tobytes(), points, distances, weights)
    assert np.array_equal(distances, ((points["place"] - [1, 2]) ** 2).sum(axis=1))
    assert list(weights) == [30 - 3 * i + [10, 20, 30][i % 3] for i in range(10)]


def test_recursion(gpu: Rig) -> None:
    out = gpu.array(5, np.uint32)
    gpu.launch("recursion", 1, 5, out)
    assert list(out) == [2 * n + 3 for n in range(5)]


def test_function_pointers(gpu: Rig) -> None:
    x = gpu.array(6, np.int32, np.arange(6) + 10)
    gpu.launch("function_pointers", 1, 6, x, np.int32(1))
    assert list(x) == [30, 14, 36, 16, 42, 18]


def test_variables_with_addresses(gpu: Rig) -> None:
    x = gpu.array(5, np.int32)
    gpu.launch("pointers", 1, 5, x)
    assert list(x) == [2, 3, 5, 7, 11]


def test_parameters_of_all_kinds(gpu: Rig) -> None:
    out = gpu.array(1, np.int32)
    point = np.array([([0, 0], [0, 7, 0])], POINT).tobytes()
    numbers = (np.bool_(True), np.int8(-3), np.int16(100), np.uint32(5), np.int64(1000), np.float32(2), np.float64(3))
    gpu.launch("kinds", 1, 1, *numbers, out, point)
    assert out[0] == 1 - 3 + 100 + 5 + 1000 + 2 + 3 + 7


def test_local_arrays(gpu: Rig) -> None:
    x = gpu.array(128, np.int32, np.arange(128))
    gpu.launch("local_array", 1, 64, x, np.int32(20))
    expected = [sum((i * 7 + t) % 20 * (t + 1) * i for i in range(20)) for t in range(64)]
    assert list(x[64:]) == expected


@needs_nvrtc
def test_mathematics(nvrtc: Rig) -> None:
    x = nvrtc.array(64, np.float32, np.linspace(0.1, 5, 64))
    out, wide = nvrtc.array(64, np.float32), nvrtc.array(64, np.float64)
    nvrtc.launch("mathematics", 1, 64, x, out, wide)
    v = x.astype(np.float64)
    assert np.allclose(out, np.sin(v) + np.exp(-v) * np.sqrt(v) + np.log1p(v) + v**1.5, rtol=1e-5)
    assert np.allclose(wide, np.sin(v) / np.cosh(v) + np.cbrt(v), rtol=1e-12)


@needs_nvrtc
def test_votes(nvrtc: Rig) -> None:
    out = nvrtc.array(32, np.uint32)
    nvrtc.launch("votes", 1, 32, out)
    assert list(out) == [sum(1 << t for t in range(0, 32, 3)) + 8 + 496] * 32


@needs_nvrtc
def test_printf(nvrtc: Rig) -> None:
    nvrtc.launch("says", 1, 32, np.int32(2))
    assert nvrtc.take_output()[0] == "0 of 2: yes 0.00\n1 of 2: yes 1.50\n"


@needs_nvrtc
def test_bits_as_cuda_c_has_them(nvrtc: Rig) -> None:
    x = nvrtc.array(100, np.uint32, np.arange(100) * 0x9E3779B9 % 2**32)
    out, expected = nvrtc.array(100, np.uint32), nvrtc.array(100, np.uint32)
    nvrtc.launch("bits", 1, 100, x, out)
    start = NVRTC_ONLY.index("EXPORT bits")
    end = NVRTC_ONLY.index("struct Shape")
    with rig(pes=1) as gpu:
        gpu.load('#define EXPORT extern "C" __global__ void\n' + NVRTC_ONLY[start:end])
        gpu.launch("bits", 1, 100, x, expected)
    assert np.array_equal(out, expected)


@needs_nvrtc
def test_virtual_functions_and_new(nvrtc: Rig) -> None:
    x = nvrtc.array(10, np.int32)
    nvrtc.launch("virtuals", 1, 10, x)
    assert list(x) == [t * t if t % 2 else -1 for t in range(10)]


@needs_nvcc
def test_memory_of_alloca() -> None:
    source = """#include <alloca.h>
    __device__ __noinline__ int reversed(const int *x, int n) {
        int *room = (int *)alloca(n * sizeof(int)), sum = 0;
        for (int i = 0; i < n; i++) room[i] = x[i] * i;
        for (int i = 0; i < n; i++) sum = sum * 3 + room[n - 1 - i];
        return sum;
    }
    extern "C" __global__ void reverse(int *x) { x[64 + threadIdx.x] = reversed(x, threadIdx.x); }"""
    text = nvcc_ptx(source)
    assert "alloca.u64" in text
    with rig(pes=1) as gpu:
        gpu.load_ptx(text)
        x = gpu.array(80, np.int32, np.arange(80))
        gpu.launch("reverse", 1, 16, x)
        assert list(x[64:]) == [sum(i * i * 3**i for i in range(n)) for n in range(16)]


@needs_nvrtc
def test_integers_of_128_bits() -> None:
    source = """extern "C" __global__ void divide(const __int128 *x, __int128 *out) {
        int i = threadIdx.x;
        out[2 * i] = x[2 * i] / x[2 * i + 1], out[2 * i + 1] = x[2 * i] % x[2 * i + 1];
    }"""
    random = np.random.default_rng(9)
    words = random.integers(0, 1 << 64, (64, 2, 2), np.uint64)
    words[:, 0, 1] >>= random.integers(0, 64, 64).astype(np.uint64)
    words[:, 1, 1] >>= random.integers(40, 64, 64).astype(np.uint64)
    words[:20, 1, 1] = 0
    words[20:30, 1, 1] = 2**64 - 1  # negative
    with rig(pes=1) as gpu:
        gpu.load_ptx(nvrtc_ptx(source, "--device-int128"))
        x, out = gpu.array(words.shape, np.uint64, words), gpu.array(words.shape, np.uint64)
        gpu.launch("divide", 1, 64, x, out)
        for given, found in zip(words.tolist(), out.tolist(), strict=True):
            left, right = (signed(low | high << 64, 128) for low, high in given)
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            assert [signed(low | high << 64, 128) for low, high in found] == [quotient, left - quotient * right]


@needs_nvrtc
def test_assertion_names_its_line() -> None:
    source = 'extern "C" __global__ void f(int n) { assert(n > 3); }'
    with rig(pes=1) as gpu:
        gpu.load_ptx(nvrtc_ptx(source))
        gpu.launch("f", 1, 1, np.int32(4))
        with pytest.raises(LaunchError, match=r"Assertion `n > 3` failed"):
            gpu.launch("f", 1, 1, np.int32(3))
