"""Matrix products of a warp: mma [PTX ISA, 9.7.14, fragments of m8n8 and m16n8 shapes].

The ISA leaves the order of a product's sums open. Here they are the software GPU's: a sum of f32 (f64 for f64) begins
with the element of C, takes one product after the other along k, and is rounded after each.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.ptx_reference import numbers
from tests.ptx_reference.access import reader, writer
from tests.ptx_reference.jumps import wait
from tests.ptx_reference.numbers import FORMATS, Number
from tests.ptx_reference.operation import Opcode, UnknownInstructionError
from tests.ptx_reference.syntax import Function, Group, Operand, Statement
from tests.ptx_reference.threads import LANES, Context, Step, Thread, Wait
from tests.ptx_reference.types import B32, Type

EVERY_LANE = 0xFFFFFFFF
_NAMES = re.compile(r"\.(s4|u4|b1|s8|u8|f16|bf16|tf32|f32|f64|s32)(?=\.|$)")


def element_type(name: str) -> Type:
    kind = name.rstrip("0123456789")
    return Type("f", 32) if kind == "tf" else Type(kind, int(name[len(kind) :]))


@dataclass(frozen=True)
class Shape:
    """Rows of A and depth, with the types of D, A and B."""

    rows: int
    depth: int
    result: Type
    left: Type
    right: Type

    @property
    def packed(self) -> int:
        """Elements of A or B in one register."""
        return max(1, 32 // self.left.bits)

    @property
    def halves(self) -> int:
        return self.rows // 8

    def left_place(self, lane: int, register: int, element: int) -> tuple[int, int]:
        """Row and column of an element of A."""
        row = lane // 4 + 8 * (register % self.halves)
        return row, register // self.halves * 4 * self.packed + lane % 4 * self.packed + element

    def right_place(self, lane: int, register: int, element: int) -> tuple[int, int]:
        return register * 4 * self.packed + lane % 4 * self.packed + element, lane // 4

    def sum_place(self, lane: int, number: int) -> tuple[int, int]:
        return lane // 4 + 8 * (number // 2), lane % 4 * 2 + number % 2

    @property
    def sums_packed(self) -> int:
        return 2 if self.result.bits == 16 else 1


def mma(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    shape = shape_of(opcode)
    d, *given = (parts(operand) for operand in statement.operands)
    kinds = [Type("b", max(32, shape.left.bits))] * 2 + [Type("b", max(32, shape.result.bits))]
    reads = [
        [reader(context, function, part, kind) for part in group] for group, kind in zip(given, kinds, strict=True)
    ]
    writes = [writer(function, part, kinds[2]) for part in d]

    def finish(members: dict[int, Thread]) -> None:
        fragments = {lane: thread.wait.data for lane, thread in members.items() if thread.wait is not None}
        sums = product(shape, fragments, opcode)
        for lane, thread in members.items():
            for n, write in enumerate(writes):
                places = [shape.sum_place(lane, n * shape.sums_packed + e) for e in range(shape.sums_packed)]
                write(thread, sum(sums[place] << 16 * e for e, place in enumerate(places)))

    def step(thread: Thread) -> int:
        data = tuple(tuple(read(thread) for read in group) for group in reads)
        return wait(thread, Wait((id(statement),), EVERY_LANE, finish, data))

    return step


def parts(operand: Operand) -> tuple[Operand, ...]:
    return operand.parts if isinstance(operand, Group) else (operand,)


def shape_of(opcode: Opcode) -> Shape:
    sizes = re.search(r"\.m(8|16)n8k(\d+)", opcode.text)
    names = _NAMES.findall(opcode.text)
    if sizes is None or len(names) != 4:
        raise UnknownInstructionError(opcode.text)
    result, left, right, _ = (element_type(name) for name in names)
    return Shape(int(sizes[1]), int(sizes[2]), result, left, right)


def product(
    shape: Shape, fragments: dict[int, tuple[tuple[int, ...], ...]], opcode: Opcode
) -> dict[tuple[int, int], int]:
    """Bits of the elements of D by row and column."""
    left: dict[tuple[int, int], int] = {}
    right: dict[tuple[int, int], int] = {}
    sums: dict[tuple[int, int], int] = {}
    for lane in range(LANES):
        a, b, c = fragments[lane]
        for matrix, registers, place, kind in (
            (left, a, shape.left_place, shape.left),
            (right, b, shape.right_place, shape.right),
        ):
            for n, register in enumerate(registers):
                for e in range(shape.packed):
                    matrix[place(lane, n, e)] = register >> e * kind.bits & kind.mask
        for n, register in enumerate(c):
            for e in range(shape.sums_packed):
                sums[shape.sum_place(lane, n * shape.sums_packed + e)] = register >> 16 * e & shape.result.mask
    total = sum_of(shape)
    reads = [reader_of(kind, opcode) for kind in (shape.left, shape.right)]
    rows = {row: [reads[0](left[row, k]) for k in range(shape.depth)] for row, _ in sums}
    columns = {column: [reads[1](right[k, column]) for k in range(shape.depth)] for _, column in sums}
    return {
        (row, column): total(shape, opcode, rows[row], columns[column], start) for (row, column), start in sums.items()
    }


def sum_of(shape: Shape) -> Callable[[Shape, Opcode, list[Any], list[Any], int], int]:
    """Function that sums the products of a row and a column up."""
    return real_sum if shape.result.real else bit_sum if shape.left.bits == 1 else whole_sum


def reader_of(kind: Type, opcode: Opcode) -> Callable[[int], Any]:
    """Function that makes a number of an element's bits."""
    if not kind.real:
        return kind.value
    mask = ~0x1FFF if opcode.has("tf32") else ~0
    return lambda bits: kind.format.number(bits & mask)


def real_sum(shape: Shape, _opcode: Opcode, left: list[Number], right: list[Number], start: int) -> int:
    form = FORMATS["f64" if shape.result.bits == 64 else "f32"]
    total = form.bits(shape.result.format.number(start))
    for a, b in zip(left, right, strict=True):
        total = form.bits(numbers.add(numbers.multiply(a, b), form.number(total)))
    return shape.result.format.bits(form.number(total))


def bit_sum(_shape: Shape, opcode: Opcode, left: list[int], right: list[int], start: int) -> int:
    join = operator.xor if opcode.has("xor") else operator.and_
    ones: int = sum(map(join, left, right))
    return start + ones & B32.mask


def whole_sum(_shape: Shape, opcode: Opcode, left: list[int], right: list[int], start: int) -> int:
    total = Type("s", 32).value(start) + sum(map(operator.mul, left, right))
    return Type("s", 32).clamp(total) if opcode.has("satfinite") else total & B32.mask


BINDERS = {"mma": mma}
