"""Integer arithmetic, logic, shifts and fields of bits [PTX ISA, 9.7.1, 9.7.2, 9.7.8]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.ptx_reference.operation import Opcode, Operation, lanewise, makes
from tests.ptx_reference.types import B32, CARRY, PREDICATE, U32, Type


def sums(op: Opcode) -> Operation:
    """add, sub, addc, subc, with .cc and .sat."""
    kind, sign = op.type, -1 if op.name.startswith("sub") else 1
    lane = Type(kind.kind, kind.bits)
    if op.has("sat"):
        return lanewise(kind, 2, lambda a, b: lane.clamp(lane.value(a) + sign * lane.value(b)))
    if not op.has("cc") and not op.name.endswith("c"):
        return lanewise(kind, 2, lambda a, b: a + sign * b)
    if sign < 0:  # as a sum with the complement: the flag is set where nothing is borrowed
        return with_carry(op, kind, (kind, kind), lambda a, b, carry: a + (b ^ kind.mask) + carry, 1)
    return with_carry(op, kind, (kind, kind), lambda a, b, carry: a + b + carry)


def with_carry(
    op: Opcode, kind: Type, sources: tuple[Type, ...], total: Callable[..., int], without: int = 0
) -> Operation:
    """Sum that takes the carry (addc, subc, madc), gives it (.cc), or both.

    The ISA speaks of a borrow after sub.cc. Divisions of 128 bits by NVIDIA's compilers read its opposite with addc.

    :param without: the carry of a sum that takes none.
    """
    takes = op.name.endswith("c")

    def compute(*bits: int) -> int | tuple[int, ...]:
        result = total(*bits, *(() if takes else (without,)))
        return (result, result >> kind.bits & 1) if op.has("cc") else result

    return Operation((kind, CARRY) if op.has("cc") else (kind,), sources + (CARRY,) * takes, compute)


def product(op: Opcode, kind: Type) -> Callable[[int, int], int]:
    """Low half, high half or all of a product."""
    shift = kind.bits if op.has("hi") else 0
    return lambda a, b: kind.value(a) * kind.value(b) >> shift


@makes("mul24", "mad24")
def mul24(op: Opcode) -> Operation:
    kind, part = op.type, Type(op.type.kind, 24)
    shift = 16 if op.has("hi") else 0

    def compute(a: int, b: int, c: int = 0) -> int:
        found = part.value(a) * part.value(b) >> shift
        if not op.has("sat"):
            return found + c
        return kind.clamp(kind.value(found) + kind.value(c))

    return Operation((kind,), (kind,) * (3 if op.name == "mad24" else 2), compute)


def products(op: Opcode) -> Operation:
    """mul, mad and madc of integers."""
    kind = op.type
    wide = Type(kind.kind, 2 * kind.bits) if op.has("wide") else kind
    part = product(op, kind)
    if op.name == "mul":
        return Operation((wide,), (kind, kind), part)
    if op.has("sat"):
        return Operation(
            (wide,), (kind, kind, wide), lambda a, b, c: wide.clamp(wide.value(part(a, b)) + wide.value(c))
        )
    if op.has("cc") or op.name == "madc":
        return with_carry(op, wide, (kind, kind, wide), lambda a, b, c, carry: (part(a, b) & wide.mask) + c + carry)
    return Operation((wide,), (kind, kind, wide), lambda a, b, c: part(a, b) + c)


def quotient(op: Opcode) -> Operation:
    """Div and rem: rounded to zero; all bits are set where the divisor is 0."""
    kind = op.type

    def compute(a: int, b: int) -> int:
        left, right = kind.value(a), kind.value(b)
        if right == 0:
            return -1
        found = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return left - found * right if op.name == "rem" else found

    return Operation((kind,), (kind, kind), compute)


def signs(op: Opcode) -> Operation:
    """Abs and neg of integers."""
    kind = op.type
    lane = Type(kind.kind, kind.bits)
    return lanewise(kind, 1, (lambda a: abs(lane.value(a))) if op.name == "abs" else (lambda a: -a))


def extremes(op: Opcode) -> Operation:
    """Min and max of integers, with .relu."""
    kind = op.type
    lane, pick = Type(kind.kind, kind.bits), min if op.name == "min" else max

    def compute(a: int, b: int) -> int:
        found = pick(lane.value(a), lane.value(b))
        return max(0, found) if op.has("relu") else found

    return lanewise(kind, 2, compute)


@makes("sad")
def sad(op: Opcode) -> Operation:
    kind = op.type
    return Operation((kind,), (kind,) * 3, lambda a, b, c: c + abs(kind.value(a) - kind.value(b)))


@makes("dp4a", "dp2a")
def dot(op: Opcode) -> Operation:
    left, right = op.types
    total = Type("s" if left.signed or right.signed else "u", 32)
    first = Type(left.kind, 8 if op.name == "dp4a" else 16, 1)
    second, skip = Type(right.kind, 8), 2 if op.has("hi") else 0
    count = 32 // first.bits

    def compute(a: int, b: int, c: int) -> int:
        return c + sum(first.value(a >> n * first.bits) * second.value(b >> (n + skip) * 8) for n in range(count))

    return Operation((total,), (left, right, total), compute)


@makes("popc", "clz", "brev")
def counts(op: Opcode) -> Operation:
    kind = op.type
    if op.name == "brev":
        return Operation((kind,), (kind,), lambda a: int(f"{a:0{kind.bits}b}"[::-1], 2))
    if op.name == "popc":
        return Operation((U32,), (kind,), lambda a: a.bit_count())
    return Operation((U32,), (kind,), lambda a: kind.bits - a.bit_length())


@makes("bfind")
def bfind(op: Opcode) -> Operation:
    kind = op.type

    def compute(a: int) -> int:
        value = kind.value(a)
        place = (~value if value < 0 else value).bit_length() - 1
        return kind.bits - 1 - place if place >= 0 and op.has("shiftamt") else place

    return Operation((U32,), (kind,), compute)


@makes("fns")
def fns(_op: Opcode) -> Operation:
    def compute(mask: int, base: int, offset: int) -> int:
        count = Type("s", 32).value(offset)
        if base > 31:
            return -1
        if count == 0:
            return base if mask >> base & 1 else -1
        places = range(base, 32) if count > 0 else range(base, -1, -1)
        found = [place for place in places if mask >> place & 1]
        return found[abs(count) - 1] if abs(count) <= len(found) else -1

    return Operation((B32,), (B32, B32, Type("s", 32)), compute)


@makes("bfe")
def bfe(op: Opcode) -> Operation:
    kind = op.type

    def compute(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        last = min(position + length - 1, kind.bits - 1)
        sign = a >> last & 1 if kind.signed and length else 0
        return sum(
            (a >> position + n & 1 if n < length and position + n < kind.bits else sign) << n for n in range(kind.bits)
        )

    return Operation((kind,), (kind, U32, U32), compute)


@makes("bfi")
def bfi(op: Opcode) -> Operation:
    kind = op.type

    def compute(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        for n in range(length):
            if position + n < kind.bits:
                b = b & ~(1 << position + n) | (a >> n & 1) << position + n
        return b

    return Operation((kind,), (kind, kind, U32, U32), compute)


@makes("szext")
def szext(op: Opcode) -> Operation:
    kind = op.type

    def compute(a: int, count: int) -> int:
        if op.has("clamp") and count >= 32:
            return a
        length = count & 31
        sign = kind.signed and length > 0 and a >> length - 1 & 1
        low = (1 << length) - 1
        return a & low | (~low if sign else 0)

    return Operation((kind,), (kind, U32), compute)


@makes("bmsk")
def bmsk(op: Opcode) -> Operation:
    def compute(first: int, count: int) -> int:
        if op.has("wrap"):
            first, count = first & 31, count & 31
        return sum(1 << place for place in range(32) if first <= place < first + count)

    return Operation((B32,), (U32, U32), compute)


@makes("shl", "shr")
def shift(op: Opcode) -> Operation:
    kind = op.type
    if op.name == "shl":
        return Operation((kind,), (kind, U32), lambda a, n: a << min(n, kind.bits))
    return Operation((kind,), (kind, U32), lambda a, n: kind.value(a) >> min(n, kind.bits))


@makes("shf")
def funnel(op: Opcode) -> Operation:
    def compute(low: int, high: int, amount: int) -> int:
        n = amount & 31 if op.has("wrap") else min(amount, 32)
        return (high << 32 | low) << n >> 32 if op.has("l") else (high << 32 | low) >> n

    return Operation((B32,), (B32, B32, U32), compute)


@makes("and", "or", "xor", "not", "cnot")
def logic(op: Opcode) -> Operation:
    kind = op.type
    functions: dict[str, Callable[..., int]] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a,
        "cnot": lambda a: a == 0,
    }
    return Operation((kind,), (kind,) * (1 if op.name.endswith("not") else 2), functions[op.name])


@makes("lop3")
def lop3(op: Opcode) -> Operation:
    def compute(a: int, b: int, c: int, table: int) -> int:
        return sum(
            (table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1) & 1) << n for n in range(op.type.bits)
        )

    if not op.has("and", "or"):
        return Operation((B32,), (B32, B32, B32, B32), compute)

    def with_predicate(a: int, b: int, c: int, table: int, p: int) -> tuple[int, ...]:
        found = compute(a, b, c, table)
        some = int(found != 0)
        return found, some & p if op.has("and") else some | p

    return Operation((B32, PREDICATE), (B32, B32, B32, B32, PREDICATE), with_predicate)


BYTES_OF_MODES: Final = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
"""Bytes of the result of prmt, the highest first, by mode and by the selector's two lowest bits."""


