"""mma.h on the CPU engine, and the `wmma` instructions of PTX: products of matrices by warps, against numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, compile_ptx, rig
from tests.unit.ptx_compilers import needs_headers, nvrtc_headers, nvrtc_ptx
from tests.unit.test_cpu_ptx_modules import entry

SHAPES: Final = ((16, 16), (32, 8), (8, 32))
LAYOUTS: Final = [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")]
TYPES: Final[dict[str, tuple[str, str, int, Any, Any]]] = {
    # CUDA's type of elements and of sums, depth, numpy's types of both.
    "half": ("__half", "float", 16, np.float16, np.float32),
    "half_sums": ("__half", "__half", 16, np.float16, np.float16),
    "bfloat16": ("__nv_bfloat16", "float", 16, np.uint16, np.float32),
    "tf32": ("wmma::precision::tf32", "float", 8, np.float32, np.float32),
    "s8": ("signed char", "int", 16, np.int8, np.int32),
    "u8": ("unsigned char", "int", 16, np.uint8, np.int32),
    "double": ("double", "double", 4, np.float64, np.float64),
}


def shapes_of(name: str) -> tuple[tuple[int, int], ...]:
    return {"tf32": ((16, 16),), "double": ((8, 8),)}.get(name, SHAPES)


def product_kernel(name: str, shape: tuple[int, int], layouts: tuple[str, str]) -> str:
    (m, n), (a, b) = shape, layouts
    type_, sum_type, k, _, _ = TYPES[name]
    stored = "float" if name == "tf32" else type_
    return (
        f'extern "C" __global__ void {name}_{m}_{n}_{a}_{b}(const {stored} *a, const {stored} *b, '
        f"const {sum_type} *c, {sum_type} *d) {{\n"
        f"    wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {type_}, wmma::{a}_major> left;\n"
        f"    wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {type_}, wmma::{b}_major> right;\n"
        f"    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {sum_type}> sum;\n"
        f"    wmma::load_matrix_sync(left, a, {k if a == 'row' else m});\n"
        f"    wmma::load_matrix_sync(right, b, {n if b == 'row' else k});\n"
        f"    wmma::load_matrix_sync(sum, c, {n}, wmma::mem_row_major);\n"
        "    wmma::mma_sync(sum, left, right, sum);\n"
        f"    wmma::store_matrix_sync(d, sum, {m}, wmma::mem_col_major);\n}}\n"
    )


def source() -> str:
    parts = ["#include <mma.h>\nusing namespace nvcuda;\n"]
    for name in TYPES:
        parts += [product_kernel(name, shape, layouts) for shape in shapes_of(name) for layouts in LAYOUTS]
    parts.append(r"""
extern "C" __global__ void scaled(const __half *a, const __half *b, float *d) {
    // A block of warps, each with its own tile: C = 2 A B of 32 x 32, depth 48.
    const int row = threadIdx.x / 32 / 2 * 16, column = threadIdx.x / 32 % 2 * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < 48; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
        wmma::load_matrix_sync(left, a + row * 48 + k, 48);
        wmma::load_matrix_sync(right, b + k * 32 + column, 32);
        for (int i = 0; i < left.num_elements; i++) left.x[i] = left.x[i] * __float2half(2.0f);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(d + row * 32 + column, sum, 32, wmma::mem_row_major);
}
extern "C" __global__ void mixed(const __half *a, const __half *b, __half *narrow, float *wide) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> single;
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> half;
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::fill_fragment(single, 1.0f);
    wmma::mma_sync(half, left, right, single);
    wmma::mma_sync(single, left, right, half);
    wmma::store_matrix_sync(narrow, half, 16, wmma::mem_row_major);
    wmma::store_matrix_sync(wide, single, 16, wmma::mem_row_major);
}
extern "C" __global__ void saturated(const signed char *a, const signed char *b, int *d, int on) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::fill_fragment(sum, 0x7fffff00);
    wmma::mma_sync(sum, left, right, sum, on);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}
