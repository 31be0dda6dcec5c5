"""Operations of a warp: shfl, vote, match, redux, elect [PTX ISA, 9.7.9, 9.7.13]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ptx_reference import floats, integers
from tests.ptx_reference.access import reader, writer
from tests.ptx_reference.jumps import wait
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.syntax import Function, Group, Statement
from tests.ptx_reference.threads import Context, ExecutionError, Step, Thread, Wait
from tests.ptx_reference.types import B32, PREDICATE, Type

Given = dict[int, tuple[Any, ...]]
"""Operands of the lanes that have met."""
Results = dict[int, tuple[int, ...]]


def meeting(
    context: Context,
    function: Function,
    statement: Statement,
    kinds: tuple[tuple[Type, ...], tuple[Type, ...]],
    compute: Callable[[Given], Results],
) -> Step:
    """Step of an operation with a mask as its last operand: types of results and of the other operands."""
    results, sources = kinds
    to, *given = statement.operands
    parts = to.parts if isinstance(to, Group) else (to,)
    writes = [writer(function, part, kind) for part, kind in zip(parts, results, strict=False)]
    reads = [reader(context, function, operand, kind) for operand, kind in zip(given, sources, strict=False)]
    mask = reader(context, function, given[-1], B32)

    def finish(members: dict[int, Thread]) -> None:
        found = compute({lane: thread.wait.data for lane, thread in members.items() if thread.wait is not None})
        for lane, thread in members.items():
            for write, bits in zip(writes, found[lane], strict=False):
                write(thread, bits)

    def step(thread: Thread) -> int:
        lanes = mask(thread)
        if not lanes >> thread.lane & 1:
            raise ExecutionError(f"lane {thread.lane} is not in the mask of {statement.opcode}")
        data = tuple(read(thread) for read in reads)
        return wait(thread, Wait((id(statement), lanes), lanes, finish, data))

    return step


def source_lane(mode: str, lane: int, distance: int, limits: int) -> tuple[int, bool]:
    """Lane that a shuffle reads, and whether it is in range."""
    clamp, segment = limits & 31, limits >> 8 & 31
    highest = lane & segment | clamp & ~segment
    lowest = lane & segment
    distance &= 31
    if mode == "up":
        source = lane - distance
        return (source, True) if source >= highest else (lane, False)
    source = {"down": lane + distance, "bfly": lane ^ distance, "idx": lowest | distance & ~segment}[mode]
    return (source, True) if source <= highest else (lane, False)


def shfl(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    mode = opcode.one_of("up", "down", "bfly", "idx")

    def compute(given: Given) -> Results:
        results: Results = {}
        for lane, (value, distance, limits) in given.items():
            source, inside = source_lane(mode, lane, distance, limits)
            # the value of a lane that is not here is undefined
            results[lane] = (given[source][0] if source in given else value, int(inside))
        return results

    return meeting(context, function, statement, ((B32, PREDICATE), (B32, B32, B32)), compute)


def vote(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    def compute(given: Given) -> Results:
        votes = [value for (value,) in given.values()]
        if opcode.has("ballot"):
            found = sum(value << lane for lane, (value,) in given.items())
        elif opcode.has("uni"):
            found = int(len(set(votes)) == 1)
        else:
            found = int(all(votes) if opcode.has("all") else any(votes))
        return dict.fromkeys(given, (found,))

    kind = B32 if opcode.has("ballot") else PREDICATE
    return meeting(context, function, statement, ((kind,), (PREDICATE,)), compute)


def match(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    def compute(given: Given) -> Results:
        if opcode.has("any"):
            return {
                lane: (sum(1 << other for other, theirs in given.items() if theirs == value),)
                for lane, value in given.items()
            }
        alike = len(set(given.values())) == 1
        return dict.fromkeys(given, (sum(1 << lane for lane in given) if alike else 0, int(alike)))

    return meeting(context, function, statement, ((B32, PREDICATE), (opcode.type,)), compute)


def redux(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    kind = opcode.type
    name = opcode.one_of("add", "min", "max", "and", "or", "xor")
    makers = {"add": floats.add_sub, "min": floats.extremes, "max": floats.extremes}
    operation = makers.get(name, integers.logic)(
        Opcode(".".join([name, *(("NaN",) * opcode.has("NaN")), f"{kind.kind}{kind.bits}"]))
    )

    def compute(given: Given) -> Results:
        values = [value for (value,) in given.values()]
        total = values[0]
        for value in values[1:]:
            (total,) = operation(total, value)
        return dict.fromkeys(given, (total,))

    return meeting(context, function, statement, ((kind,), (kind,)), compute)


def elect(context: Context, function: Function, statement: Statement, _opcode: Opcode) -> Step:
    def compute(given: Given) -> Results:
        leader = min(given)
        return {lane: (leader, int(lane == leader)) for lane in given}

    return meeting(context, function, statement, ((B32, PREDICATE), ()), compute)


BINDERS = {"shfl": shfl, "vote": vote, "match": match, "redux": redux, "elect": elect}
