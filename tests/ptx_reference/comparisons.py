"""Comparisons and selections: set, setp, selp, slct [PTX ISA, 9.7.6]."""

from __future__ import annotations

from tests.ptx_reference import numbers
from tests.ptx_reference.floats import flushes, lane_of
from tests.ptx_reference.operation import Opcode, Operation, makes
from tests.ptx_reference.types import PREDICATE, Type

ORDERS = {
    "eq": (0,),
    "ne": (-1, 1),
    "lt": (-1,),
    "le": (-1, 0),
    "gt": (1,),
    "ge": (0, 1),
    "lo": (-1,),
    "ls": (-1, 0),
    "hi": (1,),
    "hs": (0, 1),
    "num": (-1, 0, 1),
    "nan": (),
}
"""Results of a comparison, -1, 0 or 1, for which it holds."""


def compared(op: Opcode, kind: Type, a: int, b: int) -> bool:
    """Comparison of two values of a type of one lane; those with ``u`` hold for not-a-numbers, too."""
    name = op.one_of(*ORDERS, "equ", "neu", "ltu", "leu", "gtu", "geu")
    if not kind.real:
        left, right = kind.value(a), kind.value(b)
        return (left > right) - (left < right) in ORDERS[name]
    form = kind.format
    flush = flushes(op, form)
    order = numbers.compare(form.number(flush(a)), form.number(flush(b)))
    if order is None:
        return name == "nan" or (name.endswith("u") and name != "num")
    return order in ORDERS[name if name in ORDERS else name.removesuffix("u")]


def combined(op: Opcode, result: bool, predicate: int) -> bool:
    match op.one_of("and", "or", "xor"):
        case "and":
            return result and bool(predicate)
        case "or":
            return result or bool(predicate)
        case "xor":
            return result != bool(predicate)
    return result


@makes("setp")
def setp(op: Opcode) -> Operation:
    """Two predicates: the comparison and its opposite, or those of two lanes."""
    kind = op.type

    def compute(a: int, b: int, predicate: int = 0) -> tuple[int, ...]:
        lanes = [compared(op, lane_of(kind), *lane) for lane in zip(kind.split(a), kind.split(b), strict=True)]
        results = lanes if kind.lanes == 2 else [lanes[0], not lanes[0]]
        return tuple(combined(op, result, predicate) for result in results)

    sources = (kind, kind) + (PREDICATE,) * op.has("and", "or", "xor")
    return Operation((PREDICATE, PREDICATE), sources, compute)


@makes("set")
def set_(op: Opcode) -> Operation:
    to, kind = op.types
    lane = Type(to.kind, to.bits // (1 if to.lanes == 2 else kind.lanes))
    true = lane.format.bias << lane.format.mantissa if to.real else lane.mask

    def compute(a: int, b: int, predicate: int = 0) -> int:
        lanes = [
            true if combined(op, compared(op, lane_of(kind), *pair), predicate) else 0
            for pair in zip(kind.split(a), kind.split(b), strict=True)
        ]
        return sum(bits << n * lane.bits for n, bits in enumerate(lanes))

    return Operation((to,), (kind, kind) + (PREDICATE,) * op.has("and", "or", "xor"), compute)


@makes("selp")
def selp(op: Opcode) -> Operation:
    return Operation((op.type,), (op.type, op.type, PREDICATE), lambda a, b, p: a if p else b, canonical=True)


@makes("slct")
def slct(op: Opcode) -> Operation:
    kind, by = op.types

    def compute(a: int, b: int, c: int) -> int:
        if by.kind == "s":
            return a if by.value(c) >= 0 else b
        order = numbers.compare(by.format.number(flushes(op, by.format)(c)), numbers.ZERO)
        return a if order is not None and order >= 0 else b

    return Operation((kind,), (kind, kind, by), compute, canonical=True)
