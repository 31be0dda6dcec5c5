"""Matrices that a warp holds together, in PTX on the CPU engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
#define LANE int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4; (void)g; (void)t
__device__ unsigned pair(const unsigned short *p) { return p[0] | (unsigned)p[1] << 16; }
__device__ unsigned shared_offset(const void *p) {
    unsigned offset;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(offset) : "l"(p));
    return offset;
}
// A has rows, B columns, one after the other
EXPORT halves(const unsigned short *a, const unsigned short *b, const float *c, float *d, int type) {
    LANE;
    unsigned A[4], B[2];
    float C[4], D[4];
    for (int i = 0; i < 4; i++) A[i] = pair(a + (g + i % 2 * 8) * 16 + t * 2 + i / 2 * 8);
    for (int i = 0; i < 2; i++) B[i] = pair(b + g * 16 + t * 2 + i * 8);
    for (int i = 0; i < 4; i++) C[i] = c[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
#define MMA(types) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col" types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
                 : "=f"(D[0]), "=f"(D[1]), "=f"(D[2]), "=f"(D[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), \
                   "r"(B[0]), "r"(B[1]), "f"(C[0]), "f"(C[1]), "f"(C[2]), "f"(C[3]))
    if (type) MMA(".f32.bf16.bf16.f32"); else MMA(".f32.f16.f16.f32");
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = D[i];
}
EXPORT through_shared(const unsigned short *a, const unsigned short *b, unsigned short *d) { // f16 sums; b by rows
    LANE;
    __shared__ unsigned short A[16 * 16], B[16 * 8], D[16 * 8];
    for (int i = lane; i < 256; i += 32) A[i] = a[i];
    for (int i = lane; i < 128; i += 32) B[i] = b[i];
    __syncwarp();
    unsigned x[4], y[2], z[2] = {0, 0};
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_offset(A + lane % 16 * 16 + lane / 16 * 8)) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(shared_offset(B + lane % 16 * 8)) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(z[0]), "+r"(z[1]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};"
                 :: "r"(shared_offset(D + lane % 16 * 8)), "r"(z[0]), "r"(z[1]) : "memory");
    for (int i = lane; i < 128; i += 32) d[i] = D[i];
}
EXPORT tf32(const unsigned *a, const unsigned *b, float *d) {
    LANE;
    float D[4];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(D[0]), "=f"(D[1]), "=f"(D[2]), "=f"(D[3])
                 : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]),
                   "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]), "f"(0.0f));
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = D[i];
}
EXPORT bytes(const unsigned *a, const unsigned *b, int *d) { // four bytes in a word
    LANE;
    int D[4] = {1, 1, 1, 1};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])
                 : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]),
                   "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = D[i];
}
EXPORT doubles(const double *a, const double *b, double *d) {
    LANE;
    double D[2] = {0.5, 0.5};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(D[0]), "+d"(D[1]) : "d"(a[g * 4 + t]), "d"(b[g * 4 + t]));
    d[g * 8 + t * 2] = D[0]; d[g * 8 + t * 2 + 1] = D[1];
}
EXPORT deep_doubles(const double *a, const double *b, double *d) { // 16 x 16, 16 x 8
    LANE;
    double D[4] = {0.5, 0.5, 0.5, 0.5}, A[8], B[4];
    for (int i = 0; i < 8; i++) A[i] = a[(g + i % 2 * 8) * 16 + i / 2 * 4 + t];
    for (int i = 0; i < 4; i++) B[i] = b[g * 16 + i * 4 + t];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "
                 "{%12,%13,%14,%15}, {%0,%1,%2,%3};"
                 : "+d"(D[0]), "+d"(D[1]), "+d"(D[2]), "+d"(D[3])
                 : "d"(A[0]), "d"(A[1]), "d"(A[2]), "d"(A[3]), "d"(A[4]), "d"(A[5]), "d"(A[6]), "d"(A[7]),
                   "d"(B[0]), "d"(B[1]), "d"(B[2]), "d"(B[3]));
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = D[i];
}
// words of 32 / bits elements; A has rows, B columns
#define DEEP(name, shape, types, As, Bs, deep)                                                                        \
    EXPORT name(const unsigned *a, const unsigned *b, int *d, int c) {                                                \
        LANE;                                                                                                         \
        int D[4] = {c, c, c, c};                                                                                      \
        const unsigned words = 4 * deep;                                                                              \
        unsigned A[4] = {a[g * words + t], a[(g + 8) * words + t], a[g * words + t + words - 4],                      \
                         a[(g + 8) * words + t + words - 4]};                                                         \
        unsigned B[2] = {b[g * words + t], b[g * words + t + words - 4]};                                             \
        asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, " As ", " Bs ", {%0,%1,%2,%3};"     \
                     : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])                                                 \
                     : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));                             \
        for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = D[i];                                    \
    }
DEEP(s4_u4_deep, "m16n8k64", "s32.s4.u4.s32", "{%4,%5,%6,%7}", "{%8,%9}", 2)
DEEP(u4_s4, "m16n8k32", "s32.u4.s4.s32", "{%4,%5}", "{%8}", 1)
DEEP(s4_s4_sat, "m16n8k32", "satfinite.s32.s4.s4.s32", "{%4,%5}", "{%8}", 1)
DEEP(xor_deep, "m16n8k256", "s32.b1.b1.s32.xor.popc", "{%4,%5,%6,%7}", "{%8,%9}", 2)
DEEP(and_bits, "m16n8k128", "s32.b1.b1.s32.and.popc", "{%4,%5}", "{%8}", 1)
EXPORT small_bytes(const unsigned *a, const unsigned *b, int *d) {
    LANE;
    int D[2] = {-1, -1};
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(D[0]), "+r"(D[1]) : "r"(a[threadIdx.x]), "r"(b[threadIdx.x]));
    d[g * 8 + t * 2] = D[0]; d[g * 8 + t * 2 + 1] = D[1];
}
EXPORT transposed(const unsigned *a, unsigned *d) {
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d[threadIdx.x]) : "r"(a[threadIdx.x]));
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as running:
        running.load(SOURCE)
        yield running


def put(gpu: Rig, values: Any) -> Any:
    array = gpu.array(values.size, values.dtype)
    array[:] = values.reshape(-1)
    return array


def small(*shape: int) -> Any:
    """Numbers whose products and sums are exact in all formats."""
    return np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("bfloat", [0, 1])
def test_mma_of_halves(gpu: Rig, bfloat: int) -> None:
    a, b, c = small(16, 16), small(8, 16), small(16, 8)
    bits = [
        (x.view(np.uint32) >> 16).astype(np.uint16) if bfloat else x.astype(np.float16).view(np.uint16) for x in (a, b)
    ]
    d = gpu.array(128, np.float32)
    gpu.launch("halves", 1, 64, put(gpu, bits[0]), put(gpu, bits[1]), put(gpu, c), d, np.int32(bfloat))
    assert (d.reshape(16, 8) == a @ b.T + c).all()


def test_mma_rounds_after_each_product_along_k(gpu: Rig) -> None:
    random = np.random.default_rng(11)
    a, b = (random.standard_normal((rows, 16)).astype(np.float16) for rows in (16, 8))
    c = random.standard_normal((16, 8)).astype(np.float32)
    d = gpu.array((16, 8), np.float32)
    gpu.launch("halves", 1, 32, put(gpu, a.view(np.uint16)), put(gpu, b.view(np.uint16)), put(gpu, c), d, np.int32(0))
    expected = c
    for left, right in zip(a.astype(np.float32).T, b.astype(np.float32).T, strict=True):
        expected = expected + np.outer(left, right)  # products of halves are exact
    assert (d == expected).all()


def test_lanes_behind_the_end_of_the_block_have_zeroes(gpu: Rig) -> None:
    a, b, c = small(16, 16), small(8, 16), small(16, 8)
    d = gpu.array((16, 8), np.float32)
    bits = [put(gpu, x.astype(np.float16).view(np.uint16)) for x in (a, b)]
    gpu.launch("halves", 1, 16, *bits, put(gpu, c), d, np.int32(0))
    b[4:] = 0
    expected = a @ b.T + c
    expected[4:8] = expected[12:] = 0  # rows that no lane stores
    assert (d == expected).all()


def test_matrices_in_shared_memory(gpu: Rig) -> None:
    a, b = small(16, 16), small(16, 8)
    bits = [put(gpu, x.astype(np.float16).view(np.uint16)) for x in (a, b)]
    d = gpu.array(128, np.uint16)
    gpu.launch("through_shared", 1, 32, *bits, d)
    assert (d.view(np.float16).reshape(16, 8) == a @ b).all()


def test_mma_of_tf32_ignores_the_lowest_bits(gpu: Rig) -> None:
    a, b = small(16, 8), small(8, 8)
    d = gpu.array(128, np.float32)
    gpu.launch("tf32", 1, 32, put(gpu, a.view(np.uint32) | 0x1FFF), put(gpu, b.view(np.uint32)), d)
    expected = (a.view(np.uint32) | 0x1FFF) & 0xFFFFE000
    assert (d.reshape(16, 8) == expected.view(np.float32) @ b.T).all()


def test_mma_of_bytes(gpu: Rig) -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(-128, 128, (16, 32)).astype(np.int8), random.integers(0, 256, (8, 32)).astype(np.uint8)
    d = gpu.array(128, np.int32)
    gpu.launch("bytes", 1, 32, put(gpu, a.view(np.uint32)), put(gpu, b.view(np.uint32)), d)
    assert (d.reshape(16, 8) == a.astype(np.int32) @ b.astype(np.int32).T + 1).all()


def test_mma_of_doubles(gpu: Rig) -> None:
    a, b = small(8, 4).astype(np.float64) / 3, small(8, 4).astype(np.float64)
    d = gpu.array(64, np.float64)
    gpu.launch("doubles", 1, 32, put(gpu, a), put(gpu, b), d)
    assert np.allclose(d.reshape(8, 8), a @ b.T + 0.5, rtol=1e-15)


def test_mma_of_many_doubles(gpu: Rig) -> None:
    a, b = small(16, 16).astype(np.float64) / 3, small(8, 16).astype(np.float64)
    d = gpu.array((16, 8), np.float64)
    gpu.launch("deep_doubles", 1, 32, put(gpu, a), put(gpu, b), d)
    assert np.allclose(d, a @ b.T + 0.5, rtol=1e-14)


def elements(words: Any, bits: int, *, signs: bool) -> Any:
    """Elements of rows of words, the lowest bits first."""
    cut = words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
    numbers = cut.reshape(len(words), -1).astype(np.int64)
    return np.where(numbers >> bits - 1, numbers - (1 << bits), numbers) if signs else numbers


@pytest.mark.parametrize(
    ("kernel", "bits", "deep", "signs"),
    [
        ("s4_u4_deep", 4, 2, (True, False)),
        ("u4_s4", 4, 1, (False, True)),
        ("s4_s4_sat", 4, 1, (True, True)),
        ("xor_deep", 1, 2, (False, False)),
        ("and_bits", 1, 1, (False, False)),
    ],
)
def test_mma_of_less_than_a_byte(gpu: Rig, kernel: str, bits: int, deep: int, signs: tuple[bool, bool]) -> None:
    random = np.random.default_rng(7)
    a, b = (random.integers(0, 1 << 32, (rows, 4 * deep), np.uint32) for rows in (16, 8))
    left, right = (elements(x, bits, signs=sign) for x, sign in zip((a, b), signs, strict=True))
    product = (left[:, None] != right[None]).sum(2) if kernel == "xor_deep" else left @ right.T
    addend = 0x7FFFFFF0 if kernel == "s4_s4_sat" else -3
    d = gpu.array(128, np.int32)
    gpu.launch(kernel, 1, 32, put(gpu, a), put(gpu, b), d, np.int32(addend))
    assert (d.reshape(16, 8) == np.minimum(product + addend, 0x7FFFFFFF)).all()
    assert kernel != "s4_s4_sat" or (product > 15).any()


def test_mma_of_few_bytes(gpu: Rig) -> None:
    random = np.random.default_rng(8)
    a, b = (random.integers(-128, 128, (8, 16)).astype(np.int8) for _ in range(2))
    d = gpu.array(64, np.int32)
    gpu.launch("small_bytes", 1, 32, put(gpu, a.view(np.uint32)), put(gpu, b.view(np.uint32)), d)
    assert (d.reshape(8, 8) == a.astype(np.int32) @ b.astype(np.int32).T - 1).all()


@pytest.mark.parametrize(
    "types",
    [
        "m16n8k16.row.col.s32.s4.s4.s32",
        "m8n8k32.row.col.s32.s8.s8.s32",
        "m16n8k128.row.col.satfinite.s32.b1.b1.s32.xor.popc",
    ],
)
def test_shapes_and_types_that_do_not_exist_are_refused(types: str) -> None:
    source = f'__global__ void f(int *x) {{ asm("mma.sync.aligned.{types} {{%0,%0}}, {{%0}}, {{%0}}, {{%0,%0}};" : "+r"(x[0])); }}'
    with pytest.raises(CompileError, match="mma"):
        compile_image(source)


def test_movmatrix_transposes(gpu: Rig) -> None:
    a = np.arange(64, dtype=np.uint16).reshape(8, 8)
    d = gpu.array(32, np.uint32)
    gpu.launch("transposed", 1, 32, put(gpu, a.view(np.uint32)), d)
    assert (d.view(np.uint16).reshape(8, 8) == a.T).all()
