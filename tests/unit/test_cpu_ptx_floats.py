"""Float instructions of PTX on the CPU engine, beside exact arithmetic with fractions, and numpy."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from tests.unit.ptx_rig import Case, signed, width, wrong_results

Number: TypeAlias = Fraction | float
"""A finite number as a fraction; zeroes, infinities and NaN as a float."""


@dataclass(frozen=True)
class Format:
    """Binary format of floats."""

    exponent: int
    mantissa: int

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    def value(self, bits: int) -> Number:
        sign = -1 if bits >> (self.exponent + self.mantissa) & 1 else 1
        exponent = bits >> self.mantissa & ((1 << self.exponent) - 1)
        digits = bits & ((1 << self.mantissa) - 1)
        if exponent == (1 << self.exponent) - 1:
            return math.nan if digits else sign * math.inf
        if not exponent and not digits:
            return sign * 0.0
        whole = digits if not exponent else digits | 1 << self.mantissa
        return sign * Fraction(whole) * Fraction(2) ** (max(1, exponent) - self.bias - self.mantissa)

    def bits(self, number: Number, mode: str = "rn") -> int | None:
        """Bits of a number rounded to this format; None for NaN."""
        if isinstance(number, float):
            if math.isnan(number):
                return None
            sign = int(math.copysign(1, number) < 0) << (self.exponent + self.mantissa)
            return sign | (self.infinity if math.isinf(number) else 0)
        negative, size = number < 0, abs(number)
        exponent = math.floor(math.log2(size.numerator)) - math.ceil(math.log2(size.denominator)) - 2
        while Fraction(2) ** (exponent + 1) <= size:
            exponent += 1
        place = max(exponent, 1 - self.bias) - self.mantissa
        steps = size / Fraction(2) ** place
        whole = math.floor(steps)
        rest = steps - whole
        away = {"rz": False, "rm": negative, "rp": not negative}.get(
            mode, rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
        )
        whole += int(rest > 0 and away)
        result = whole + max(0, place + self.bias - 1 + self.mantissa << self.mantissa)
        if result >= self.infinity:
            result = self.infinity - (mode == "rz" or (mode in {"rm", "rp"} and not away))
        return result | int(negative) << (self.exponent + self.mantissa)


FORMATS: Final = {"f16": Format(5, 10), "bf16": Format(8, 7), "f32": Format(8, 23), "f64": Format(11, 52)}


def edges(name: str) -> tuple[int, ...]:
    """Bits of numbers of a format at its ends, in its middle, and beside one another."""
    form = FORMATS[name]
    sign, one = 1 << (form.exponent + form.mantissa), form.bias << form.mantissa
    third = form.bits(Fraction(1, 3)) or 0
    positive = (
        *(
            0,
            1,
            2,
            (1 << form.mantissa) - 1,
            1 << form.mantissa,
            one - 1,
            one,
            one + 1,
            third,
            one + (3 << form.mantissa),
        ),
        *(form.infinity - 1, form.infinity, form.infinity | 1 << form.mantissa - 1),
    )
    return positive + tuple(bits | sign for bits in positive)


def ordinary(number: Number) -> bool:
    return isinstance(number, Fraction) or number == 0


def as_float(number: Number) -> float:
    """The number, or one of its sign where a double cannot hold it: enough for the rules of special values."""
    if isinstance(number, Fraction):
        return 1.0 if number > 0 else -1.0
    return number


def added(left: Number, right: Number, mode: str) -> Number:
    if not ordinary(left) or not ordinary(right):
        return as_float(left) + as_float(right)
    if isinstance(left, float) and isinstance(right, float):
        return zero_sum(left, right, mode)
    total = Fraction(left) + Fraction(right)
    return total or (-0.0 if mode == "rm" else 0.0)


def zero_sum(left: float, right: float, mode: str) -> float:
    if math.copysign(1, left) == math.copysign(1, right):
        return left
    return -0.0 if mode == "rm" else 0.0


def multiplied(left: Number, right: Number, _mode: str = "") -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left * right
    return as_float(left) * as_float(right)


def divided(left: Number, right: Number, _mode: str = "") -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left / right
    a, b = as_float(left), as_float(right)
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(1, a) * math.copysign(math.inf, b)
    return a / b


def binary(
    name: str, mode: str, operation: Callable[[Number, Number, str], Number]
) -> Callable[[int, int], int | None]:
    form = FORMATS[name]
    return lambda a, b: form.bits(operation(form.value(a), form.value(b), mode), mode)


def fused(name: str, mode: str) -> Callable[[int, int, int], int | None]:
    form = FORMATS[name]
    return lambda a, b, c: form.bits(added(multiplied(form.value(a), form.value(b)), form.value(c), mode), mode)


def carrier(name: str) -> str:
    """Type of the register for a float."""
    return "b16" if width(name) == 16 else name


def arithmetic(names: tuple[str, ...], modes: tuple[str, ...]) -> Iterator[Case]:
    for name in names:
        kind, columns = carrier(name), [edges(name)] * 3
        for mode in modes:
            for text, operation in (("add", added), ("mul", multiplied)):
                yield Case(f"{text}.{mode}.{name} %0, %1, %2;", (kind,) * 3, binary(name, mode, operation), columns[:2])
            yield Case(
                f"sub.{mode}.{name} %0, %1, %2;",
                (kind,) * 3,
                lambda a, b, name=name, mode=mode: binary(name, mode, added)(a, b ^ 1 << width(name) - 1),
                columns[:2],
            )
            yield Case(f"fma.{mode}.{name} %0, %1, %2, %3;", (kind,) * 4, fused(name, mode), columns)
            if width(name) == 16:
                continue
            yield Case(f"div.{mode}.{name} %0, %1, %2;", (kind,) * 3, binary(name, mode, divided), columns[:2])
            yield Case(
                f"rcp.{mode}.{name} %0, %1;",
                (kind,) * 2,
                lambda a, name=name, mode=mode: FORMATS[name].bits(divided(Fraction(1), FORMATS[name].value(a)), mode),
                columns[:1],
            )
            yield Case(
                f"sqrt.{mode}.{name} %0, %1;",
                (kind,) * 2,
                lambda a, name=name, mode=mode: FORMATS[name].bits(root(FORMATS[name].value(a)), mode),
                columns[:1],
            )


def root(number: Number) -> Number:
    """Square root, with a last digit that is not zero if it is not exact."""
    if isinstance(number, float):
        return math.nan if number < 0 else number
    if number < 0:
        return math.nan
    scaled = number * Fraction(4) ** 1200
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    return (Fraction(whole) + (Fraction(1, 2) if whole * whole != scaled else 0)) / Fraction(2) ** 1200


def float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def bits_of(value: float) -> int | None:
    return (
        None if math.isnan(value) else FORMATS["f32"].bits(value if not value or math.isinf(value) else Fraction(value))
    )


def selections() -> Iterator[Case]:
    pair, columns = ("f32",) * 3, [edges("f32")] * 2
    for least in (True, False):
        for nan in ("", ".NaN"):

            def pick(a: int, b: int, least: bool = least, nan: str = nan) -> int | None:
                x, y = float_of(a), float_of(b)
                if math.isnan(x) or math.isnan(y):
                    return None if nan else bits_of(y if math.isnan(x) else x)
                if x == y == 0:
                    return a | b if least else a & b
                return bits_of(min(x, y) if least else max(x, y))

            yield Case(f"{'min' if least else 'max'}{nan}.f32 %0, %1, %2;", pair, pick, columns)
            for mode, kept in (("", -1), (".abs", ~(1 << 31))):

                def pick_of_three(
                    a: int, b: int, c: int, pick: Callable[..., int | None] = pick, kept: int = kept
                ) -> int | None:
                    first = pick(a & kept, b & kept)
                    return None if first is None else pick(first, c & kept)

                text = f"{'min' if least else 'max'}{nan}{mode}.f32 %0, %1, %2, %3;"
                yield Case(text, ("f32",) * 4, pick_of_three, [edges("f32")] * 3)
    yield Case("neg.f32 %0, %1;", pair[:2], lambda a: a ^ 1 << 31, columns[:1])
    yield Case("abs.f32 %0, %1;", pair[:2], lambda a: a & ~(1 << 31), columns[:1])
    yield Case("copysign.f32 %0, %1, %2;", pair, lambda a, b: (a & 1 << 31) | (b & ~(1 << 31)), columns)
    yield Case(
        "add.sat.f32 %0, %1, %2;",
        pair,
        lambda a, b: (
            bits_of(0.0)
            if math.isnan(total := as_float(added(FORMATS["f32"].value(a), FORMATS["f32"].value(b), "rn")))
            or total <= 0
            else min(0x3F800000, binary("f32", "rn", added)(a, b) or 0)
        ),
        columns,
    )

    def flushed(a: int) -> int:
        return a if a & 0x7F800000 else a & 1 << 31

    yield Case(
        "add.ftz.f32 %0, %1, %2;",
        pair,
        lambda a, b: None if (sum_ := binary("f32", "rn", added)(flushed(a), flushed(b))) is None else flushed(sum_),
        columns,
    )
    tests: dict[str, Callable[[int], bool]] = {
        "finite": lambda a: a & 0x7F800000 != 0x7F800000,
        "infinite": lambda a: a & 0x7FFFFFFF == 0x7F800000,
        "number": lambda a: a & 0x7FFFFFFF <= 0x7F800000,
        "notanumber": lambda a: a & 0x7FFFFFFF > 0x7F800000,
        "normal": lambda a: a & 0x7FFFFFFF < 0x7F800000 and not 0 < a & 0x7FFFFFFF < 0x00800000,
        "subnormal": lambda a: 0 < a & 0x7FFFFFFF < 0x00800000,
    }
    for test, holds in tests.items():
        yield Case(
            f"{{ .reg .pred p; testp.{test}.f32 p, %1; selp.b32 %0, 1, 0, p; }}",
            ("b32", "f32"),
            lambda a, holds=holds: int(holds(a)),
            columns[:1],
        )


ORDERED: Final[dict[str, Callable[[float, float], bool]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def comparisons() -> Iterator[Case]:
    columns = [edges("f32")] * 2
    for name, holds in ORDERED.items():
        for unordered in (False, True):

            def compare(
                a: int, b: int, holds: Callable[[float, float], bool] = holds, unordered: bool = unordered
            ) -> int:
                x, y = float_of(a), float_of(b)
                return 0x3F800000 if (unordered if math.isnan(x) or math.isnan(y) else holds(x, y)) else 0

            yield Case(f"set.{name}{'u' if unordered else ''}.f32.f32 %0, %1, %2;", ("f32",) * 3, compare, columns)
    yield Case(
        "set.nan.u32.f32 %0, %1, %2;",
        ("u32", "f32", "f32"),
        lambda a, b: 0xFFFFFFFF if math.isnan(float_of(a) + 0 * float_of(b)) and nan_among(a, b) else 0,
        columns,
    )


def nan_among(*bits: int) -> bool:
    return any(math.isnan(float_of(value)) for value in bits)


def rounded(number: Number, mode: str) -> Number:
    """Whole number, in one of the modes rni, rzi, rmi, rpi."""
    if isinstance(number, float):
        return number
    ways: dict[str, Callable[[Fraction], int]] = {
        "rni": round,
        "rzi": math.trunc,
        "rmi": math.floor,
        "rpi": math.ceil,
    }
    return Fraction(ways[mode](number))


def to_integers() -> Iterator[Case]:
    for of in ("f16", "f32", "f64"):
        numbers = edges(of) + tuple(
            bits
            for value in (Fraction(1, 2), Fraction(3, 2), Fraction(5, 2), Fraction(-5, 2), Fraction(127), Fraction(300))
            if (bits := FORMATS[of].bits(value)) is not None
        )
        for mode in ("rni", "rzi", "rmi", "rpi"):
            for to in ("s8", "u16", "s32", "u32", "s64", "u64"):

                def convert(a: int, of: str = of, to: str = to, mode: str = mode) -> int:
                    number, bits = rounded(FORMATS[of].value(a), mode), width(to)
                    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
                    if isinstance(number, float):
                        if math.isnan(number):
                            return signed(1 << bits - 1, bits) if of == "f64" or bits == 64 else 0
                        return 0 if number == 0 else high if number > 0 else low
                    return max(low, min(high, int(number)))

                yield Case(f"cvt.{mode}.{to}.{of} %0, %1;", (to, carrier(of)), convert, [numbers])


def between_floats() -> Iterator[Case]:
    for of in ("f32", "f64", "f16", "bf16"):
        for to in ("f16", "bf16", "f32", "f64"):
            narrowing = width(to) < width(of)
            if of == to or (of, to) in {("bf16", "f16"), ("f16", "bf16"), ("bf16", "f64"), ("f64", "bf16")}:
                continue
            for mode in ("rn", "rz", "rm", "rp") if narrowing else ("",):
                yield Case(
                    f"cvt{'.' * bool(mode)}{mode}.{to}.{of} %0, %1;",
                    (carrier(to), carrier(of)),
                    lambda a, of=of, to=to, mode=mode: FORMATS[to].bits(FORMATS[of].value(a), mode or "rn"),
                    [edges(of) + halfway(of, to)],
                )


def from_integers() -> Iterator[Case]:
    for of in ("s32", "u32", "s64", "u64"):
        values = (
            0,
            1,
            3,
            2047,
            2049,
            65519,
            65520,
            2**24 + 1,
            2**31 - 1,
            2**31,
            2**32 - 1,
            2**53 + 1,
            2**63 - 1,
            2**64 - 1,
        )
        columns = [tuple(value & (1 << width(of)) - 1 for value in values + tuple(-value for value in values))]
        for to in ("f16", "f32", "f64"):
            for mode in ("rn", "rz", "rm", "rp"):

                def from_integer(a: int, of: str = of, to: str = to, mode: str = mode) -> int | None:
                    value = signed(a, width(of)) if of[0] == "s" else a
                    return FORMATS[to].bits(Fraction(value) if value else 0.0, mode)

                yield Case(f"cvt.{mode}.{to}.{of} %0, %1;", (carrier(to), of), from_integer, columns)


def packed() -> Iterator[Case]:
    yield Case(
        "cvt.rn.bf16x2.f32 %0, %1, %2;",
        ("b32", "f32", "f32"),
        lambda a, b: both(FORMATS["bf16"].bits(FORMATS["f32"].value(a)), FORMATS["bf16"].bits(FORMATS["f32"].value(b))),
        [edges("f32")] * 2,
    )


LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F, "tf32": 0x7F7FE000}


def finite(to: str, number: int) -> int | None:
    """Conversion of a float, infinities and numbers beyond the largest becoming that one."""
    value = FORMATS["f32"].value(number)
    if isinstance(value, float) and math.isnan(value):
        return None
    exact = (number + 0x1000 & 0xFFFFE000) if to == "tf32" else FORMATS[to].bits(value)
    sign = 1 << width("f32" if to == "tf32" else to) - 1
    return LARGEST[to] | (sign if number >> 31 else 0) if exact is None or exact & ~sign > LARGEST[to] else exact


def finite_floats() -> Iterator[Case]:
    large = (0x477FE000, 0x477FEFFF, 0x477FF000, 0x7F7F0000, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000)
    numbers = edges("f32") + large
    for to in ("f16", "bf16"):
        yield Case(f"cvt.rn.satfinite.{to}.f32 %0, %1;", ("b16", "f32"), lambda a, to=to: finite(to, a), [numbers])
        yield Case(
            f"cvt.rn.satfinite.{to}x2.f32 %0, %1, %2;",
            ("b32", "f32", "f32"),
            lambda a, b, to=to: both(finite(to, a), finite(to, b)),
            [numbers, large],
        )
    yield Case("cvt.rna.satfinite.tf32.f32 %0, %1;", ("b32", "f32"), lambda a: finite("tf32", a), [numbers])


def test_conversions_that_stay_finite() -> None:
    assert wrong_results(list(finite_floats())) == []


def both(high: int | None, low: int | None) -> int | None:
    return None if high is None or low is None else high << 16 | low


def halfway(of: str, to: str) -> tuple[int, ...]:
    """Numbers of the wider format in the middle of two of the narrower, and beside that."""
    middle = FORMATS[of].bits(1 + Fraction(1, 2) ** (FORMATS[to].mantissa + 1)) or 0
    return (middle - 1, middle, middle + 1, middle | 1 << width(of) - 1)


def test_arithmetic_in_all_directions_of_rounding() -> None:
    assert wrong_results(list(arithmetic(("f32", "f64"), ("rn", "rz", "rm", "rp")))) == []


def test_arithmetic_of_halves() -> None:
    assert wrong_results(list(arithmetic(("f16", "bf16"), ("rn",))), most=6000) == []


def test_selections_saturation_and_flushing() -> None:
    assert wrong_results(list(selections())) == []


def test_comparisons() -> None:
    assert wrong_results(list(comparisons())) == []


def test_conversions() -> None:
    assert wrong_results([*to_integers(), *between_floats(), *from_integers(), *packed()]) == []


def literal(text: str, types: tuple[str, ...], *rows: tuple[int, ...]) -> Iterator[Case]:
    """Cases of one instruction with known bits: operands, and the result last."""
    for *operands, result in rows:
        yield Case(text, types, lambda *_, result=result: result, [[value] for value in operands])


def test_not_a_number_is_the_canonical_one_where_the_isa_says_so() -> None:
    cases = [
        *literal("min.f32 %0, %1, %2;", ("f32",) * 3, (0x7F800001, 0xFFC00000, 0x7FFFFFFF), (0xFFC00000, 5, 5)),
        *literal("max.NaN.f32 %0, %1, %2;", ("f32",) * 3, (0x3F800000, 0xFFC00000, 0x7FFFFFFF)),
        *literal("max.xorsign.abs.f32 %0, %1, %2;", ("f32",) * 3, (0xFFC00000, 0x7FC00000, 0x7FFFFFFF)),
        *literal("min.f16x2 %0, %1, %2;", ("b32",) * 3, (0xFE003C00, 0x7C014000, 0x7FFF3C00)),
        *literal("max.NaN.bf16 %0, %1, %2;", ("b16",) * 3, (0xFFC0, 0x3F80, 0x7FFF)),
        *literal("fma.rn.relu.f16 %0, %1, %2, %3;", ("b16",) * 4, (0xFE00, 0x3C00, 0x3C00, 0x7FFF)),
        *literal("cvt.rn.relu.bf16.f32 %0, %1;", ("b16", "f32"), (0xFFC00000, 0x7FFF), (0x80000000, 0)),
        *literal("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;", ("b16", "f32", "f32"), (0xFFC00000, 0xBF800000, 0x7FB8)),
    ]
    assert wrong_results(cases) == []


def test_integers_saturate_as_halves() -> None:
    rows = ((0, 0), (1, 0x3C00), (2, 0x3C00), (0xFFFFFFFF, 0))
    assert wrong_results(list(literal("cvt.rn.sat.f16.s32 %0, %1;", ("b16", "s32"), *rows))) == []


def test_flushing_of_halves() -> None:
    """Results are flushed if they are subnormal when rounded; conversions flush f32 alone."""
    cases = [
        *literal("mul.ftz.f16 %0, %1, %2;", ("b16",) * 3, (0xBBFF, 0x0400, 0x8400), (0x3BFE, 0x0400, 0)),
        *literal("cvt.ftz.f32.f16 %0, %1;", ("f32", "b16"), (0x0001, 0x33800000)),
        *literal("cvt.ftz.f64.f32 %0, %1;", ("f64", "f32"), (0x80000001, 0x8000000000000000)),
    ]
    assert wrong_results(cases) == []
