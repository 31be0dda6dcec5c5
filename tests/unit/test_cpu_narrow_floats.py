"""The CPU engine's cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp6.h and cuda_fp4.h, against exact rounding."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import cuda_narrow_api
from tests.unit.cpu_rig import Rig, compile_image, rig
from tests.unit.narrow_reference import BFLOAT16, E2M1, E2M3, E3M2, E4M3, E5M2, HALF, Format

SIXTEEN: Final = {"half": ("__half", HALF), "bfloat16": ("__nv_bfloat16", BFLOAT16)}
TINY: Final = {
    "e4m3": ("fp8", "__NV_E4M3", E4M3),
    "e5m2": ("fp8", "__NV_E5M2", E5M2),
    "e2m3": ("fp6", "__NV_E2M3", E2M3),
    "e3m2": ("fp6", "__NV_E3M2", E3M2),
    "e2m1": ("fp4", "__NV_E2M1", E2M1),
}
MODES: Final = ("rn", "rz", "rd", "ru")
BINARY: Final = ("hadd", "hsub", "hmul", "hdiv", "hmin", "hmax", "hmin_nan", "hmax_nan", "hadd_sat", "hmul_sat")
COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu")
INTEGERS: Final[dict[str, Any]] = {
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
    "short": np.int16,
}


def kernel(name: str, params: str, body: str) -> str:
    return (
        f'extern "C" __global__ void {name}({params}, int n) {{\n'
        f"    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) {{ {body} }}\n}}\n"
    )


def sixteen_source() -> str:
    parts = ["#include <cuda_bf16.h>\n"]
    for name, (type_, _format) in SIXTEEN.items():
        bits = f"__{name}_as_ushort"
        parts += [
            kernel(
                f"{name}_from_float_{mode}",
                "const float *x, unsigned short *o",
                f"o[i] = {bits}(__float2{name}_{mode}(x[i]));",
            )
            for mode in MODES
        ]
        parts.append(
            kernel(f"{name}_from_double", "const double *x, unsigned short *o", f"o[i] = {bits}({type_}(x[i]));")
        )
        parts.append(kernel(f"{name}_to_float", f"const {type_} *x, float *o", "o[i] = x[i];"))
        for short, dtype in INTEGERS.items():
            long = {
                "int16": "short",
                "int32": "int",
                "uint32": "unsigned",
                "int64": "long long",
                "uint64": "unsigned long long",
            }
            c = long[np.dtype(dtype).name]
            for mode in MODES:
                parts.append(
                    kernel(
                        f"{name}_from_{short}_{mode}",
                        f"const {c} *x, unsigned short *o",
                        f"o[i] = {bits}(__{short}2{name}_{mode}(x[i]));",
                    )
                )
                parts.append(
                    kernel(
                        f"{name}_to_{short}_{mode}",
                        f"const {type_} *x, {c} *o",
                        f"o[i] = __{name}2{short}_{mode}(x[i]);",
                    )
                )
        pairs = f"const {type_} *a, const {type_} *b, unsigned short *o"
        parts += [kernel(f"{name}_{op}", pairs, f"o[i] = {bits}(__{op}(a[i], b[i]));") for op in BINARY]
        compare = " ".join(f"o[{k} * n + i] = __h{c}(a[i], b[i]);" for k, c in enumerate(COMPARISONS))
        parts.append(kernel(f"{name}_compare", pairs, compare))
        three = f"const {type_} *a, const {type_} *b, const {type_} *c, unsigned short *o"
        parts.append(kernel(f"{name}_fma", three, f"o[i] = {bits}(__hfma(a[i], b[i], c[i]));"))
        parts.append(kernel(f"{name}_fma_relu", three, f"o[i] = {bits}(__hfma_relu(a[i], b[i], c[i]));"))
        parts.append(kernel(f"{name}_fma_sat", three, f"o[i] = {bits}(__hfma_sat(a[i], b[i], c[i]));"))
    return "".join(parts)


def tiny_source() -> str:
    parts = ["#include <cuda_fp8.h>\n#include <cuda_fp6.h>\n#include <cuda_fp4.h>\n"]
    for name, (family, kind, _format) in TINY.items():
        saturations = {"sat": "__NV_SATFINITE, ", "inf": "__NV_NOSAT, "} if family == "fp8" else {"sat": ""}
        rest = "" if family == "fp8" else ", cudaRoundNearest"
        for how, saturate in saturations.items():
            for from_, c in {
                "float": "float",
                "double": "double",
                "halfraw": "__half_raw",
                "bfloat16raw": "__nv_bfloat16_raw",
            }.items():
                call = f"__nv_cvt_{from_}_to_{family}(x[i], {saturate}{kind}{rest})"
                parts.append(kernel(f"{name}_{how}_from_{from_}", f"const {c} *x, unsigned char *o", f"o[i] = {call};"))
        parts.append(
            kernel(
                f"{name}_to_half",
                "const unsigned char *x, __half_raw *o",
                f"o[i] = __nv_cvt_{family}_to_halfraw(x[i], {kind});",
            )
        )
        parts.append(kernel(f"{name}_object", "const float *x, float *o", f"o[i] = (float)__nv_{family}_{name}(x[i]);"))
        four = f"o[i] = (float4)__nv_{family}x4_{name}(x[i]); float2 p = (float2)__nv_{family}x2_{name}(make_float2(x[i].x, x[i].y)); if (p.x != o[i].x || p.y != o[i].y) o[i].w = 1e9f;"
        parts.append(kernel(f"{name}_four", "const float4 *x, float4 *o", four))
    parts.append(
        kernel(
            "e8m0_up",
            "const float *x, unsigned char *o",
            "o[i] = __nv_cvt_float_to_e8m0(x[i], __NV_SATFINITE, cudaRoundPosInf);",
        )
    )
    parts.append(
        kernel(
            "e8m0_down",
            "const float *x, unsigned char *o",
            "o[i] = __nv_cvt_float_to_e8m0(x[i], __NV_NOSAT, cudaRoundZero);",
        )
    )
    return "".join(parts)


@pytest.fixture(scope="module")
def images() -> list[bytes]:
    return [compile_image(sixteen_source())[0], compile_image(tiny_source())[0]]


@pytest.fixture
def gpu(images: list[bytes]) -> Iterator[Rig]:
    with rig() as made:
        for image in images:
            made.load_image(image)
        yield made


def run(gpu: Rig, name: str, out: Any, *inputs: Any, times: int = 1) -> Any:
    """Runs kernel `name` on arrays of one length; `out` is the type of its results."""
    count = len(inputs[0])
    arrays = [gpu.array(values.shape, values.dtype, values) for values in inputs]
    result = gpu.array((count * times, *inputs[0].shape[1:]) if out is np.float32 else count * times, out)
    gpu.launch(name, (count + 127) // 128, 128, *arrays, result, np.int32(count))
    return result


def interesting(format_: Format, count: int) -> Any:
    """Codes of a 16-bit format: its special ones, and random ones."""
    special = [0, 1, format_.largest, format_.overflow, format_.nan, format_.overflow + 1, 1 << format_.mantissa]
    special += [(1 << format_.mantissa) - 1, format_.bias << format_.mantissa, (format_.bias << format_.mantissa) + 1]
    both = np.array([*special, *(code | 0x8000 for code in special)])
    pairs = np.array(np.meshgrid(both, both)).reshape(2, -1)
    rest = np.random.default_rng(5).integers(0, 1 << 16, (2, count))
    return np.concatenate([pairs, rest], axis=1).astype(np.uint16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SIXTEEN)
def test_floats_round_in_all_directions(gpu: Rig, name: str, mode: str) -> None:
    format_ = SIXTEEN[name][1]
    x = format_.borders()
    assert np.array_equal(
        run(gpu, f"{name}_from_float_{mode}", np.uint16, x.astype(np.float32)), format_.encode(x, mode)
    )


@pytest.mark.parametrize("name", SIXTEEN)
def test_doubles_are_rounded_once(gpu: Rig, name: str) -> None:
    format_ = SIXTEEN[name][1]
    x = format_.borders()
    x = np.concatenate([x, x * (1 + 2.0**-50), x * (1 - 2.0**-50)])
    assert np.array_equal(run(gpu, f"{name}_from_double", np.uint16, x), format_.encode(x))


@pytest.mark.parametrize("name", SIXTEEN)
def test_floats_of_all_codes(gpu: Rig, name: str) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    assert np.array_equal(
        run(gpu, f"{name}_to_float", np.float32, codes),
        SIXTEEN[name][1].decode(codes).astype(np.float32),
        equal_nan=True,
    )


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("name", SIXTEEN)
def test_integers_round_in_all_directions(gpu: Rig, name: str, integer: str) -> None:
    format_, limits = SIXTEEN[name][1], np.iinfo(INTEGERS[integer])
    powers = [
        sign * ((1 << bit) + extra)
        for sign in (1, -1)
        for bit in range(64)
        for extra in (-1, 0, 1, (1 << bit) >> 8, ((1 << bit) >> 8) + 1, ((1 << bit) >> 11) - 1)
    ]
    x = sorted({value for value in powers if limits.min <= value <= limits.max} | {limits.min, limits.max})
    for mode in MODES:
        got = run(gpu, f"{name}_from_{integer}_{mode}", np.uint16, np.array(x, INTEGERS[integer]))
        wanted = [rounded_integer(format_, value, mode) for value in x]
        assert list(got) == wanted, mode


def rounded_integer(format_: Format, x: int, mode: str) -> int:
    """Code of an integer, which a double may not hold: its last bits are replaced by one that is as good."""
    magnitude = abs(x)
    if magnitude >= 1 << 40:
        magnitude = magnitude >> 20 << 20 | (1 << 19 if magnitude & 0xFFFFF else 0)
    return int(format_.encode(np.float64(magnitude if x >= 0 else -magnitude), mode)) if x else 0


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("name", SIXTEEN)
def test_integers_of_all_codes(gpu: Rig, name: str, integer: str) -> None:
    """Saturated. Not-a-number is 0, or the highest bit where the integer has 64."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = SIXTEEN[name][1].decode(codes)
    limits = np.iinfo(INTEGERS[integer])
    of_nan = 1 << 63 if limits.bits == 64 else 0
    rounding = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
    for mode in MODES:
        got = run(gpu, f"{name}_to_{integer}_{mode}", INTEGERS[integer], codes)
        whole = rounding[mode](np.nan_to_num(values, nan=0))
        wanted = [
            min(max(int(v) if np.isfinite(v) else (1 << 70 if v > 0 else -1 << 70), limits.min), limits.max)
            for v in whole
        ]
        for code in np.flatnonzero(np.isnan(values)):
            wanted[code] = of_nan if limits.min == 0 or not of_nan else -of_nan
        assert [int(v) for v in got] == wanted, mode