extern "C" __global__ void transposed(float *tile) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> all;
    wmma::load_matrix_sync(all, tile, 16, wmma::mem_row_major);
    wmma::store_matrix_sync(tile, all, 16, wmma::mem_col_major);
}
namespace small = wmma::experimental;
#define SMALL(name, T, Words, k, product)                                                                             \
    extern "C" __global__ void name(const Words *a, const Words *b, int *d, int how) {                                \
        wmma::fragment<wmma::matrix_a, 8, 8, k, small::precision::T, wmma::row_major> left;                           \
        wmma::fragment<wmma::matrix_b, 8, 8, k, small::precision::T, wmma::col_major> right;                          \
        wmma::fragment<wmma::accumulator, 8, 8, k, int> sum;                                                          \
        static_assert(left.num_elements * 32 == 8 * k && left.num_storage_elements == 1, "a lane's part");            \
        wmma::load_matrix_sync(left, a, 2 * k);                                                                       \
        wmma::load_matrix_sync(right, b, k);                                                                          \
        wmma::fill_fragment(sum, 0x7fffffe0);                                                                         \
        product;                                                                                                      \
        wmma::store_matrix_sync(d, sum, 8, wmma::mem_row_major);                                                      \
    }
SMALL(products_s4, s4, int, 32, wmma::mma_sync(sum, left, right, sum, how))
SMALL(products_u4, u4, unsigned, 32, wmma::mma_sync(sum, left, right, sum, how))
SMALL(products_b1, b1, unsigned, 128, how ? wmma::bmma_sync(sum, left, right, sum, small::bmmaBitOpAND)
                                          : wmma::bmma_sync(sum, left, right, sum))
extern "C" __global__ void rounded(const float *x, float *y) { y[threadIdx.x] = wmma::__float_to_tf32(x[threadIdx.x]); }
extern "C" __global__ void doubled(const __half *tile, __half *d) {
    __shared__ __half shared[256];
    for (int i = threadIdx.x; i < 256; i += 32) shared[i] = tile[i];
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> all;
    wmma::load_matrix_sync(all, shared, 16, wmma::mem_col_major);
    for (int i = 0; i < all.num_elements; i++) all.x[i] = all.x[i] + all.x[i];
    wmma::store_matrix_sync(d, all, 16, wmma::mem_row_major);
}
""")
    return "".join(parts)


SATURATED_HALVES: Final = r"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void saturated_halves(__half *h, int on) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> z;
    wmma::fill_fragment(x, __float2half(200.0f));
    wmma::fill_fragment(y, __float2half(100.0f));
    wmma::fill_fragment(z, __float2half(0.0f));
    wmma::mma_sync(z, x, y, z, on);
    wmma::store_matrix_sync(h, z, 16, wmma::mem_row_major);
}
"""


@pytest.fixture(scope="module", params=["cuda", pytest.param("ptx", marks=needs_headers)])
def device(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An engine with the kernels, from their source or from PTX."""
    with rig() as made:
        if request.param == "ptx":
            made.load_ptx(nvrtc_ptx(source(), *nvrtc_headers()))
        else:
            made.load(source())
        yield made


def values(name: str, shape: tuple[int, int], seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A random matrix as stored, and its values."""
    dtype = TYPES[name][3]
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer) and name != "bfloat16":
        info = np.iinfo(dtype)
        stored = random.integers(info.min, info.max, shape, dtype, endpoint=True)
        return stored, stored.astype(np.int64)
    exact = random.integers(-64, 64, shape) / 32
    if name == "bfloat16":
        return (exact.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), exact
    return exact.astype(dtype), exact


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize(("name", "shape"), [(name, shape) for name in TYPES for shape in shapes_of(name)])
def test_products(device: Rig, name: str, shape: tuple[int, int], layouts: tuple[str, str]) -> None:
    (m, n), (a, b) = shape, layouts
    _, _, k, dtype, sum_dtype = TYPES[name]
    (left, left_values), (right, right_values) = values(name, (m, k), 1), values(name, (k, n), 2)
    addend = np.random.default_rng(3).integers(-100, 100, (m, n)).astype(sum_dtype)
    memory = [
        device.array((m, k) if a == "row" else (k, m), dtype, left if a == "row" else left.T),
        device.array((k, n) if b == "row" else (n, k), dtype, right if b == "row" else right.T),
        device.array((m, n), sum_dtype, addend),
        device.array((n, m), sum_dtype),
    ]
    device.launch(f"{name}_{m}_{n}_{a}_{b}", (1,), (32,), *memory)
    # Exact: sums of few small multiples of 2^-10.
    expected = left_values @ right_values + addend
    assert np.allclose(memory[3].T, expected, rtol=1e-3 if name == "half_sums" else 0)