@makes("prmt")
def prmt(op: Opcode) -> Operation:
    mode = op.one_of(*BYTES_OF_MODES)

    def compute(a: int, b: int, selector: int) -> int:
        both = b << 32 | a
        if mode:
            return sum(
                (both >> 8 * int(n) & 255) << 8 * (3 - i) for i, n in enumerate(BYTES_OF_MODES[mode][selector & 3])
            )
        result = 0
        for place in range(4):
            nibble = selector >> 4 * place
            byte = both >> 8 * (nibble & 7) & 255
            result |= ((255 if byte & 128 else 0) if nibble & 8 else byte) << 8 * place
        return result

    return Operation((B32,), (B32, B32, B32), compute)


VIDEO: Final[dict[str, Callable[..., int]]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (1 if a + b >= 0 else 0)) >> 1,
    "vmin": min,
    "vmax": max,
    "vabsdiff": lambda a, b: abs(a - b),
}


@makes(*(name + lanes for name in VIDEO for lanes in "24"))
def video(op: Opcode) -> Operation:
    to, left, right = op.types
    lanes = int(op.name[-1])
    parts = [Type(kind.kind, 32 // lanes) for kind in (to, left, right)]
    operate = VIDEO[op.name[:-1]]

    def compute(a: int, b: int, c: int) -> int:
        found = [
            operate(parts[1].value(a >> n * parts[1].bits), parts[2].value(b >> n * parts[2].bits))
            for n in range(lanes)
        ]
        if op.has("add"):
            return c + sum(found)
        clamped = [parts[0].clamp(value) if op.has("sat") else value & parts[0].mask for value in found]
        return sum(bits << n * parts[0].bits for n, bits in enumerate(clamped))

    return Operation((to,), (left, right, to), compute)
