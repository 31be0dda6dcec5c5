"""Data movement: mov, ld, st, cvta, atom, red [PTX ISA, 9.7.9, 9.7.13]."""

from __future__ import annotations

from collections.abc import Callable

from tests.ptx_reference import floats
from tests.ptx_reference.access import BASES, pointer, reader, writer
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.syntax import Function, Group, Statement
from tests.ptx_reference.threads import Context, Step, Thread
from tests.ptx_reference.types import Type

SPACES = ("global", "shared", "local", "param", "const", "shared::cta", "param::entry", "param::func")


def mov(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    to, given = statement.operands
    write, read = writer(function, to, opcode.type), reader(context, function, given, opcode.type)
    return lambda thread: write(thread, read(thread))


def cvta(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    """Address in a space to a generic one, or with .to the reverse."""
    to, given = statement.operands
    base = BASES.get(opcode.one_of(*SPACES).split("::")[0], 0)
    distance = -base if opcode.has("to") else base
    write, read = writer(function, to, opcode.type), reader(context, function, given, opcode.type)
    return lambda thread: write(thread, read(thread) + distance)


def isspacep(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    base = BASES.get(opcode.one_of(*SPACES).split("::")[0], 0)
    write = writer(function, statement.operands[0], Type("pred", 1))
    read = reader(context, function, statement.operands[1], Type("b", 64))
    segment = base >> 32

    def step(thread: Thread) -> None:
        found = read(thread) >> 32
        write(thread, int(found == segment if segment else found >= 16))

    return step


def ld(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    kind, to = opcode.type, statement.operands[0]
    writes = [writer(function, part, kind) for part in (to.parts if isinstance(to, Group) else (to,))]
    address = pointer(context, function, statement.operands[1], opcode.one_of(*SPACES))
    size = kind.width // 8

    def step(thread: Thread) -> None:
        place = address(thread)
        loaded = [thread.memory.load(place + n * size, size) for n in range(len(writes))]
        for write, bits in zip(writes, loaded, strict=True):
            write(thread, bits)

    return step


def st(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    kind, given = opcode.type, statement.operands[1]
    parts = given.parts if isinstance(given, Group) else (given,)
    reads = [reader(context, function, part, kind) for part in parts]
    address = pointer(context, function, statement.operands[0], opcode.one_of(*SPACES))
    size = kind.width // 8

    def step(thread: Thread) -> None:
        place = address(thread)
        for n, read in enumerate(reads):
            thread.memory.store(place + n * size, size, read(thread))

    return step


def update(opcode: Opcode, kind: Type) -> Callable[..., int]:
    """New value in memory of the old one and the operands."""
    name = opcode.one_of("add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas")
    if kind.real and name in ("add", "min", "max"):
        compute = (floats.add_sub if name == "add" else floats.extremes)(Opcode(f"{name}.{kind.kind}{kind.bits}"))
        return lambda old, value: kind.joined(
            [compute(*pair)[0] for pair in zip(kind.split(old), kind.split(value), strict=True)]
        )
    functions: dict[str, Callable[..., int]] = {
        "add": lambda old, value: old + value,
        "min": lambda old, value: min(kind.value(old), kind.value(value)),
        "max": lambda old, value: max(kind.value(old), kind.value(value)),
        "and": lambda old, value: old & value,
        "or": lambda old, value: old | value,
        "xor": lambda old, value: old ^ value,
        "exch": lambda _old, value: value,
        "inc": lambda old, most: 0 if old >= most else old + 1,
        "dec": lambda old, most: most if old == 0 or old > most else old - 1,
        "cas": lambda old, expected, value: value if old == expected else old,
    }
    return functions[name]


def atomic(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    """Atom and red."""
    kind = opcode.type
    reduces = opcode.name == "red"
    operands = statement.operands[0 if reduces else 1 :]
    write = None if reduces else writer(function, statement.operands[0], kind)
    address = pointer(context, function, operands[0], opcode.one_of(*SPACES))
    reads = [reader(context, function, operand, kind) for operand in operands[1:]]
    change, size = update(opcode, kind), kind.width // 8

    def step(thread: Thread) -> None:
        place = address(thread)
        old = thread.memory.load(place, size)
        thread.memory.store(place, size, change(old, *(read(thread) for read in reads)))
        if write is not None:
            write(thread, old)

    return step


BINDERS = {
    "mov": mov,
    "cvta": cvta,
    "isspacep": isspacep,
    "ld": ld,
    "ldu": ld,
    "st": st,
    "atom": atomic,
    "red": atomic,
}
