"""The CPU engine's math functions, against mpmath with 60 digits and more: errors are at most the documented ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from tests.unit import cuda_math_api
from tests.unit.cpu_rig import Rig, compile_image, rig

Reference = Callable[..., Any]
TYPES: Final[dict[str, tuple[Any, Any, str]]] = {
    "double": (np.float64, np.int64, ""),
    "float": (np.float32, np.int32, "f"),
}


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def erfinv(y: Any) -> Any:
    if abs(y) >= 1:
        return mp.sign(y) * mp.inf if abs(y) == 1 else mp.nan
    return mp.erfinv(y)


def erfcinv(y: Any) -> Any:
    """The root of log(erfc(x)) - log(y), from the asymptotic one."""
    if not 0 < y < 2:
        return mp.inf if y == 0 else -mp.inf if y == 2 else mp.nan
    if y > mpf("0.1"):
        return mp.erfinv(1 - y)
    log_y = mp.log(y)
    x = mp.sqrt(-log_y - mp.log(-mp.pi * log_y) / 2)
    for _ in range(8):
        value = mp.erfc(x)
        x += (mp.log(value) - log_y) * mp.sqrt(mp.pi) / 2 * value * mp.exp(x * x)
    return x


def half_away(x: Any) -> Any:
    return mp.sign(x) * mp.floor(abs(x) + mpf(0.5))


def real(function: Reference, inside: Callable[[Any], bool]) -> Reference:
    return lambda x: function(x) if inside(x) else mp.nan


ONE: Final[dict[str, tuple[Reference, float, float]]] = {
    "acos": (real(mp.acos, lambda x: abs(x) <= 1), 0, 2),
    "acosh": (real(mp.acosh, lambda x: x >= 1), 0, np.inf),
    "asin": (real(mp.asin, lambda x: abs(x) <= 1), 0, 2),
    "asinh": (mp.asinh, 0, np.inf),
    "atan": (mp.atan, 0, np.inf),
    "atanh": (real(lambda x: x * mp.inf if abs(x) == 1 else mp.atanh(x), lambda x: abs(x) <= 1), 0, 1),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), 0, np.inf),
    "ceil": (mp.ceil, 0, np.inf),
    "cos": (mp.cos, 0, np.inf),
    "cosh": (mp.cosh, 0, np.inf),
    "cospi": (mp.cospi, 0, np.inf),
    "cyl_bessel_i0": (lambda x: mp.besseli(0, x), 0, 700),
    "cyl_bessel_i1": (lambda x: mp.besseli(1, x), 0, 700),
    "erf": (mp.erf, 0, np.inf),
    "erfc": (mp.erfc, 0, 27),
    "erfcinv": (erfcinv, 0, 2),
    "erfcx": (erfcx, 0, 1e4),
    "erfinv": (erfinv, 0, 1),
    "exp": (mp.exp, 0, 800),
    "exp10": (lambda x: mpf(10) ** x, 0, 400),
    "exp2": (lambda x: mpf(2) ** x, 0, 1200),
    "expm1": (mp.expm1, 0, 800),
    "fabs": (abs, 0, np.inf),
    "floor": (mp.floor, 0, np.inf),
    "lgamma": (lambda x: mp.log(abs(mp.gamma(x))) if x > 0 else mp.nan, 0, 1e6),
    "log": (real(mp.log, lambda x: x > 0), 0, np.inf),
    "log10": (real(lambda x: mp.log(x, 10), lambda x: x > 0), 0, np.inf),
    "log1p": (real(lambda x: mp.log1p(x) if x > -1 else -mp.inf, lambda x: x >= -1), 0, np.inf),
    "log2": (real(lambda x: mp.log(x, 2), lambda x: x > 0), 0, np.inf),
    "logb": (lambda x: mp.frexp(x)[1] - 1, 0, np.inf),
    "nearbyint": (mp.nint, 0, np.inf),
    "normcdf": (mp.ncdf, 0, 38),
    "normcdfinv": (lambda x: -mp.sqrt(2) * erfcinv(2 * x), 0, 1),
    "rcbrt": (lambda x: mp.sign(x) / mp.cbrt(abs(x)), 0, np.inf),
    "rint": (mp.nint, 0, np.inf),
    "round": (half_away, 0, np.inf),
    "rsqrt": (real(lambda x: 1 / mp.sqrt(x), lambda x: x > 0), 0, np.inf),
    "sin": (mp.sin, 0, np.inf),
    "sinh": (mp.sinh, 0, 800),
    "sinpi": (mp.sinpi, 0, np.inf),
    "sqrt": (real(mp.sqrt, lambda x: x >= 0), 0, np.inf),
    "tan": (mp.tan, 0, np.inf),
    "tanh": (mp.tanh, 0, np.inf),
    "tgamma": (real(mp.gamma, lambda x: x > 0 or x != mp.floor(x)), 0, 180),
    "trunc": (lambda x: mp.sign(x) * mp.floor(abs(x)), 0, np.inf),
    "j0": (lambda x: mp.besselj(0, x), 0, 8),
    "j1": (lambda x: mp.besselj(1, x), 0, 8),
    "y0": (real(lambda x: mp.bessely(0, x), lambda x: x > 0), 0, 8),
    "y1": (real(lambda x: mp.bessely(1, x), lambda x: x > 0), 0, 8),
}
"""References, and the least and greatest size of their arguments."""

TWO: Final[dict[str, Reference]] = {
    "atan2": mp.atan2,
    "copysign": lambda x, y: abs(x) if y >= 0 else -abs(x),
    "fdim": lambda x, y: x - y if x > y else mpf(0),
    "fdivide": lambda x, y: x / y,
    "fmax": max,
    "fmin": min,
    "fmod": lambda x, y: mp.sign(x) * (abs(x) % abs(y)),
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "pow": lambda x, y: x**y if x > 0 else mp.nan,
    "remainder": lambda x, y: x - y * mp.nint(x / y),
    "rhypot": lambda x, y: 1 / mp.sqrt(x * x + y * y),
}

SPECIAL: Final[dict[str, str]] = {
    "rsqrt": "0 inf  -0 -inf  inf 0  -1 nan",
    "rcbrt": "0 inf  -0 -inf  inf 0  -inf -0",
    "cbrt": "0 0  -0 -0  inf inf  -inf -inf",
    "erfcinv": "0 inf  2 -inf  -1 nan  3 nan  1 0",
    "erfinv": "0 0  -0 -0  1 inf  -1 -inf  2 nan",
    "erfcx": "inf 0  -inf inf",
    "normcdf": "inf 1  -inf 0",
    "normcdfinv": "0 -inf  1 inf  -1 nan  2 nan",
    "sinpi": "0 0  -0 -0  3 0  -2 -0  inf nan",
    "cospi": "0 1  -0 1  0.5 0  -1.5 0  inf nan",
    "cyl_bessel_i0": "0 1  inf inf  -inf inf",
    "cyl_bessel_i1": "0 0  -0 -0  inf inf  -inf -inf",
    "lgamma": "1 0  2 0  inf inf  -inf inf  -3 inf",
    "tgamma": "0 inf  -0 -inf  inf inf  -inf nan",
    "exp": "0 1  inf inf  -inf 0",
    "exp10": "0 1  inf inf  -inf 0  2 100",
    "log": "0 -inf  1 0  inf inf  -1 nan",
    "log1p": "-1 -inf  -0 -0",
    "sin": "-0 -0  inf nan",
    "tanh": "inf 1  -inf -1",
    "logb": "0 -inf  inf inf  -inf inf",
    "j0": "0 1  inf 0",
    "y0": "0 -inf  -1 nan",
    "atan": "-0 -0",
    "sqrt": "-0 -0  -1 nan",
}
"""Arguments and the documented results; not-a-number gives not-a-number everywhere."""


def source() -> str:
    parts = ["#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)\n"]
    for type_, (_dtype, _bits, suffix) in TYPES.items():
        begin = 'extern "C" __global__ void'
        parts += [
            f"{begin} {name}_{type_}(const {type_} *x, {type_} *o, int n) {{\n"
            f"    int i = INDEX; if (i < n) o[i] = {name}{suffix}(x[i]);\n}}\n"
            for name in ONE
        ]
        parts += [
            f"{begin} {name}_{type_}(const {type_} *x, const {type_} *y, {type_} *o, int n) {{\n"
            f"    int i = INDEX; if (i < n) o[i] = {name}{suffix}(x[i], y[i]);\n}}\n"
            for name in TWO
        ]
        parts.append(
            f"{begin} norms_{type_}(const {type_} *x, {type_} *o, int n) {{\n"
            f"    int i = INDEX; if (i >= n) return;\n    const {type_} *p = x + 4 * i; o += 8 * i;\n"
            f"    o[0] = norm3d{suffix}(p[0], p[1], p[2]); o[1] = rnorm3d{suffix}(p[0], p[1], p[2]);\n"
            f"    o[2] = norm4d{suffix}(p[0], p[1], p[2], p[3]); o[3] = rnorm4d{suffix}(p[0], p[1], p[2], p[3]);\n"
            f"    o[4] = norm{suffix}(4, p); o[5] = rnorm{suffix}(4, p); sincospi{suffix}(p[0], o + 6, o + 7);\n}}\n"
        )
        parts.append(
            f"{begin} extremes_{type_}(const {type_} *x, const {type_} *y, {type_} *o, int n) {{\n"
            f"    int i = INDEX; if (i >= n) return;\n    {type_} a = x[i], b = y[i], zero = 0; o += 10 * i;\n"
            f"    o[0] = fmin{suffix}(a, b); o[1] = fmax{suffix}(a, b); o[2] = min(a, b); o[3] = max(a, b);\n"
            f"    o[4] = fmin{suffix}(a, zero); o[5] = fmax{suffix}(zero, a); o[6] = fmin{suffix}(-zero, a);\n"
            f"    o[7] = fmax{suffix}(a, -zero); o[8] = fmin{suffix}(fabs(a), fabs(b)); o[9] = fmax(a, -fabs(b));\n}}\n"
        )
    return "".join(parts)


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(source())[0]


@pytest.fixture
def gpu(image: bytes) -> Iterator[Rig]:
    with rig() as made:
        made.load_image(image)
        yield made


def run(gpu: Rig, name: str, dtype: Any, *inputs: Any, times: int = 1) -> Any:
    count = len(inputs[0])
    arrays = [gpu.array(values.shape, values.dtype, values) for values in inputs]
    result = gpu.array((count, times), dtype)
    gpu.launch(name, (count + 63) // 64, 64, *arrays, result, np.int32(count))
    return result.copy() if times > 1 else result[:, 0].copy()


def sweep(dtype: Any, low: float, high: float, exponents: int) -> Any:
    """Numbers of all exponents, or of every so many, between two sizes, of both signs; and those beside powers of two."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(11)
    powers = np.linspace(info.minexp - info.nmant, info.maxexp - 1, exponents).astype(int)
    with np.errstate(under="ignore", over="ignore"):
        base = np.ldexp(np.ones(1, np.longdouble), powers).astype(dtype)
        near = np.concatenate([base, np.nextafter(base, dtype(0)), base * rng.uniform(1, 2, len(base)).astype(dtype)])
        usual = rng.uniform(0, 4, 60).astype(dtype)
        wide = np.exp(rng.uniform(-8, 8, 120)).astype(dtype)
        steps = np.arange(0, 12, 0.25).astype(dtype)
    x = np.concatenate([near, usual, wide, steps])
    x = x[(x > low) & (x <= high) & np.isfinite(x)]
    return np.concatenate([x, -x])


