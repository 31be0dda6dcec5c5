"""Operations that x86 has no instruction for: LLVM calls compiler-rt's functions, which are part of the image."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, rig

SOURCE = r"""
#include <cuComplex.h>
#include <math_constants.h>
#define EXPORT extern "C" __global__ void
typedef __int128 wide; typedef unsigned __int128 uwide;
__device__ wide from(const long long *p) { return (wide)p[1] << 64 | (unsigned long long)p[0]; }
__device__ void put(long long *&o, uwide x) { *o++ = (long long)x; *o++ = (long long)(x >> 64); }

EXPORT wide_integers(const long long *in, long long *out) {
    const wide a = from(in + 4 * threadIdx.x), b = from(in + 4 * threadIdx.x + 2);
    long long *o = out + 20 * threadIdx.x;
    put(o, a / b); put(o, a % b); put(o, (uwide)a / (uwide)b); put(o, (uwide)a % (uwide)b); put(o, a * b);
    put(o, a << (b & 127)); put(o, a >> (b & 127)); put(o, (uwide)a >> (b & 127));
    wide product; put(o, __builtin_mul_overflow(a, b, &product)); put(o, __builtin_popcountll(a) + __builtin_clzll(a | 1));
}
EXPORT wide_from_floats(const double *in, long long *out) {
    const double x = in[threadIdx.x]; const float f = (float)x; const _Float16 h = (_Float16)x;
    long long *o = out + 12 * threadIdx.x;
    put(o, (wide)x); put(o, (uwide)(x < 0 ? -x : x)); put(o, (wide)f); put(o, (uwide)(f < 0 ? -f : f)); put(o, (wide)h);
    put(o, (uwide)(h < 0 ? -h : h));
}
EXPORT floats_from_wide(const long long *in, double *out) {
    const wide a = from(in + 2 * threadIdx.x);
    double *o = out + 6 * threadIdx.x;
    o[0] = a; o[1] = (uwide)a; o[2] = (float)a; o[3] = (float)(uwide)a; o[4] = (double)(_Float16)(double)a; o[5] = (double)(_Float16)(float)a;
}
EXPORT c_complex(const float2 *x, const double2 *y, float2 *singles, double2 *o) {
    const int i = threadIdx.x;
    float _Complex a, b; __real__ a = x[2 * i].x; __imag__ a = x[2 * i].y; __real__ b = x[2 * i + 1].x; __imag__ b = x[2 * i + 1].y;
    float _Complex p = a * b, q = a / b;
    singles[2 * i] = make_float2(__real__ p, __imag__ p); singles[2 * i + 1] = make_float2(__real__ q, __imag__ q);
    double _Complex c, d; __real__ c = y[2 * i].x; __imag__ c = y[2 * i].y; __real__ d = y[2 * i + 1].x; __imag__ d = y[2 * i + 1].y;
    double _Complex r = c * d, s = c / d;
    o[2 * i] = make_double2(__real__ r, __imag__ r); o[2 * i + 1] = make_double2(__real__ s, __imag__ s);
}
EXPORT powers(const double *x, const int *n, double *out) {
    const int i = threadIdx.x;
    out[2 * i] = __builtin_powi(x[i], n[i]); out[2 * i + 1] = __builtin_powif((float)x[i], n[i]);
}
EXPORT compared(const char *a, const char *b, int n, int *out) { out[0] = __builtin_memcmp(a, b, n) == 0; out[1] = __builtin_bcmp(a, b, n) != 0; }

