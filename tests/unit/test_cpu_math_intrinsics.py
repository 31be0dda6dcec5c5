"""The CPU engine's intrinsics: rounding arithmetic against fractions, integers and words against plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, compile_image, rig

MODES: Final = ("rn", "rz", "rd", "ru")
FORMATS: Final[dict[str, tuple[Any, int, int, int]]] = {
    "float": (np.float32, 24, -149, 127),
    "double": (np.float64, 53, -1074, 1023),
}
"""Type, digits, exponent of the least number, exponent of the greatest."""
INTEGERS: Final[dict[str, Any]] = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
C_NAMES: Final = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}
M32: Final = (1 << 32) - 1


def rounded(x: Fraction, type_: str, mode: str) -> float:
    """The number of a format that a fraction other than 0 is rounded to."""
    _dtype, digits, least, greatest = FORMATS[type_]
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** max(exponent - digits + 1, least)
    count, rest = divmod(size, step)
    away = {"rz": False, "rd": x < 0, "ru": x > 0, "rn": rest * 2 > step or (rest * 2 == step and count % 2 == 1)}[mode]
    size = (count + (1 if rest and away else 0)) * step
    largest = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** greatest
    if size > largest:
        stays = mode == "rz" or (mode == "rd" and x > 0) or (mode == "ru" and x < 0)
        return math.copysign(float(largest) if stays else math.inf, -1 if x < 0 else 1)
    return math.copysign(float(size), -1 if x < 0 else 1)


def rounded_root(x: Fraction, type_: str, mode: str) -> float:
    """The root, of which 200 bits decide: no root is a number of the format but for a digit after them."""
    scaled = x * (1 << 2400)
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled
    return rounded(Fraction(root * 2 + (0 if exact else 1), 1 << 1201), type_, mode)


def operands(type_: str, count: int, seed: int) -> Any:
    dtype, digits, least, greatest = FORMATS[type_]
    rng = np.random.default_rng(seed)
    values = np.ldexp(
        rng.integers(1 << (digits - 1), 1 << digits, count).astype(np.float64), rng.integers(-20, 20, count) - digits
    )
    wide = np.ldexp(rng.uniform(1, 2, count), rng.integers(least + digits, greatest, count))
    special = np.array(
        [1, 2, 3, 0.1, np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, 0.5]
    )
    x = np.concatenate([values, wide, np.repeat(special, 8)]).astype(dtype)
    return x * rng.choice([-1, 1], len(x)).astype(dtype)


def source() -> str:
    parts = ["#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)\n"]
    begin = 'extern "C" __global__ void'
    for type_, prefix, fma in (("float", "f", "__fmaf"), ("double", "d", "__fma")):
        parts += [
            f"{begin} rounding_{type_}_{mode}(const {type_} *a, const {type_} *b, const {type_} *c, {type_} *o, int n) {{\n"
            f"    int i = INDEX; if (i >= n) return;\n    o += 8 * i; o[0] = __{prefix}add_{mode}(a[i], b[i]);\n"
            f"    o[1] = __{prefix}sub_{mode}(a[i], b[i]); o[2] = __{prefix}mul_{mode}(a[i], b[i]);\n"
            f"    o[3] = __{prefix}div_{mode}(a[i], b[i]); o[4] = __{prefix}rcp_{mode}(a[i]);\n"
            f"    o[5] = __{prefix}sqrt_{mode}(fabs(a[i])); o[6] = {fma}_{mode}(a[i], b[i], c[i]);\n"
            f"    o[7] = __{prefix}sqrt_{mode}(a[i]);\n}}\n"
            for mode in MODES
        ]
    for mode in MODES:
        parts.append(
            f"{begin} narrow_{mode}(const double *x, float *o, int n) {{ int i = INDEX; if (i < n) o[i] = __double2float_{mode}(x[i]); }}\n"
        )
        for short, c in C_NAMES.items():
            parts.append(
                f"{begin} float_{short}_{mode}(const {c} *x, float *o, int n) {{ int i = INDEX; if (i < n) o[i] = __{short}2float_{mode}(x[i]); }}\n"
            )
            if "ll" in short:
                parts.append(
                    f"{begin} double_{short}_{mode}(const {c} *x, double *o, int n) {{ int i = INDEX; if (i < n) o[i] = __{short}2double_{mode}(x[i]); }}\n"
                )
            parts += [
                f"{begin} {short}_{type_}_{mode}(const {type_} *x, {c} *o, int n) {{ int i = INDEX; if (i < n) o[i] = __{type_}2{short}_{mode}(x[i]); }}\n"
                for type_ in FORMATS
            ]
    parts += [
        f"{begin} {name}(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *o, int n) {{ int i = INDEX; if (i < n) o[i] = {call}; }}\n"
        for name, (call, _) in WORDS.items()
    ]
    return "".join(parts)


def s32(x: int) -> int:
    x &= M32
    return x - (1 << 32) if x >> 31 else x


def parts_of(x: int, count: int, *, signed: bool) -> list[int]:
    width = 32 // count
    values = [x >> width * i & ((1 << width) - 1) for i in range(count)]
    return [v - (1 << width) if signed and v >> (width - 1) else v for v in values]


def word(values: list[int], count: int) -> int:
    width = 32 // count
    return sum((v & ((1 << width) - 1)) << width * i for i, v in enumerate(values))


def lanes(function: Callable[..., int], count: int, *, signed: bool) -> Callable[..., int]:
    return lambda *xs: word(
        [function(*v) for v in zip(*(parts_of(x, count, signed=signed) for x in xs), strict=True)], count
    )


def clamp(x: int, count: int, *, signed: bool) -> int:
    width = 32 // count
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return min(max(x, low), high)


def byte_perm(x: int, y: int, selector: int) -> int:
    data = (y << 32 | x).to_bytes(8, "little")
    return int.from_bytes(bytes(data[selector >> 4 * i & 7] for i in range(4)), "little")


def fns(mask: int, base: int, offset: int) -> int:
    base, offset = base % 32, offset % 9 - 4
    if offset == 0:
        return base if mask >> base & 1 else M32
    order = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [i for i in order if mask >> i & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else M32


def dot(a: int, b: int, c: int, *, signed: bool) -> int:
    return c + sum(x * y for x, y in zip(parts_of(a, 4, signed=signed), parts_of(b, 4, signed=signed), strict=True))


def dot2(a: int, b: int, c: int, *, signed: bool, high: bool) -> int:
    return c + sum(
        x * y
        for x, y in zip(
            parts_of(a, 2, signed=signed), parts_of(b, 4, signed=signed)[2 * high : 2 * high + 2], strict=True
        )
    )


def s24(x: int) -> int:
    x &= 0xFFFFFF
    return x - (1 << 24) if x >> 23 else x


WORDS: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "brev": ("__brev(a[i])", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    "brevll": (
        "(unsigned)(__brevll((unsigned long long)a[i] << 32 | b[i]) >> 7)",
        lambda a, b, c: int(f"{a << 32 | b:064b}"[::-1], 2) >> 7,
    ),
    "byte_perm": ("__byte_perm(a[i], b[i], c[i])", byte_perm),
    "clz": ("__clz((int)(a[i] >> (b[i] & 31)))", lambda a, b, c: 32 - (a >> (b & 31)).bit_length()),
    "clzll": (
        "__clzll((long long)((unsigned long long)a[i] << 32 >> (b[i] & 63)))",
        lambda a, b, c: 64 - (a << 32 >> (b & 63)).bit_length(),
    ),
    "ffs": (
        "__ffs((int)(a[i] << (b[i] & 31)))",
        lambda a, b, c: ((a << (b & 31) & M32) & -(a << (b & 31) & M32)).bit_length(),
    ),
    "popc": (
        "__popc(a[i]) + __popcll((unsigned long long)a[i] << 13 | 5)",
        lambda a, b, c: a.bit_count() + (a << 13 | 5).bit_count(),
    ),
    "fns": ("__fns(a[i], b[i] % 32, (int)(c[i] % 9) - 4)", fns),
    "fs_l": ("__funnelshift_l(a[i], b[i], c[i])", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    "fs_r": ("__funnelshift_r(a[i], b[i], c[i])", lambda a, b, c: (b << 32 | a) >> (c & 31)),
    "fs_lc": ("__funnelshift_lc(a[i], b[i], c[i] % 50)", lambda a, b, c: (b << 32 | a) << min(c % 50, 32) >> 32),
    "fs_rc": ("__funnelshift_rc(a[i], b[i], c[i] % 50)", lambda a, b, c: (b << 32 | a) >> min(c % 50, 32)),
    "hadd": ("__hadd((int)a[i], (int)b[i])", lambda a, b, c: s32(a) + s32(b) >> 1),
    "rhadd": ("__rhadd((int)a[i], (int)b[i])", lambda a, b, c: s32(a) + s32(b) + 1 >> 1),
    "uhadd": ("__uhadd(a[i], b[i])", lambda a, b, c: a + b >> 1),
    "urhadd": ("__urhadd(a[i], b[i])", lambda a, b, c: a + b + 1 >> 1),
    "mul24": ("__mul24((int)a[i], (int)b[i])", lambda a, b, c: s24(a) * s24(b)),
    "umul24": ("__umul24(a[i], b[i])", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "mulhi": ("__mulhi((int)a[i], (int)b[i])", lambda a, b, c: s32(a) * s32(b) >> 32),
    "umulhi": ("__umulhi(a[i], b[i])", lambda a, b, c: a * b >> 32),
    "umul64hi": (
        "(unsigned)__umul64hi((unsigned long long)a[i] << 32 | c[i], (unsigned long long)b[i] << 32)",
        lambda a, b, c: (a << 32 | c) * (b << 32) >> 64,
    ),
    "mul64hi": (
        "(unsigned)__mul64hi((long long)((unsigned long long)a[i] << 32), (int)b[i])",
        lambda a, b, c: (s32(a) << 32) * s32(b) >> 64,
    ),
    "sad": ("__sad((int)a[i], (int)b[i], c[i])", lambda a, b, c: c + abs(s32(a) - s32(b))),
    "usad": ("__usad(a[i], b[i], c[i])", lambda a, b, c: c + abs(a - b)),
    "dp4a": ("__dp4a((int)a[i], (int)b[i], (int)c[i])", lambda a, b, c: dot(a, b, c, signed=True)),
    "udp4a": ("__dp4a(a[i], b[i], c[i])", lambda a, b, c: dot(a, b, c, signed=False)),
    "dp2a_lo": ("__dp2a_lo((int)a[i], (int)b[i], (int)c[i])", lambda a, b, c: dot2(a, b, c, signed=True, high=False)),
    "dp2a_hi": ("__dp2a_hi((int)a[i], (int)b[i], (int)c[i])", lambda a, b, c: dot2(a, b, c, signed=True, high=True)),
    "udp2a_lo": ("__dp2a_lo(a[i], b[i], c[i])", lambda a, b, c: dot2(a, b, c, signed=False, high=False)),
    "udp2a_hi": ("__dp2a_hi(a[i], b[i], c[i])", lambda a, b, c: dot2(a, b, c, signed=False, high=True)),
    "viaddmax": ("__viaddmax_s32((int)a[i], (int)b[i], (int)c[i])", lambda a, b, c: max(s32(a + b), s32(c))),
    "viaddmin_u": ("__viaddmin_u32(a[i], b[i], c[i])", lambda a, b, c: min(a + b & M32, c)),
    "vimax3": ("__vimax3_s16x2(a[i], b[i], c[i])", lanes(max, 2, signed=True)),
    "vimin3_u": ("__vimin3_u16x2(a[i], b[i], c[i])", lanes(min, 2, signed=False)),
    "vimax3_relu": (
        "__vimax3_s32_relu((int)a[i], (int)b[i], (int)c[i])",
        lambda a, b, c: max(s32(a), s32(b), s32(c), 0),
    ),
    "viaddmin_x2": (
        "__viaddmin_s16x2_relu(a[i], b[i], c[i])",
        lanes(lambda x, y, z: max(min((x + y + 32768) % 65536 - 32768, z), 0), 2, signed=True),
    ),
    "vimin_relu": (
        "__vimin_s16x2_relu(a[i], b[i])",
        lambda a, b, c: lanes(lambda x, y: max(min(x, y), 0), 2, signed=True)(a, b),
    ),
}
"""Calls on words a, b and c, and what they give."""


def add_lanes(
    name: str, function: Callable[..., int], *, signed: bool, operands: int = 2, saturates: bool = False
) -> None:
    for count in (2, 4):

        def compute(a: int, b: int, _c: int, count: int = count) -> int:
            def one(*values: int) -> int:
                value = function(*values)
                return clamp(value, count, signed=signed) if saturates else value

            return lanes(one, count, signed=signed)(*(a, b)[:operands])

        WORDS[f"{name}{count}"] = (f"__{name}{count}({'a[i], b[i]' if operands == 2 else 'a[i]'})", compute)


add_lanes("vabs", abs, signed=True, operands=1)
add_lanes("vabsss", abs, signed=True, operands=1, saturates=True)
add_lanes("vneg", lambda x: -x, signed=True, operands=1)
add_lanes("vnegss", lambda x: -x, signed=True, operands=1, saturates=True)
for suffix_, signed_ in (("s", True), ("u", False)):
    add_lanes(f"vabsdiff{suffix_}", lambda x, y: abs(x - y), signed=signed_)
    add_lanes(f"vmax{suffix_}", max, signed=signed_)
    add_lanes(f"vmin{suffix_}", min, signed=signed_)
    add_lanes(f"vadd{suffix_}s", lambda x, y: x + y, signed=signed_, saturates=True)
    add_lanes(f"vsub{suffix_}s", lambda x, y: x - y, signed=signed_, saturates=True)
    for compare_, holds in (
        ("ge", lambda x, y: x >= y),
        ("gt", lambda x, y: x > y),
        ("le", lambda x, y: x <= y),
        ("lt", lambda x, y: x < y),
    ):
        add_lanes(f"vcmp{compare_}{suffix_}", lambda x, y, holds=holds: -holds(x, y), signed=signed_)
        add_lanes(f"vset{compare_}{suffix_}", lambda x, y, holds=holds: int(holds(x, y)), signed=signed_)
add_lanes("vadd", lambda x, y: x + y, signed=False)
add_lanes("vsub", lambda x, y: x - y, signed=False)
add_lanes("vavgs", lambda x, y: x + y + (x + y >= 0) >> 1, signed=True)
add_lanes("vavgu", lambda x, y: x + y + 1 >> 1, signed=False)
add_lanes("vhaddu", lambda x, y: x + y >> 1, signed=False)
add_lanes("vcmpeq", lambda x, y: -(x == y), signed=False)
add_lanes("vcmpne", lambda x, y: -(x != y), signed=False)
add_lanes("vseteq", lambda x, y: int(x == y), signed=False)
add_lanes("vsetne", lambda x, y: int(x != y), signed=False)


def sum_of_differences(count: int, *, signed: bool) -> Callable[[int, int, int], int]:
    def compute(a: int, b: int, _c: int) -> int:
        pairs = zip(parts_of(a, count, signed=signed), parts_of(b, count, signed=signed), strict=True)
        return sum(abs(x - y) for x, y in pairs)

    return compute


for count_ in (2, 4):
    for suffix_, signed_ in (("s", True), ("u", False)):
        name_ = f"vsad{suffix_}{count_}"
        WORDS[name_] = (f"__{name_}(a[i], b[i])", sum_of_differences(count_, signed=signed_))


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
    return result.copy()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", FORMATS)
def test_arithmetic_in_all_rounding_modes(gpu: Rig, type_: str, mode: str) -> None:
    dtype = FORMATS[type_][0]
    a, b, c = operands(type_, 250, 1), np.roll(operands(type_, 250, 2), 9), operands(type_, 250, 3)
    got = run(gpu, f"rounding_{type_}_{mode}", dtype, a, b, c, times=8)[:, :7]
    for row, x, y, z in zip(got, a, b, c, strict=True):
        p, q, r = Fraction(float(x)), Fraction(float(y)), Fraction(float(z))
        exact = [p + q, p - q, p * q, p / q, 1 / p, None, p * q + r]
        wanted = [
            rounded_root(abs(p), type_, mode) if v is None else rounded(v, type_, mode) if v else 0.0 for v in exact
        ]
        assert [float(v) for v in row] == wanted, (x, y, z)


def sum_at_edge(x: float, y: float, type_: str, mode: str) -> float:
    """Sum of two numbers; `x` may have more digits than the format."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    if exact := Fraction(x) + Fraction(y):
        return rounded(exact, type_, mode)
    signs = {math.copysign(1, x), math.copysign(1, y)}
    return math.copysign(0.0, signs.pop() if len(signs) == 1 else -1 if mode == "rd" else 1)