def ordinals(x: Any, bits: Any) -> Any:
    """Integers that count the numbers from zero."""
    raw = x.view(bits).astype(object)
    least = int(np.iinfo(bits).min)
    return np.array([value if value >= 0 else least - value for value in raw], object)


def rounded(value: Any, dtype: Any) -> Any:
    if mpmath.isnan(value) or isinstance(value, mpmath.mpc):
        return dtype(np.nan)
    with np.errstate(over="ignore", under="ignore"):
        return dtype(float(value))


def largest_error(got: Any, wanted: Any, bits: Any) -> tuple[int, int]:
    """Greatest difference in units in the last place, and where."""
    both = np.isnan(got) & np.isnan(wanted)
    assert np.array_equal(np.isnan(got), np.isnan(wanted)), np.flatnonzero(np.isnan(got) != np.isnan(wanted))[:5]
    difference = np.where(both, 0, abs(ordinals(got, bits) - ordinals(wanted, bits)))
    at = int(np.argmax(difference))
    return int(difference[at]), at


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(gpu: Rig, name: str, type_: str) -> None:
    dtype, bits, _suffix = TYPES[type_]
    reference, low, high = ONE[name]
    x = sweep(dtype, low, high, 128 if type_ == "double" else 140)
    with mp.workdps(60):
        wanted = np.array([rounded(reference(mpf(float(value))), dtype) for value in x])
    got = run(gpu, f"{name}_{type_}", dtype, x)
    if name == "lgamma":
        positive = x > 0
        x, got, wanted = x[positive], got[positive], wanted[positive]
    error, at = largest_error(got, wanted, bits)
    allowed = cuda_math_api.ULP[name][0 if type_ == "double" else 1]
    allowed = cuda_math_api.BEYOND.get((name, type_), (allowed, ""))[0]
    assert error <= allowed, f"{name}({x[at]!r}) = {got[at]!r}, not {wanted[at]!r}"


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(gpu: Rig, name: str, type_: str) -> None:
    dtype, bits, _suffix = TYPES[type_]
    rng = np.random.default_rng(12)
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        x = np.concatenate(
            [
                rng.uniform(-3, 3, 300),
                np.ldexp(rng.uniform(-2, 2, 300), rng.integers(info.minexp, info.maxexp - 1, 300)),
            ]
        ).astype(dtype)
        y = np.concatenate(
            [
                rng.uniform(-3, 3, 300),
                np.ldexp(rng.uniform(-2, 2, 300), rng.integers(info.minexp, info.maxexp - 1, 300)),
            ]
        ).astype(dtype)
    if name == "pow":
        y[300:] = rng.uniform(-1, 1, 300).astype(dtype)
        x = abs(x)
    with mp.workdps(700):
        wanted = np.array([rounded(TWO[name](mpf(float(a)), mpf(float(b))), dtype) for a, b in zip(x, y, strict=True)])
    error, at = largest_error(run(gpu, f"{name}_{type_}", dtype, x, y), wanted, bits)
    allowed = cuda_math_api.ULP_2[name][0 if type_ == "double" else 1]
    allowed = cuda_math_api.BEYOND.get((name, type_), (allowed, ""))[0]
    assert error <= allowed, f"{name}({x[at]!r}, {y[at]!r}) is not {wanted[at]!r}"


