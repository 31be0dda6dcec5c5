"""Floating-point numbers as integers: exact values, and their rounding to a format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MORE_DIGITS: Final = 140
"""Binary digits of quotients and roots before their last, sticky one: more than twice those of any format."""


@dataclass(frozen=True, slots=True)
class Number:
    """``digits * 2**exponent`` with a sign of its own, as zeroes have one; or an infinity, or not a number."""

    negative: bool
    digits: int
    exponent: int = 0
    infinite: bool = False
    nan: bool = False

    @property
    def zero(self) -> bool:
        return not (self.digits or self.infinite or self.nan)


NAN: Final = Number(negative=False, digits=0, nan=True)
ZERO: Final = Number(negative=False, digits=0)
ONE: Final = Number(negative=False, digits=1)


def whole(value: int) -> Number:
    """An integer as a number."""
    return Number(value < 0, abs(value))


@dataclass(frozen=True, slots=True)
class Format:
    """Binary format of floats: bits of the exponent, bits of the mantissa, bits of the canonical not-a-number."""

    exponent: int
    mantissa: int
    nan: int
    only_nan: bool = False
    """No infinities, and numbers in their place but for the not-a-number (e4m3)."""

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << self.width - 1

    def is_nan(self, bits: int) -> bool:
        size = bits & self.sign - 1
        return size == self.nan if self.only_nan else size > self.infinity

    def is_subnormal(self, bits: int) -> bool:
        return 0 < bits & self.sign - 1 < 1 << self.mantissa

    def flushed(self, bits: int) -> int:
        """Bits of the number, or of a zero of its sign if it is subnormal."""
        return bits & self.sign if self.is_subnormal(bits) else bits

    def number(self, bits: int) -> Number:
        negative = bool(bits & self.sign)
        field = bits >> self.mantissa & (1 << self.exponent) - 1
        digits = bits & (1 << self.mantissa) - 1
        if self.is_nan(bits):
            return NAN
        if field == (1 << self.exponent) - 1 and not self.only_nan:
            return Number(negative, 0, infinite=True)
        if field:
            digits |= 1 << self.mantissa
        return Number(negative, digits, max(1, field) - self.bias - self.mantissa)

    def bits(self, number: Number, mode: str = "rn") -> int:
        """Bits of a number rounded to this format: to nearest even (rn) or away (rna), to 0, downward, upward."""
        if number.nan:
            return self.nan
        sign = self.sign if number.negative else 0
        if number.infinite:
            return sign | self.infinity
        result = self.size(number, mode)
        if result >= self.infinity:
            to_infinity = mode.startswith("rn") or mode == ("rm" if number.negative else "rp")
            result = self.infinity if to_infinity else self.infinity - 1
        return sign | result

    def size(self, number: Number, mode: str = "rn") -> int:
        """Bits of a finite number without its sign, as if exponents had no upper end."""
        if not number.digits:
            return 0
        top = number.exponent + number.digits.bit_length() - 1
        place = max(top, 1 - self.bias) - self.mantissa
        return rounded(number, place, mode) + (place + self.mantissa + self.bias - 1 << self.mantissa)


def rounded(number: Number, place: int, mode: str) -> int:
    """How many times ``2**place`` the size of a number is, rounded."""
    shift = place - number.exponent
    if shift <= 0:
        return number.digits << -shift
    digits, rest, half = number.digits >> shift, number.digits & (1 << shift) - 1, 1 << shift - 1
    if mode.startswith("rn"):
        return digits + (rest > half or (rest == half and (mode == "rna" or digits & 1 == 1)))
    return digits + (mode == ("rm" if number.negative else "rp") and rest > 0)


FORMATS: Final = {
    "f16": Format(5, 10, 0x7FFF),
    "bf16": Format(8, 7, 0x7FFF),
    "f32": Format(8, 23, 0x7FFFFFFF),
    "f64": Format(11, 52, 0x7FFFFFFFFFFFFFFF),
    "e4m3": Format(4, 3, 0x7F, only_nan=True),
    "e5m2": Format(5, 2, 0x7F),
}


def negated(number: Number) -> Number:
    return Number(not number.negative, number.digits, number.exponent, number.infinite, number.nan)


def add(left: Number, right: Number, mode: str = "rn") -> Number:
    """Exact sum. A zero of terms that differ is negative only if rounded downward."""
    if left.nan or right.nan or (left.infinite and right.infinite and left.negative != right.negative):
        return NAN
    if left.infinite or right.infinite:
        return left if left.infinite else right
    low = min(left.exponent, right.exponent)
    total = sum((-term.digits if term.negative else term.digits) << term.exponent - low for term in (left, right))
    if total == 0:
        negative = left.negative if left.negative == right.negative else mode == "rm"
        return Number(negative, 0)
    return Number(total < 0, abs(total), low)


def multiply(left: Number, right: Number) -> Number:
    negative = left.negative != right.negative
    if left.nan or right.nan or (left.infinite and right.zero) or (left.zero and right.infinite):
        return NAN
    if left.infinite or right.infinite:
        return Number(negative, 0, infinite=True)
    return Number(negative, left.digits * right.digits, left.exponent + right.exponent)


def divide(left: Number, right: Number) -> Number:
    """Quotient with more digits than any format has, whose last is 1 if it is not exact."""
    negative = left.negative != right.negative
    if left.nan or right.nan or (left.infinite and right.infinite) or (left.zero and right.zero):
        return NAN
    if left.infinite or right.zero:
        return Number(negative, 0, infinite=True)
    if right.infinite:
        return Number(negative, 0)
    shift = MORE_DIGITS + right.digits.bit_length()
    quotient, rest = divmod(left.digits << shift, right.digits)
    return Number(negative, quotient << 1 | (rest > 0), left.exponent - right.exponent - shift - 1)


def square_root(number: Number) -> Number:
    """Root with more digits than any format has, whose last is 1 if it is not exact."""
    if number.nan or (number.negative and not number.zero):
        return NAN
    if number.infinite or number.zero:
        return number
    shift = 2 * MORE_DIGITS + (number.exponent & 1)
    scaled = number.digits << shift
    root = math.isqrt(scaled)
    return Number(False, root << 1 | (root * root != scaled), (number.exponent - shift) // 2 - 1)


def compare(left: Number, right: Number) -> int | None:
    """-1, 0 or 1; None if one of them is not a number. Zeroes are equal."""
    if left.nan or right.nan:
        return None
    if left.infinite or right.infinite:
        sizes = [(-1 if n.negative else 1) if n.infinite else 0 for n in (left, right)]
        return (sizes[0] > sizes[1]) - (sizes[0] < sizes[1])
    difference = add(left, negated(right))
    return 0 if not difference.digits else -1 if difference.negative else 1


def integral(number: Number, mode: str) -> Number:
    """Number rounded to an integer: ``rni`` (nearest even), ``rzi``, ``rmi`` or ``rpi``."""
    if number.nan or number.infinite or number.zero:
        return number
    return Number(number.negative, rounded(number, 0, mode.removesuffix("i")))


def as_int(number: Number) -> int:
    """Value of a number that is an integer."""
    size = number.digits << number.exponent if number.exponent >= 0 else number.digits >> -number.exponent
    return -size if number.negative else size
