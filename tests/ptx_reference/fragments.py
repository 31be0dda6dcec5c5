"""Matrices of a warp between memory and registers: ldmatrix, stmatrix, movmatrix, wmma [PTX ISA, 9.7.14].

The ISA leaves open which lane has which elements of a matrix of wmma. Here, element n of a matrix by rows is the lane's
whose number is the rest of n by 32.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.ptx_reference.access import Reader, pointer, reader, writer
from tests.ptx_reference.jumps import wait
from tests.ptx_reference.matrices import EVERY_LANE, Shape, element_type, parts, reader_of, sum_of
from tests.ptx_reference.moves import SPACES
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.syntax import Function, Statement
from tests.ptx_reference.threads import LANES, Context, Step, Thread, Wait
from tests.ptx_reference.types import B32, Type

_ELEMENT = re.compile(r"\.((?:bf|tf|[usfb])(?:64|32|16|8|4|1))(?=\.|$)")


def pair_of(lane: int, *, transposed: bool) -> Iterator[tuple[int, int]]:
    """Row and column of the two elements of a lane in a matrix of 8 rows of 8."""
    for n in range(2):
        along, across = lane % 4 * 2 + n, lane // 4
        yield (along, across) if transposed else (across, along)


def data_of(members: dict[int, Thread]) -> dict[int, tuple[int, ...]]:
    return {lane: thread.wait.data for lane, thread in members.items() if thread.wait is not None}


def waiting(statement: Statement, reads: list[Reader], finish: Callable[[dict[int, Thread]], None]) -> Step:
    """Step of a thread that meets the other lanes with the values of some operands."""
    return lambda thread: wait(
        thread, Wait((id(statement),), EVERY_LANE, finish, tuple(read(thread) for read in reads))
    )


def ldmatrix(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    writes = [writer(function, part, B32) for part in parts(statement.operands[0])]
    address = pointer(context, function, statement.operands[1], opcode.one_of(*SPACES))

    def finish(members: dict[int, Thread]) -> None:
        given = data_of(members)
        for lane, thread in members.items():
            for m, write in enumerate(writes):
                places = [
                    given[8 * m + row][0] + 2 * column for row, column in pair_of(lane, transposed=opcode.has("trans"))
                ]
                write(thread, sum(thread.memory.load(place, 2) << 16 * n for n, place in enumerate(places)))

    return waiting(statement, [address], finish)


def stmatrix(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    reads = [reader(context, function, part, B32) for part in parts(statement.operands[1])]
    address = pointer(context, function, statement.operands[0], opcode.one_of(*SPACES))

    def finish(members: dict[int, Thread]) -> None:
        given = data_of(members)
        for lane, thread in members.items():
            for m, value in enumerate(given[lane][1:]):
                for n, (row, column) in enumerate(pair_of(lane, transposed=opcode.has("trans"))):
                    thread.memory.store(given[8 * m + row][0] + 2 * column, 2, value >> 16 * n)

    return waiting(statement, [address, *reads], finish)


def movmatrix(context: Context, function: Function, statement: Statement, _opcode: Opcode) -> Step:
    write = writer(function, statement.operands[0], B32)
    read = reader(context, function, statement.operands[1], B32)

    def finish(members: dict[int, Thread]) -> None:
        given = data_of(members)
        for lane, thread in members.items():
            halves = [
                given[row * 4 + column // 2][0] >> 16 * (column % 2) & 0xFFFF
                for row, column in pair_of(lane, transposed=True)
            ]
            write(thread, halves[0] | halves[1] << 16)

    return waiting(statement, [read], finish)


@dataclass(frozen=True)
class Place:
    """Matrix in memory: its size, type and order."""

    rows: int
    columns: int
    kind: Type
    by_rows: bool

    @property
    def elements(self) -> int:
        return self.rows * self.columns

    def bit(self, element: int, stride: int) -> int:
        """Bits from the matrix's address on to an element."""
        row, column = divmod(element, self.columns)
        return (row * stride + column if self.by_rows else column * stride + row) * self.kind.bits


def sizes(opcode: Opcode) -> tuple[int, int, int]:
    found = re.search(r"\.m(\d+)n(\d+)k(\d+)", opcode.text)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3])


def kinds(opcode: Opcode) -> list[Type]:
    return [element_type(name) for name in _ELEMENT.findall(opcode.text)]


def place_of(opcode: Opcode, matrix: str) -> Place:
    rows, columns, depth = sizes(opcode)
    size = {"a": (rows, depth), "b": (depth, columns)}.get(matrix, (rows, columns))
    return Place(*size, kinds(opcode)[0], opcode.has("row"))