@pytest.mark.parametrize("type_", TYPES)
def test_norms(gpu: Rig, type_: str) -> None:
    dtype, bits, _suffix = TYPES[type_]
    rng = np.random.default_rng(13)
    info = np.finfo(dtype)
    power = rng.integers(info.minexp // 2 * 2 + 8, info.maxexp - 3, 300)
    x = np.ldexp(rng.uniform(-2, 2, (300, 4)), power[:, None]).astype(dtype)
    got = run(gpu, f"norms_{type_}", dtype, x, times=8)
    bounds = (2, 1, 2, 1, 3, 2) if type_ == "double" else (3, 2, 3, 2, 4, 3)
    with mp.workdps(700):
        for column, (bound, count) in enumerate(zip(bounds, (3, 3, 4, 4, 4, 4), strict=True)):
            lengths = [mp.sqrt(sum(mpf(float(v)) ** 2 for v in row[:count])) for row in x]
            wanted = np.array([rounded(1 / v if column % 2 else v, dtype) for v in lengths])
            error, at = largest_error(np.ascontiguousarray(got[:, column]), wanted, bits)
            assert error <= bound, (column, x[at])
    special = np.array([[np.inf, np.nan, 1, 2], [0, 0, 0, 0], [np.nan, 1, 2, 3]], dtype)
    got = run(gpu, f"norms_{type_}", dtype, special, times=8)
    assert np.array_equal(got[:, :6], np.array([[np.inf, 0] * 3, [0, np.inf] * 3, [np.nan] * 6], dtype), equal_nan=True)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_arguments(gpu: Rig, name: str, type_: str) -> None:
    dtype = TYPES[type_][0]
    words = [float(word) for word in SPECIAL[name].split()]
    x, wanted = np.array([*words[::2], np.nan], dtype), np.array([*words[1::2], np.nan], dtype)
    got = run(gpu, f"{name}_{type_}", dtype, x)
    assert np.array_equal(got, wanted, equal_nan=True), list(zip(x, got, strict=True))
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers])), list(zip(x, got, strict=True))


