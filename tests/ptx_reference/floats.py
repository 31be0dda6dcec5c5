"""Float arithmetic [PTX ISA, 9.7.3 to 9.7.5]: rounded exactly, in all modes; subnormal numbers count unless .ftz."""

from __future__ import annotations

import operator
from collections.abc import Callable

import mpmath

from tests.ptx_reference import integers, numbers
from tests.ptx_reference.numbers import NAN, ONE, ZERO, Format, Number
from tests.ptx_reference.operation import Opcode, Operation, lanewise, makes
from tests.ptx_reference.types import PREDICATE, Type


def lane_of(kind: Type) -> Type:
    return Type(kind.kind, kind.bits)


def flushes(op: Opcode, form: Format) -> Callable[[int], int]:
    """Flushing of subnormal numbers, if the instruction has .ftz."""
    return form.flushed if op.has("ftz") and form.width < 64 else int


def finished(op: Opcode, form: Format, result: Number) -> int:
    """Bits of a result: rounded, flushed (.ftz), clamped to 0 and 1 (.sat) or from below (.relu)."""
    bits = flushes(op, form)(form.bits(result, op.rounding))
    if op.has("relu") and bits & form.sign and not form.is_nan(bits):
        return 0
    if op.has("sat"):
        one = form.bias << form.mantissa
        return 0 if form.is_nan(bits) or bits & form.sign else min(bits, one)
    return bits


def arithmetic(op: Opcode, kind: Type, sources: int, compute: Callable[..., Number]) -> Operation:
    """Operation on the lanes of a float type."""
    form = lane_of(kind).format
    flush = flushes(op, form)
    return lanewise(
        kind,
        sources,
        lambda *bits: finished(op, form, compute(*(form.number(flush(value)) for value in bits))),
        canonical=op.has("relu"),
    )


@makes("add", "sub", "addc", "subc")
def add_sub(op: Opcode) -> Operation:
    if not op.type.real:
        return integers.sums(op)
    if op.name == "add":
        return arithmetic(op, op.type, 2, lambda a, b: numbers.add(a, b, op.rounding))
    return arithmetic(op, op.type, 2, lambda a, b: numbers.add(a, numbers.negated(b), op.rounding))


@makes("mul")
def mul(op: Opcode) -> Operation:
    return arithmetic(op, op.type, 2, numbers.multiply) if op.type.real else integers.products(op)


@makes("fma", "mad", "madc")
def fma(op: Opcode) -> Operation:
    if not op.type.real:
        return integers.products(op)
    return arithmetic(op, op.type, 3, lambda a, b, c: numbers.add(numbers.multiply(a, b), c, op.rounding))


@makes("div", "rem")
def div(op: Opcode) -> Operation:
    return arithmetic(op, op.type, 2, numbers.divide) if op.type.real else integers.quotient(op)


@makes("abs", "neg")
def sign(op: Opcode) -> Operation:
    kind = op.type
    if not kind.real:
        return integers.signs(op)
    form = lane_of(kind).format
    flush, change = flushes(op, form), operator.xor if op.name == "neg" else (lambda bits, mask: bits & ~mask)
    return lanewise(kind, 1, lambda a: change(flush(a), form.sign))


@makes("copysign")
def copysign(op: Opcode) -> Operation:
    sign_bit = op.type.format.sign
    return lanewise(op.type, 2, lambda a, b: a & sign_bit | b & ~sign_bit)


@makes("min", "max")
def extremes(op: Opcode) -> Operation:
    """A number wins against a not-a-number, unless .NaN; -0 is less than +0."""
    if not op.type.real:
        return integers.extremes(op)
    form = lane_of(op.type).format
    flush = flushes(op, form)

    def order(bits: int) -> int:
        return -(bits ^ form.sign) - 1 if bits & form.sign else bits

    def compute(a: int, b: int) -> int:
        given = [flush(a), flush(b)]
        signs = (given[0] ^ given[1]) & form.sign
        if op.has("xorsign"):
            given = [bits & ~form.sign for bits in given]
        known = [bits for bits in given if not form.is_nan(bits)]
        if not known or (op.has("NaN") and len(known) < len(given)):
            return form.nan
        best = min(known, key=order) if op.name == "min" else max(known, key=order)
        return best & ~form.sign | signs if op.has("xorsign") else best

    return lanewise(op.type, 2, compute, canonical=op.type.bits < 64)


@makes("testp")
def testp(op: Opcode) -> Operation:
    form = op.type.format

    def compute(a: int) -> int:
        size = a & form.sign - 1
        return {
            "finite": size < form.infinity,
            "infinite": size == form.infinity,
            "number": size <= form.infinity,
            "notanumber": size > form.infinity,
            "normal": size < form.infinity and not form.is_subnormal(a),
            "subnormal": form.is_subnormal(a),
        }[op.modifiers[0]]

    return Operation((PREDICATE,), (op.type,), compute)


@makes("rcp", "sqrt", "rsqrt")
def roots(op: Opcode) -> Operation:
    functions: dict[str, Callable[[Number], Number]] = {
        "rcp": lambda a: numbers.divide(ONE, a),
        "sqrt": numbers.square_root,
        "rsqrt": lambda a: numbers.divide(ONE, numbers.square_root(a)),
    }
    return arithmetic(op, op.type, 1, functions[op.name])


@makes("sin", "cos", "lg2", "ex2", "tanh")
def transcendental(op: Opcode) -> Operation:
    """Approximations, for which the ISA gives bounds: here all digits are right."""
    return arithmetic(op, op.type, 1, lambda a: of_mpmath(op.name, a))


DIGITS = 160


def of_mpmath(name: str, argument: Number) -> Number:
    """Function with more digits than any format has."""
    if argument.nan or (argument.infinite and name in ("sin", "cos")):
        return NAN
    if argument.infinite:
        return infinite_argument(name, argument)
    if argument.zero:
        return {"sin": argument, "tanh": argument, "lg2": Number(negative=True, digits=0, infinite=True)}.get(name, ONE)
    if name == "lg2" and argument.negative:
        return NAN
    if name == "ex2" and argument.exponent + argument.digits.bit_length() > 20:
        return Number(negative=False, digits=1, exponent=-(1 << 20) if argument.negative else 1 << 20)
    with mpmath.workprec(DIGITS + 1200 * (name in ("sin", "cos"))):
        x = mpmath.ldexp(-argument.digits if argument.negative else argument.digits, argument.exponent)
        functions = {"sin": mpmath.sin, "cos": mpmath.cos, "tanh": mpmath.tanh, "ex2": lambda v: mpmath.power(2, v)}
        found = mpmath.log(x, 2) if name == "lg2" else functions[name](x)
        sign_bit, digits, exponent, _ = found._mpf_
    return Number(bool(sign_bit), int(digits), int(exponent))


def infinite_argument(name: str, argument: Number) -> Number:
    if name == "tanh":
        return Number(argument.negative, 1)
    if name == "ex2":
        return ZERO if argument.negative else argument
    return NAN if argument.negative else argument
