"""Conversions: cvt in all its kinds [PTX ISA, 9.7.9, cvt and cvt.pack]."""

from __future__ import annotations

from tests.ptx_reference import numbers
from tests.ptx_reference.numbers import FORMATS, Format
from tests.ptx_reference.operation import Opcode, Operation, makes
from tests.ptx_reference.types import B16, B32, Type

INTEGRAL = ("rni", "rzi", "rmi", "rpi")
SMALL = {"e4m3x2": ("e4m3", 0x7E), "e5m2x2": ("e5m2", 0x7B)}
"""Formats of 8 bits, with the bits of their largest numbers."""


@makes("cvt")
def cvt(op: Opcode) -> Operation:
    if op.has("pack"):
        return pack(op)
    if op.has("tf32"):
        return to_tf32(op)
    small = op.one_of(*SMALL)
    if small:
        return from_small(op, small) if op.modifiers.index(small) == len(op.modifiers) - 1 else to_small(op, small)
    to, kind = op.types
    if to.lanes == 2:
        return two_halves(op, to, kind)
    if to.real and kind.real:
        return Operation((to,), (kind,), lambda a: between_floats(op, to, kind, a), op.has("relu"))
    if to.real:
        return Operation(
            (to,), (kind,), lambda a: saturated(op, to, to.format.bits(numbers.whole(kind.value(a)), op.rounding))
        )
    if kind.real:
        return Operation((to,), (kind,), lambda a: to_integer(op, to, kind, a))
    return Operation((to,), (kind,), lambda a: to.clamp(kind.value(a)) if op.has("sat") else kind.value(a))


def saturated(op: Opcode, to: Type, bits: int) -> int:
    """.sat: clamped to 0 and 1, and 0 for not-a-numbers; .relu: no less than 0."""
    form = to.format
    if op.has("sat"):
        return 0 if form.is_nan(bits) or bits & form.sign else min(bits, form.bias << form.mantissa)
    if op.has("relu") and not form.is_nan(bits) and bits & form.sign:
        return 0
    return bits


def flushed(op: Opcode, kind: Type, bits: int) -> int:
    """.ftz of conversions is for f32 alone."""
    return kind.format.flushed(bits) if op.has("ftz") and kind.kind == "f" and kind.bits == 32 else bits


def between_floats(op: Opcode, to: Type, kind: Type, bits: int) -> int:
    number = kind.format.number(flushed(op, kind, bits))
    if op.has(*INTEGRAL):
        number = numbers.integral(number, op.one_of(*INTEGRAL))
    result = to.format.bits(number, op.rounding)
    if op.has("satfinite") and not number.nan:
        result = finite(to.format, result)
    return saturated(op, to, flushed(op, to, result))


def finite(form: Format, bits: int) -> int:
    """Bits of the largest number in place of an infinity."""
    return bits & form.sign | min(bits & form.sign - 1, form.infinity - 1)


def to_integer(op: Opcode, to: Type, kind: Type, bits: int) -> int:
    """Clamped to the integers of the type. Not-a-numbers are 0, or the highest bit if a type has 64 bits."""
    number = kind.format.number(flushed(op, kind, bits))
    if number.nan:
        return 1 << to.bits - 1 if kind.bits == 64 or to.bits == 64 else 0
    if number.infinite:
        return to.limits[0] if number.negative else to.limits[1]
    return to.clamp(numbers.as_int(numbers.integral(number, op.one_of(*INTEGRAL))))


def two_halves(op: Opcode, to: Type, kind: Type) -> Operation:
    """Two floats of 16 bits of two f32: the first source is the upper half."""
    lane = Type(to.kind, 16)

    def compute(high: int, low: int) -> int:
        return between_floats(op, lane, kind, high) << 16 | between_floats(op, lane, kind, low)

    return Operation((to,), (kind, kind), compute, op.has("relu"))


TF32 = Format(8, 10, 0x3FFFF)


def to_tf32(op: Opcode) -> Operation:
    """f32 whose last 13 bits are 0."""
    real = Type("f", 32)

    def compute(a: int) -> int:
        number = real.format.number(a)
        if number.nan:
            return real.format.nan
        bits = TF32.bits(number, op.rounding)
        if op.has("satfinite"):
            bits = finite(TF32, bits)
        return 0 if op.has("relu") and bits & TF32.sign else bits << 13

    return Operation((real,), (real,), compute, op.has("relu"))


def to_small(op: Opcode, name: str) -> Operation:
    """Two numbers of 8 bits, no larger than the largest, of two f32 or of a pair of halves."""
    pair, largest = Type(SMALL[name][0], 8, 2), SMALL[name][1]
    form = pair.format
    kind = op.type

    def lane(bits: int) -> int:
        number = Type(kind.kind, kind.bits).format.number(bits)
        if number.nan:
            return form.nan
        if op.has("relu") and number.negative:
            return 0
        size = largest if number.infinite else min(form.size(number), largest)
        return (form.sign if number.negative else 0) | size

    if kind.lanes == 2:
        return Operation((pair,), (kind,), lambda a: lane(a >> 16) << 8 | lane(a & 0xFFFF), op.has("relu"))
    return Operation((pair,), (kind, kind), lambda a, b: lane(a) << 8 | lane(b), op.has("relu"))


def from_small(op: Opcode, name: str) -> Operation:
    form, to = FORMATS[SMALL[name][0]], op.type
    lane = Type(to.kind, 16)

    def half(bits: int) -> int:
        return saturated(op, lane, lane.format.bits(form.number(bits)))

    return Operation((to,), (B16,), lambda a: half(a >> 8) << 16 | half(a & 255), op.has("relu"))


def pack(op: Opcode) -> Operation:
    to = op.modifiers[2]
    kind, signed = Type(to[0], int(to[1:])), Type("s", 32)

    def compute(a: int, b: int, c: int = 0) -> int:
        pair = kind.clamp(signed.value(a)) << kind.bits | kind.clamp(signed.value(b))
        return pair | c << 2 * kind.bits

    return Operation((B32,), (signed, signed) + (B32,) * op.has("b32"), compute)