def packed(kind: Type) -> int:
    """Elements in a register."""
    return max(1, 32 // kind.bits)


def wmma_load(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    place = place_of(opcode, opcode.modifiers[1])
    address, stride = memory_operands(context, function, statement, opcode, 1)
    register = Type("b", max(32, place.kind.bits))
    count = place.elements // LANES // packed(place.kind)
    writes = [writer(function, part, register) for part in parts(statement.operands[0])[:count]]

    def finish(members: dict[int, Thread]) -> None:
        given = data_of(members)
        for lane, thread in members.items():
            start, step = given[lane]
            for n, write in enumerate(writes):
                found = 0
                for e in range(packed(place.kind)):
                    bit = place.bit((n * packed(place.kind) + e) * LANES + lane, step)
                    loaded = thread.memory.load(start + bit // 8, max(1, place.kind.bits // 8))
                    found |= (loaded >> bit % 8 & place.kind.mask) << e * place.kind.bits
                write(thread, found)

    return waiting(statement, [address, stride], finish)


def wmma_store(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    place = place_of(opcode, "d")
    address, stride = memory_operands(context, function, statement, opcode, 0)
    register = Type("b", max(32, place.kind.bits))
    reads = [reader(context, function, part, register) for part in parts(statement.operands[1])]

    def finish(members: dict[int, Thread]) -> None:
        given = data_of(members)
        for lane, thread in members.items():
            start, step, *values = given[lane]
            for n in range(place.elements // LANES):
                value = values[n // packed(place.kind)] >> n % packed(place.kind) * place.kind.bits
                thread.memory.store(start + place.bit(n * LANES + lane, step) // 8, place.kind.bits // 8, value)

    return waiting(statement, [address, stride, *reads], finish)


def memory_operands(
    context: Context, function: Function, statement: Statement, opcode: Opcode, number: int
) -> tuple[Reader, Reader]:
    """Address and stride."""
    return (
        pointer(context, function, statement.operands[number], opcode.one_of(*SPACES)),
        reader(context, function, statement.operands[2], B32),
    )


def wmma_product(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    rows, columns, depth = sizes(opcode)
    named = kinds(opcode)
    result, addend = named[0], named[-1]
    left, right = (named[1], named[2]) if len(named) == 4 else (Type("f", 16), Type("f", 16))
    number = result if result == addend else Type("f", 32)
    shape = Shape(rows, depth, number, left, right)
    fragments = [(left, rows * depth), (right, depth * columns), (addend, rows * columns)]
    counts = [size // LANES // packed(kind) for kind, size in fragments]
    to, *given = (parts(operand) for operand in statement.operands)
    reads = [
        reader(context, function, part, Type("b", max(32, kind.bits)))
        for group, (kind, _), count in zip(given, fragments, counts, strict=True)
        for part in group[:count]
    ]
    writes = [writer(function, part, Type("b", max(32, result.bits))) for part in to]

    def finish(members: dict[int, Thread]) -> None:
        data = data_of(members)
        a, b, c = (
            [element_of(data, kind, sum(counts[:n]), element) for element in range(size)]
            for n, (kind, size) in enumerate(fragments)
        )
        read_a, read_b = reader_of(left, opcode), reader_of(right, opcode)
        lines = [[read_a(bits) for bits in a[row * depth : (row + 1) * depth]] for row in range(rows)]
        across = [[read_b(bits) for bits in b[column::columns]] for column in range(columns)]
        total = sum_of(shape)
        sums = [
            converted(
                total(shape, opcode, lines[n // columns], across[n % columns], converted(start, addend, number)),
                number,
                result,
            )
            for n, start in enumerate(c)
        ]
        for lane, thread in members.items():
            for n, write in enumerate(writes):
                chosen = [sums[(n * packed(result) + e) * LANES + lane] for e in range(packed(result))]
                write(thread, sum(bits << e * result.bits for e, bits in enumerate(chosen)))

    return waiting(statement, reads, finish)


def element_of(data: dict[int, tuple[int, ...]], kind: Type, first: int, element: int) -> int:
    """Bits of an element of a matrix, whose registers begin with number `first`."""
    slot, lane = divmod(element, LANES)
    return data[lane][first + slot // packed(kind)] >> slot % packed(kind) * kind.bits & kind.mask


def converted(bits: int, kind: Type, to: Type) -> int:
    return bits if kind == to else to.format.bits(kind.format.number(bits))


def wmma(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    binder = {"load": wmma_load, "store": wmma_store, "mma": wmma_product}[opcode.modifiers[0]]
    return binder(context, function, statement, opcode)


BINDERS = {"ldmatrix": ldmatrix, "stmatrix": stmatrix, "movmatrix": movmatrix, "wmma": wmma}