@pytest.mark.parametrize("name", SIXTEEN)
def test_arithmetic_rounds_once(gpu: Rig, name: str) -> None:
    format_ = SIXTEEN[name][1]
    a, b = interesting(format_, 50000)
    x, y = format_.decode(a), format_.decode(b)
    with np.errstate(all="ignore"):
        exact = {"hadd": x + y, "hsub": x - y, "hmul": x * y, "hdiv": x / y}
    for operation, value in exact.items():
        assert np.array_equal(run(gpu, f"{name}_{operation}", np.uint16, a, b), format_.encode(value)), operation
    one = format_.bias << format_.mantissa
    for operation in ("hadd", "hmul"):
        code = format_.encode(exact[operation])
        wanted = np.where((code & 0x8000 != 0) | np.isnan(exact[operation]), 0, np.minimum(code, one))
        assert np.array_equal(run(gpu, f"{name}_{operation}_sat", np.uint16, a, b), wanted), operation


@pytest.mark.parametrize("name", SIXTEEN)
def test_fused_multiply_add_rounds_once(gpu: Rig, name: str) -> None:
    format_ = SIXTEEN[name][1]
    a, b = interesting(format_, 20000)
    c = np.roll(a, 7)
    with np.errstate(all="ignore"):
        near = format_.encode(-(format_.decode(a) * format_.decode(b)))
    c = np.where(np.arange(len(a)) % 3 == 0, near, c).astype(np.uint16)
    x, y, z = format_.decode(a), format_.decode(b), format_.decode(c)
    with np.errstate(all="ignore"):
        wanted = format_.encode(x * y + z)
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)):
        exact = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
        if exact != 0:
            wanted[i] = format_.encode_exactly(exact)
    assert np.array_equal(run(gpu, f"{name}_fma", np.uint16, a, b, c), wanted)
    nan = wanted == format_.nan
    negative = (wanted & 0x8000 != 0) & ~nan
    assert np.array_equal(run(gpu, f"{name}_fma_relu", np.uint16, a, b, c), np.where(negative, 0, wanted))
    one = format_.bias << format_.mantissa
    assert np.array_equal(
        run(gpu, f"{name}_fma_sat", np.uint16, a, b, c), np.where(negative | nan, 0, np.minimum(wanted, one))
    )