def product_at_edge(x: float, y: float, type_: str, mode: str) -> float:
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return rounded(Fraction(x) * Fraction(y), type_, mode)
    return x * y


def quotient_at_edge(x: float, y: float, type_: str, mode: str) -> float:
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return rounded(Fraction(x) / Fraction(y), type_, mode)
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


def root_at_edge(x: float, type_: str, mode: str) -> float:
    if math.isfinite(x) and x > 0:
        return rounded_root(Fraction(x), type_, mode)
    return x if x in (0, math.inf) else math.nan


def fused_at_edge(x: float, y: float, z: float, type_: str, mode: str) -> float:
    if all(math.isfinite(v) and v for v in (x, y, z)):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        return rounded(exact, type_, mode) if exact else -0.0 if mode == "rd" else 0.0
    if math.isfinite(x) and math.isfinite(y) and x and y:
        return product_at_edge(x, y, type_, mode) if z == 0 else z
    return sum_at_edge(x * y, z, type_, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", FORMATS)
def test_arithmetic_at_edges_in_all_rounding_modes(gpu: Rig, type_: str, mode: str) -> None:
    """Zeroes have the sign that IEEE 754 says; the least, the greatest and infinite numbers; NaN stays."""
    dtype = FORMATS[type_][0]
    info = np.finfo(dtype)
    sizes = np.array([0, 1, 1.5, info.smallest_subnormal, info.max, np.inf], dtype)
    edges = np.concatenate([sizes, -sizes, np.array([np.nan], dtype)])
    a, b, c = (axis.ravel() for axis in np.meshgrid(edges, edges, edges))
    got = run(gpu, f"rounding_{type_}_{mode}", dtype, a, b, c, times=8)
    wrong = []
    for row, *operands_ in zip(got, a, b, c, strict=True):
        x, y, z = map(float, operands_)
        wanted = [
            sum_at_edge(x, y, type_, mode),
            sum_at_edge(x, -y, type_, mode),
            product_at_edge(x, y, type_, mode),
            quotient_at_edge(x, y, type_, mode),
            quotient_at_edge(1.0, x, type_, mode),
            root_at_edge(abs(x), type_, mode),
            fused_at_edge(x, y, z, type_, mode),
            root_at_edge(x, type_, mode),
        ]
        found = [float(v) for v in row]
        if list(map(repr, found)) != list(map(repr, wanted)):
            wrong.append(f"{x!r}, {y!r}, {z!r}: {found}, expected {wanted}")
    assert wrong == []


@pytest.mark.parametrize("mode", MODES)
def test_doubles_become_floats_in_all_rounding_modes(gpu: Rig, mode: str) -> None:
    x = np.concatenate([operands("double", 300, 4), operands("float", 100, 5).astype(np.float64) * (1 + 2.0**-40)])
    got = run(gpu, f"narrow_{mode}", np.float32, x)[:, 0]
    assert [float(v) for v in got] == [rounded(Fraction(float(v)), "float", mode) for v in x]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("short", INTEGERS)
def test_conversions_in_all_rounding_modes(gpu: Rig, short: str, mode: str) -> None:
    limits = np.iinfo(INTEGERS[short])
    rng = np.random.default_rng(6)
    values = [
        int(v) >> int(s)
        for v, s in zip(
            rng.integers(limits.min, limits.max, 300, dtype=INTEGERS[short], endpoint=True),
            rng.integers(0, 60, 300),
            strict=True,
        )
    ]
    values += [limits.min, limits.max, limits.max - 1, 1, 0, (1 << 24) + 1, (1 << 31) - 1]
    x = np.array(values, INTEGERS[short])
    for type_ in ("float", *(("double",) if "ll" in short else ())):
        got = run(gpu, f"{type_}_{short}_{mode}", FORMATS[type_][0], x)[:, 0]
        assert [float(v) for v in got] == [rounded(Fraction(v), type_, mode) if v else 0.0 for v in values]
    whole: dict[str, Callable[[float], int]] = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}
    for type_ in FORMATS:
        y = operands(type_, 200, 7)
        back = run(gpu, f"{short}_{type_}_{mode}", INTEGERS[short], y)[:, 0]
        assert [int(v) for v in back] == [min(max(whole[mode](float(v)), int(limits.min)), int(limits.max)) for v in y]


@pytest.mark.parametrize("name", WORDS)
def test_integers_and_words(gpu: Rig, name: str) -> None:
    rng = np.random.default_rng(8)
    special = [0, 1, M32, 0x80000000, 0x7FFFFFFF, 0x80008000, 0x80808080, 0x7FFF8000, 0x00FF00FF]
    a, b = (np.array(axis).ravel() for axis in np.meshgrid(special, special))
    a, b = (np.concatenate([x, rng.integers(0, 1 << 32, 200)]).astype(np.uint32) for x in (a, b))
    a[-60:] = b[-60:] ^ (1 << rng.integers(0, 32, 60)).astype(np.uint32)
    c = rng.integers(0, 1 << 32, len(a)).astype(np.uint32)
    got = run(gpu, name, np.uint32, a, b, c)[:, 0]
    assert [int(v) for v in got] == [
        WORDS[name][1](int(x), int(y), int(z)) & M32 for x, y, z in zip(a, b, c, strict=True)
    ]