def test_warps_of_a_block_share_a_product(device: Rig) -> None:
    (a, exact_a), (b, exact_b) = values("half", (32, 48), 4), values("half", (48, 32), 5)
    out = device.array((32, 32), np.float32)
    device.launch("scaled", (1,), (128,), device.array(a.shape, a.dtype, a), device.array(b.shape, b.dtype, b), out)
    assert np.array_equal(out, 2 * exact_a @ exact_b)


def test_sums_of_other_types(device: Rig) -> None:
    (a, exact_a), (b, exact_b) = values("half", (16, 16), 6), values("half", (16, 16), 7)
    narrow, wide = device.array((16, 16), np.float16), device.array((16, 16), np.float32)
    memory = device.array(a.shape, a.dtype, a), device.array(b.shape, b.dtype, b)
    device.launch("mixed", (1,), (32,), *memory, narrow, wide)
    product = exact_a @ exact_b.T
    assert np.array_equal(narrow, (product + 1).astype(np.float16))
    assert np.array_equal(wide, product + narrow)


@pytest.mark.parametrize("on", [0, 1])
def test_saturation(device: Rig, on: int) -> None:
    (a, exact_a), (b, exact_b) = values("s8", (16, 16), 8), values("s8", (16, 16), 9)
    out = device.array((16, 16), np.int32)
    memory = device.array(a.shape, a.dtype, a), device.array(b.shape, b.dtype, b)
    device.launch("saturated", (1,), (32,), *memory, out, np.int32(on))
    exact = exact_a @ exact_b.T + 0x7FFFFF00
    assert (exact > 0x7FFFFFFF).any()
    assert np.array_equal(out, np.minimum(exact, 0x7FFFFFFF) if on else exact.astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("on", [0, 1])
def test_saturation_of_halves(on: int) -> None:
    """CUDA has it no more."""
    with rig(pes=1) as gpu:
        gpu.load(SATURATED_HALVES)
        halves = gpu.array((16, 16), np.float16)
        gpu.launch("saturated_halves", (1,), (32,), halves, np.int32(on))
        assert (halves == (65504 if on else np.inf)).all()


def test_matrices_of_halves_in_shared_memory(device: Rig) -> None:
    tile = device.array((16, 16), np.float16, np.arange(256).reshape(16, 16))
    out = device.array((16, 16), np.float16)
    device.launch("doubled", (1,), (32,), tile, out)
    assert np.array_equal(out, 2 * tile.T)


@pytest.mark.parametrize("how", [0, 1])
@pytest.mark.parametrize(("name", "bits"), [("s4", 4), ("u4", 4), ("b1", 1)])
def test_elements_of_less_than_a_byte(device: Rig, name: str, bits: int, how: int) -> None:
    """The left matrix has lines that are twice as far apart as they are long."""
    random = np.random.default_rng(11)
    words = [random.integers(0, 1 << 32, (8, count), np.uint32) for count in (8, 4)]
    left, right = (
        (x[:, :4, None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1))
        .reshape(8, -1)
        .astype(np.int64)
        for x in words
    )
    if name == "s4":
        left, right = (np.where(x > 7, x - 16, x) for x in (left, right))
    exact = (left[:, None] != right[None]).sum(2) if name == "b1" and not how else left @ right.T
    exact = exact + 0x7FFFFFE0
    out = device.array((8, 8), np.int32)
    device.launch(f"products_{name}", 1, 32, *(device.array(x.shape, x.dtype, x) for x in words), out, np.int32(how))
    wrapped = (exact & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    assert np.array_equal(out, np.minimum(exact, 0x7FFFFFFF) if how and name != "b1" else wrapped)


def test_log_has_no_remarks_about_functions_of_the_compiler() -> None:
    product = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%0,%1}, {%2,%2,%2,%2}, {%2,%2}, {%0,%1,%0,%1};"
    source = f"""extern "C" __global__ void f(int *o) {{ asm("{product}" : "+r"(o[0]), "+r"(o[1]) : "r"(o[2])); }}"""
    assert compile_image(source)[1] == ""


def test_matrices_are_stored_when_all_lanes_have_loaded(device: Rig) -> None:
    tile = device.array((16, 16), np.float32, np.arange(256).reshape(16, 16))
    device.launch("transposed", (1,), (32,), tile)
    assert np.array_equal(tile, np.arange(256).reshape(16, 16).T)


def test_tf32_rounds_to_the_nearest(device: Rig) -> None:
    x = device.array(32, np.float32, np.random.default_rng(10).normal(size=32))
    y = device.array(32, np.float32)
    device.launch("rounded", (1,), (32,), x, y)
    assert np.array_equal(y.view(np.uint32), (x.view(np.uint32) + 0x1000) & 0xFFFFE000)


def test_shapes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(CompileError, match="wmma has no such shape for this type"):
        compile_image(
            "#include <mma.h>\n__global__ void f(float *x) {\n"
            "    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 8, 16, __half, nvcuda::wmma::row_major> a;\n"
            "    x[0] = a.num_elements;\n}\n"
        )


def test_lines_without_a_stride_follow_each_other() -> None:
    text = """ld.param.u64 p, [x];
        wmma.load.c.sync.aligned.row.m8n32k16.f32 {r1,r2,r3,r4,r5,r6,r7,r8}, [p];
        wmma.store.d.sync.aligned.col.m8n32k16.f32 [p], {r1,r2,r3,r4,r5,r6,r7,r8};"""
    with rig(pes=1) as gpu:
        gpu.load_ptx(entry(REGISTERS + text, ".param .u64 x"))
        tile = gpu.array(256, np.float32, np.arange(256))
        gpu.launch("k", 1, 32, tile)
        assert np.array_equal(tile.reshape(32, 8), np.arange(256).reshape(8, 32).T)


REGISTERS: Final = ".reg .b32 r<9>; .reg .b64 p, q; .reg .b16 h;\n"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.s4 {r1}, [p], r2;", "is not known"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f32 {r1,r2,r3,r4}, [p], r2;", "is not known"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.pred {r1}, [p];", "is not known"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.s4 {r1}, [p], r2;", "is not known"),
        ("wmma.load.a.sync.aligned.row.m16n8k16.f16 {r1}, [p];", "expected one of .m16n16k16"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {r1,r2}, [p];", "expected 8 registers in braces"),
        ("wmma.load.c.sync.aligned.row.m16n16k8.f16 {r1,r2,r3,r4}, [p];", "is not known"),
        ("wmma.store.d.sync.aligned.row.m8n8k4.f32 [p], {r1,r2};", "is not known"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f64 {r1}, {r1}, {r1}, {r1};", "expected a type"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.s8.s8.s32 {r1}, {r1}, {r1}, {r1};", "is not known"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {r1}, {r1}, {r1}, {r1};", "is not known"),
        ("wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {p}, {q}, {q}, {p};", "expected 2 registers in braces"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16;", "2 to 4 are possible"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 r1, r2;", "is not known"),
    ],
)
def test_what_ptx_has_not_is_refused(statement: str, message: str) -> None:
    with pytest.raises(CompileError, match=rf"module\.ptx:\d+:\d+: .*{message}"):
        compile_ptx(entry(REGISTERS + statement))