@pytest.mark.parametrize("name", SIXTEEN)
def test_minimum_and_maximum(gpu: Rig, name: str) -> None:
    """-0 is less than +0; of a number and not-a-number the number is taken, by those named _nan the other."""
    format_ = SIXTEEN[name][1]
    a, b = interesting(format_, 5000)
    for operation, sign in (("hmin", 1), ("hmax", -1)):
        for suffix in ("", "_nan"):
            wanted = [smaller(format_, int(p), int(q), sign, suffix == "_nan") for p, q in zip(a, b, strict=True)]
            assert list(run(gpu, f"{name}_{operation}{suffix}", np.uint16, a, b)) == wanted, operation + suffix


def smaller(format_: Format, a: int, b: int, sign: int, nan_wins: bool) -> int:
    numbers = [code for code in (a, b) if code & 0x7FFF <= format_.overflow]
    if len(numbers) < 2 and (nan_wins or not numbers):
        return format_.nan
    return min(numbers, key=lambda code: sign * ((code ^ 0xFFFF) - 0x8000 if code & 0x8000 else code + 0x8000))


@pytest.mark.parametrize("name", SIXTEEN)
def test_comparisons(gpu: Rig, name: str) -> None:
    format_ = SIXTEEN[name][1]
    a, b = interesting(format_, 2000)
    x, y = format_.decode(a), format_.decode(b)
    unordered = np.isnan(x) | np.isnan(y)
    ordered = {"eq": x == y, "ne": (x != y) & ~unordered, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    got = run(gpu, f"{name}_compare", np.uint16, a, b, times=len(COMPARISONS)).reshape(len(COMPARISONS), -1)
    for index, comparison in enumerate(COMPARISONS):
        wanted = ordered[comparison[:2]] | (unordered if comparison.endswith("u") else False)
        assert np.array_equal(got[index] != 0, wanted), comparison


@pytest.mark.parametrize("name", TINY)
def test_tiny_formats_round_to_nearest(gpu: Rig, name: str) -> None:
    _family, _kind, format_ = TINY[name]
    x = format_.borders()
    for how in ("sat", "inf") if name in {"e4m3", "e5m2"} else ("sat",):
        saturate = how == "sat"
        wanted = format_.encode(x, saturate=saturate)
        assert np.array_equal(run(gpu, f"{name}_{how}_from_float", np.uint8, x.astype(np.float32)), wanted)
        near = np.concatenate([x * (1 + 2.0**-50), x * (1 - 2.0**-50)])
        assert np.array_equal(
            run(gpu, f"{name}_{how}_from_double", np.uint8, near), format_.encode(near, saturate=saturate)
        )
        codes = np.arange(1 << 16, dtype=np.uint16)
        for from_, wide in (("halfraw", HALF), ("bfloat16raw", BFLOAT16)):
            wanted = format_.encode(wide.decode(codes), saturate=saturate)
            assert np.array_equal(run(gpu, f"{name}_{how}_from_{from_}", np.uint8, codes), wanted), from_


@pytest.mark.parametrize("name", TINY)
def test_halves_of_all_tiny_numbers(gpu: Rig, name: str) -> None:
    _family, _kind, format_ = TINY[name]
    codes = np.arange(format_.sign * 2, dtype=np.uint8)
    values = format_.decode(codes)
    assert np.array_equal(run(gpu, f"{name}_to_half", np.uint16, codes), HALF.encode(values))
    finite = np.isfinite(values)
    assert np.array_equal(run(gpu, f"{name}_object", np.float32, values[finite].astype(np.float32)), values[finite])
    fours = np.resize(values[finite], (64, 4)).astype(np.float32)
    assert np.array_equal(run(gpu, f"{name}_four", np.float32, fours), fours)


def test_powers_of_two_round_up_or_down(gpu: Rig) -> None:
    x = np.array([0, 1, 1.5, -2, 3, 2.0**-127, 2.0**-126, 1.1 * 2.0**-127, 1e-45, 3.4e38, np.inf, np.nan], np.float32)
    assert list(run(gpu, "e8m0_up", np.uint8, x)) == [0, 127, 128, 128, 129, 0, 1, 1, 0, 254, 254, 255]
    assert list(run(gpu, "e8m0_down", np.uint8, x)) == [0, 127, 127, 128, 128, 0, 1, 0, 0, 254, 255, 255]


@pytest.mark.parametrize("header", ["fp16", "bf16", "fp8", "fp6", "fp4"])
def test_documented_functions_are_there_with_their_types(header: str) -> None:
    """A pointer to each function has the type that the documentation says."""
    lines = []
    for declaration in getattr(cuda_narrow_api, header.upper()):
        result, rest = declaration.split("(", 1)
        type_, name = result.rsplit(" ", 1)
        lines.append(f"    {{ {type_} (*p)({rest} = {name}; used |= p != nullptr; }}")
    body = "\n".join(lines)
    compile_image(
        f'#include <cuda_{header}.h>\nextern "C" __global__ void f(bool *o) {{\n    bool used = false;\n{body}\n    *o = used;\n}}\n'
    )


def test_types_convert_as_in_cuda() -> None:
    """Arithmetic types convert to and from both formats, in device code and in host code."""
    source = """
    #include <cuda_bf16.h>
    template <class T, class T2> __host__ __device__ double all(T x) {
        float f = x; double d = x; int i = x; long long l = x; bool b = x; unsigned char c = (unsigned char)x;
        T g(1), h = 2u, k = 3.0f, m = 4.0, n = 5ll, o = (short)6, p = 7ul; g = 8; g = 2.5; g = 3.0f; g += h; ++g; g--; -g; +g;
        T none; none = {}; T2 v(g, h), w; w = {}; w = v; v += w; v = v * w - v / w; if (v == w || v != w || v < w) v = -v; ++v; --v;
        return f + d + i + l + b + c + float(k + m + n + o + p) + float(v.x * v.y) + (x ? 1 : 0) + (g > h);
    }
    double host(float x) { return all<half, half2>(x) + all<nv_bfloat16, nv_bfloat162>(x) + float(__float2half_rz(x)); }
    extern "C" __global__ void f(double *o) {
        *o = all<__half, __half2>(1.5f) + all<__nv_bfloat16, __nv_bfloat162>(1.5f) + float(CUDART_ONE_FP16) + float(CUDART_ONE_BF16);
        __half_raw raw = __half(2); half h = raw; nv_bfloat16 b(h); h = half(b); volatile half v; v = __half_raw{0x3c00}; *o += float(h);
    }
    """
    with rig(pes=1) as gpu:
        gpu.load(source)
        out = gpu.array(1, np.float64)
        gpu.launch("f", 1, 1, out)
        assert np.isfinite(out[0])
