"""Statements bound to their operands: functions that a thread executes."""

from __future__ import annotations

from collections.abc import Callable

from tests.ptx_reference import comparisons, conversions, floats, fragments, integers, jumps, matrices, moves, warps
from tests.ptx_reference.access import reader, writer
from tests.ptx_reference.operation import MAKERS, Opcode, UnknownInstructionError
from tests.ptx_reference.syntax import Function, Group, Operand, Statement
from tests.ptx_reference.threads import Context, Step, Thread
from tests.ptx_reference.types import CARRY, PREDICATE

COMPUTING = (comparisons, conversions, floats, integers)
"""Modules that register operations."""
Binder = Callable[[Context, Function, Statement, Opcode], Step]
BINDERS: dict[str, Binder] = {
    **moves.BINDERS,
    **jumps.BINDERS,
    **warps.BINDERS,
    **matrices.BINDERS,
    **fragments.BINDERS,
}


def bind(context: Context, function: Function, index: int) -> Step:
    """The step of one statement, with its guard.

    :raise UnknownInstructionError: the instruction is not known.
    """
    statement = function.statements[index]
    opcode = Opcode(statement.opcode)
    if opcode.name in BINDERS:
        step = BINDERS[opcode.name](context, function, statement, opcode)
    elif opcode.name in MAKERS:
        step = computing(context, function, statement, opcode)
    else:
        raise UnknownInstructionError(statement.opcode)
    if statement.guard is None:
        return step
    holds = reader(context, function, statement.guard, PREDICATE)
    return lambda thread: step(thread) if holds(thread) else None


def computing(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    """Step of an instruction that computes from operands alone."""
    operation = MAKERS[opcode.name](opcode)
    results = [kind for kind in operation.results if kind != CARRY]
    sources = [kind for kind in operation.sources if kind != CARRY]
    to, *given = statement.operands
    parts: tuple[Operand, ...] = to.parts if isinstance(to, Group) else (to,)
    writes = [writer(function, part, kind) for part, kind in zip(parts, results, strict=False)]
    reads = [reader(context, function, operand, kind) for operand, kind in zip(given, sources, strict=True)]
    takes, gives = CARRY in operation.sources, CARRY in operation.results

    def step(thread: Thread) -> None:
        found = operation(*(read(thread) for read in reads), *((thread.carry,) if takes else ()))
        if gives:
            thread.carry = found[-1]
        for write, bits in zip(writes, found, strict=False):
            write(thread, bits)

    return step
