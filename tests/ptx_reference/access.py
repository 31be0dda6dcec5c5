"""Reading and writing of operands: registers, constants, addresses."""

from __future__ import annotations

from collections.abc import Callable

from tests.ptx_reference.memory import LOCAL, PARAM, SHARED, immediate_bits
from tests.ptx_reference.syntax import Address, Function, Group, Immediate, Negated, Operand, Register, Symbol
from tests.ptx_reference.threads import Context, ExecutionError, Thread
from tests.ptx_reference.types import PREDICATE, Type

Reader = Callable[[Thread], int]
Writer = Callable[[Thread, int], None]
FUNCTIONS = 5 << 32
"""Address of the first function."""
BASES = {"shared": SHARED, "local": LOCAL, "param": PARAM}


def reader(context: Context, function: Function, operand: Operand, kind: Type) -> Reader:
    """Reading of an operand in a type: of the lower bits, if its register is wider."""
    match operand:
        case Register(name):
            mask = kind.mask
            return lambda thread: thread.frames[-1].registers[name] & mask
        case Immediate():
            bits = immediate_bits(operand, kind)
            return lambda _thread: bits
        case Negated(part):
            read = reader(context, function, part, PREDICATE)
            return lambda thread: 1 - read(thread)
        case Symbol(name, offset):
            return symbol(context, name, offset)
        case Group(parts):
            lane = Type("b", kind.width // len(parts))
            reads = [reader(context, function, part, lane) for part in parts]
            return lambda thread: sum(read(thread) << n * lane.bits for n, read in enumerate(reads))
    raise ExecutionError(f"{operand} has no value")


def symbol(context: Context, name: str, offset: int) -> Reader:
    """Value of a special register, or address of a variable or function in its own space."""
    if name in context.memory.variables:
        address = context.memory.variables[name] + offset
        return lambda _thread: address
    if name in context.programs:
        number = FUNCTIONS + list(context.programs).index(name)
        return lambda _thread: number

    def read(thread: Thread) -> int:
        if name in thread.special:
            return thread.special[name]
        if name in context.shared:
            return context.shared[name] + offset
        place = thread.frames[-1].places.get(name)
        if place is None:
            raise ExecutionError(f"{name!r} is not known")
        return (place & 0xFFFFFFFF) + offset

    return read


def writer(function: Function, operand: Operand, kind: Type) -> Writer:
    """Writing of a result, extended by its type's sign if its register is wider."""
    match operand:
        case Register(name):
            width = function.registers[name]
            mask = width.mask
            if kind.signed and width.width > kind.width:

                def write_signed(thread: Thread, bits: int) -> None:
                    thread.frames[-1].registers[name] = kind.value(bits) & mask

                return write_signed

            def write(thread: Thread, bits: int) -> None:
                thread.frames[-1].registers[name] = bits & mask

            return write
        case Symbol("_"):
            return lambda _thread, _bits: None
        case Group(parts):
            lane = Type("b", kind.width // len(parts))
            writes = [writer(function, part, lane) for part in parts]

            def write_parts(thread: Thread, bits: int) -> None:
                for n, write_part in enumerate(writes):
                    write_part(thread, bits >> n * lane.bits & lane.mask)

            return write_parts
    raise ExecutionError(f"{operand} cannot be written")


def pointer(context: Context, function: Function, operand: Operand, space: str) -> Reader:
    """Generic address of an operand in brackets."""
    if not isinstance(operand, Address):
        raise ExecutionError(f"{operand} is no address")
    read, offset = reader(context, function, operand.base, Type("b", 64)), operand.offset
    base = BASES.get(space.split("::", maxsplit=1)[0], 0)
    return lambda thread: base + (read(thread) + offset & (0xFFFFFFFF if base else 2**64 - 1))