def least(x: float, y: float) -> float:
    """The lesser of two numbers, where -0 is less than 0, or the one that is a number."""
    if np.isnan(x) or np.isnan(y):
        return x if np.isnan(y) else y
    return x if (x, not np.signbit(x)) < (y, not np.signbit(y)) else y


def greatest(x: float, y: float) -> float:
    return -least(-x, -y)


@pytest.mark.parametrize("type_", TYPES)
def test_extremes_of_zeroes_and_not_a_number(gpu: Rig, type_: str) -> None:
    dtype = TYPES[type_][0]
    edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal, np.nan], dtype)
    x, y = (axis.ravel() for axis in np.meshgrid(edges, edges))
    got = run(gpu, f"extremes_{type_}", dtype, x, y, times=10)
    for row, a, b in zip(got.astype(float), x.astype(float), y.astype(float), strict=True):
        wanted = [
            *([least(a, b), greatest(a, b)] * 2),
            *(least(a, 0.0), greatest(a, 0.0), least(a, -0.0), greatest(a, -0.0)),
            *(least(abs(a), abs(b)), greatest(a, -abs(b))),
        ]
        assert [str(v) for v in row] == [str(v) for v in wanted], (a, b)


def test_every_documented_function_is_there_or_explained() -> None:
    """A pointer to each function has the type that the documentation says."""
    lines = []
    for declarations in cuda_math_api.FUNCTIONS.values():
        for declaration in declarations:
            result, rest = declaration.split("(", 1)
            type_, name = result.rsplit(" ", 1)
            if name not in cuda_math_api.ABSENT:
                lines.append(f"    {{ {type_} (*p)({rest} = {name}; used |= p != nullptr; }}")
    body = "\n".join(lines)
    compile_image(f'extern "C" __global__ void f(bool *o) {{\n    bool used = false;\n{body}\n    *o = used;\n}}\n')