template <class R, class C> __device__ void all(R *, C *o, C x, C y, C z, C (*add)(C, C), C (*sub)(C, C), C (*mul)(C, C), C (*div)(C, C), C (*fma)(C, C, C), C (*conj)(C)) {
    o[0] = add(x, y); o[1] = sub(x, y); o[2] = mul(x, y); o[3] = div(x, y); o[4] = fma(x, y, z); o[5] = conj(x);
}
EXPORT cu_complex(const double2 *in, double2 *out, float2 *fout) {
    const int i = threadIdx.x;
    cuDoubleComplex x = in[3 * i], y = make_cuDoubleComplex(cuCreal(in[3 * i + 1]), cuCimag(in[3 * i + 1])), z = in[3 * i + 2];
    all((double *)0, out + 7 * i, x, y, z, cuCadd, cuCsub, cuCmul, cuCdiv, cuCfma, cuConj);
    out[7 * i + 6] = make_double2(cuCabs(x), cuCabs(y));
    cuComplex a = cuComplexDoubleToFloat(x), b = make_cuComplex(cuCrealf(cuComplexDoubleToFloat(y)), (float)y.y);
    cuFloatComplex c = make_cuFloatComplex((float)z.x, cuCimagf(cuComplexDoubleToFloat(z)));
    all((float *)0, fout + 7 * i, a, b, c, cuCaddf, cuCsubf, cuCmulf, cuCdivf, cuCfmaf, cuConjf);
    fout[7 * i + 6] = make_float2(cuCabsf(a), (float)cuComplexFloatToDouble(b).x);
}
EXPORT constants(double *o) {
    o[0] = CUDART_PI_F; o[1] = CUDART_PI; o[2] = CUDART_PIO2_HI; o[3] = CUDART_PIO2_LO; o[4] = CUDART_L2E_F; o[5] = CUDART_INF_F; o[6] = CUDART_NAN;
    o[7] = CUDART_MIN_DENORM_F; o[8] = CUDART_SQRT_2OPI; o[9] = CUDART_TWO_TO_M126_F;
}
"""


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(SOURCE)[0]


@pytest.fixture
def gpu(image: bytes) -> Iterator[Rig]:
    with rig(pes=1) as made:
        made.load_image(image)
        yield made


def words(values: list[int]) -> Any:
    return np.array(
        [part for value in values for part in (value & (1 << 64) - 1, value >> 64 & (1 << 64) - 1)], np.uint64
    )


def wide(values: Any) -> list[int]:
    """Signed integers of 128 bits."""
    pairs = [int(low) | int(high) << 64 for low, high in np.asarray(values).view(np.uint64).reshape(-1, 2)]
    return [signed(value) for value in pairs]


def signed(value: int) -> int:
    value &= (1 << 128) - 1
    return value - (1 << 128) if value >> 127 else value


def some_integers(count: int) -> list[int]:
    rng = np.random.default_rng(1)
    special = [1, -1, 3, -7, 10**18, -(10**30), (1 << 127) - 1, 1 << 64, (1 << 64) - 1, -(1 << 63)]
    rest = [signed(int.from_bytes(rng.bytes(16), "little")) >> int(rng.integers(0, 120)) or 5 for _ in range(count)]
    return (special + rest)[:count]


def test_integers_of_128_bits(gpu: Rig) -> None:
    a = some_integers(64)
    b = a[5:] + a[:5]
    out = gpu.array(64 * 20, np.int64)
    gpu.launch(
        "wide_integers",
        1,
        64,
        gpu.array(256, np.uint64, words([v for pair in zip(a, b, strict=True) for v in pair])),
        out,
    )
    got = wide(out)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        ux, uy = x % (1 << 128), y % (1 << 128)
        wanted = [quotient, x - quotient * y, ux // uy, ux % uy, x * y, x << (y & 127), x >> (y & 127), ux >> (y & 127)]
        assert got[10 * i : 10 * i + 8] == [signed(value) for value in wanted]
        assert got[10 * i + 8] == (signed(x * y) != x * y)


def test_conversions_of_128_bits(gpu: Rig) -> None:
    x = np.array([0, 1.9, -1.9, 1e9, -1e18, 2.0**70 + 2.0**30, -(2.0**100), 60000, -12.5, 2.0**120], np.float64)
    out = gpu.array(len(x) * 12, np.int64)
    gpu.launch("wide_from_floats", 1, len(x), gpu.array(len(x), np.float64, x), out)
    got = wide(out)
    for i, value in enumerate(x):
        whole, single = int(value), int(np.float32(value))
        assert got[6 * i : 6 * i + 4] == [whole, abs(whole), single, abs(single)]
        if abs(value) < 60001:
            assert got[6 * i + 4 : 6 * i + 6] == [int(np.float16(value)), abs(int(np.float16(value)))]
    a = some_integers(64)
    floats = gpu.array(64 * 6, np.float64)
    gpu.launch("floats_from_wide", 1, 64, gpu.array(128, np.uint64, words(a)), floats)
    for i, integer in enumerate(a):
        unsigned = integer % (1 << 128)
        assert list(floats[6 * i : 6 * i + 2]) == [float(integer), float(unsigned)]
        with np.errstate(over="ignore"):
            wanted = [float(np.float32(integer)), float(np.float32(unsigned))]
        assert list(floats[6 * i + 2 : 6 * i + 4]) == pytest.approx(wanted, rel=2**-22)


def test_complex_numbers_of_c(gpu: Rig) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 4))
    x[0] = [1e300, 1e300, 1e300, -1e300]
    f = np.where(np.abs(x) > 1e30, 1e30, x).astype(np.float32)
    singles, o = gpu.array((64, 4), np.float32), gpu.array((64, 4), np.float64)
    gpu.launch("c_complex", 1, 64, gpu.array((64, 4), np.float32, f), gpu.array((64, 4), np.float64, x), singles, o)
    for i in range(1, 64):
        for values, got, near in ((f[i], singles[i], 1e-5), (x[i], o[i], 1e-14)):
            a, b = complex(*values[:2]), complex(*values[2:])
            assert complex(*got[:2]) == pytest.approx(a * b, rel=near)
            assert complex(*got[2:]) == pytest.approx(a / b, rel=near)
    assert complex(*o[0, 2:]) == pytest.approx(1j, rel=1e-14)


def test_integer_powers(gpu: Rig) -> None:
    x, n = np.array([1.5, -2, 0.1, 3, 7], np.float64), np.array([3, -5, 10, 0, -1], np.int32)
    out = gpu.array((5, 2), np.float64)
    gpu.launch("powers", 1, 5, gpu.array(5, np.float64, x), gpu.array(5, np.int32, n), out)
    assert out[:, 0] == pytest.approx(x ** n.astype(float), rel=1e-14)
    assert out[:, 1] == pytest.approx(x ** n.astype(float), rel=1e-5)


def test_comparison_of_memory(gpu: Rig) -> None:
    out = gpu.array(2, np.int32)
    a, b = gpu.array(100, np.uint8, 1), gpu.array(100, np.uint8, 1)
    gpu.launch("compared", 1, 1, a, b, np.int32(100), out)
    assert list(out) == [1, 0]
    b[77] = 2
    gpu.launch("compared", 1, 1, a, b, np.int32(100), out)
    assert list(out) == [0, 1]


def test_cuda_complex_numbers(gpu: Rig) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(32, 3, 2))
    values[0] = np.array([[3e200, 4e200], [1e-200, 2e-200], [0, 0]])
    out, fout = gpu.array((32, 7, 2), np.float64), gpu.array((32, 7, 2), np.float32)
    gpu.launch("cu_complex", 1, 32, gpu.array((32, 3, 2), np.float64, values), out, fout)
    assert list(out[0, 6]) == pytest.approx([5e200, math.hypot(1e-200, 2e-200)])
    for i in range(1, 32):
        x, y, z = (complex(*value) for value in values[i])
        wanted = [x + y, x - y, x * y, x / y, x * y + z, x.conjugate()]
        assert [complex(*value) for value in out[i, :6]] == pytest.approx(wanted, rel=1e-13)
        assert [complex(*value) for value in fout[i, :6]] == pytest.approx(wanted, rel=1e-4)
        assert list(out[i, 6]) == pytest.approx([abs(x), abs(y)])
        assert fout[i, 6, 0] == pytest.approx(abs(x), rel=1e-6)
    assert cmath.isfinite(complex(*out[0, 2]))


def test_math_constants(gpu: Rig) -> None:
    out = gpu.array(10, np.float64)
    gpu.launch("constants", 1, 1, out)
    assert list(out[:6]) == [
        np.float32(math.pi),
        math.pi,
        math.pi / 2,
        6.123233995736766e-17,
        np.float32(math.log2(math.e)),
        math.inf,
    ]
    assert math.isnan(out[6])
    assert list(out[7:]) == [2.0**-149, math.sqrt(2 / math.pi), 2.0**-126]


@pytest.mark.parametrize("name", ["__emutls_get_address", "__register_frame", "__gcc_personality_v0", "abort"])
def test_what_needs_the_c_library_is_refused(name: str) -> None:
    """compiler-rt has functions that call others: those are not there."""
    source = (
        f'extern "C" __device__ void *{name}(void *);\nextern "C" __global__ void f(void **x) {{ *x = {name}(*x); }}\n'
    )
    with pytest.raises(CompileError, match="not a function that kernels may call"):
        compile_image(source)


def test_tables_of_host_functions_are_left_to_the_host() -> None:
    source = """
struct Entry { const char *name; void (*run)(int); };
void first(int n);
extern const Entry table[] = {{"first", first}};
constexpr int factors[] = {3, 5};
extern "C" __global__ void f(int *x) { *x = factors[threadIdx.x]; }
void first(int n) { f<<<1, n>>>(nullptr); }
"""
    image, _ = compile_image(source)
    assert b"first" not in image


def test_code_of_the_library_exports_nothing() -> None:
    source = 'extern "C" __global__ void f(__int128 *x) { x[0] /= x[1]; }\n'
    image, _ = compile_image(source)
    assert b"__divti3" not in image