def test_integers_and_mixtures_are_computed_as_doubles() -> None:
    source = """
    template <class T, class U> struct same { static const bool value = false; };
    template <class T> struct same<T, T> { static const bool value = true; };
    #define IS(type, expression) static_assert(same<decltype(expression), type>::value, #expression)
    extern "C" __global__ void f(double *o, int n, float x, double y, long long l) {
        IS(double, sqrt(n)); IS(float, sqrt(x)); IS(double, sqrt(y)); IS(double, sin(l)); IS(float, abs(x)); IS(int, abs(n));
        IS(double, pow(n, n)); IS(float, pow(x, x)); IS(double, pow(x, y)); IS(double, pow(y, n)); IS(double, fmax(x, y));
        IS(float, max(x, n)); IS(double, max(y, n)); IS(double, min(x, y)); IS(unsigned, min(n, 3u)); IS(float, fmin(x, x));
        IS(double, atan2(n, y)); IS(float, atan2(x, x)); IS(int, ilogb(x)); IS(long long, llrint(x)); IS(float, ldexp(x, n));
        o[0] = sqrt(n) + pow(n, 2) + pow(x, 2.0) + fmod(l, 3) + floor(n) + hypot(n, n);
    }
    """
    with rig(pes=1) as gpu:
        gpu.load(source)
        out = gpu.array(1, np.float64)
        gpu.launch("f", 1, 1, out, np.int32(4), np.float32(3), np.float64(1), np.int64(5))
        assert out[0] == 2 + 16 + 9 + 2 + 4 + np.hypot(4, 4)
