"""Control flow: jumps, calls, ends, barriers of the block [PTX ISA, 9.7.12, 9.7.13]."""

from __future__ import annotations

from tests.ptx_reference.access import FUNCTIONS, reader, writer
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.syntax import Function, Group, Operand, Register, Statement, Symbol, Variable
from tests.ptx_reference.threads import STOP, Context, ExecutionError, Frame, Step, Thread, Wait, enter
from tests.ptx_reference.types import PREDICATE, U32, Type


def label(function: Function, operand: Operand) -> int:
    if not isinstance(operand, Symbol) or operand.name not in function.labels:
        raise ExecutionError(f"{operand} is no label")
    return function.labels[operand.name]


def bra(_context: Context, function: Function, statement: Statement, _opcode: Opcode) -> Step:
    to = label(function, statement.operands[0])
    return lambda _thread: to


def brx(context: Context, function: Function, statement: Statement, _opcode: Opcode) -> Step:
    index, targets = statement.operands
    if not isinstance(targets, Symbol):
        raise ExecutionError(f"{targets} is no list of labels")
    places = [function.labels[name] for name in function.targets[targets.name]]
    read = reader(context, function, index, U32)
    return lambda thread: places[read(thread)]


def ret(_context: Context, function: Function, _statement: Statement, _opcode: Opcode) -> Step:
    end = len(function.statements)
    return lambda _thread: end


def exit_(_context: Context, _function: Function, _statement: Statement, _opcode: Opcode) -> Step:
    def step(thread: Thread) -> int:
        thread.done = True
        return STOP

    return step


def trap(_context: Context, _function: Function, _statement: Statement, _opcode: Opcode) -> Step:
    def step(_thread: Thread) -> int:
        raise ExecutionError("trap")

    return step


def nothing(_context: Context, _function: Function, _statement: Statement, _opcode: Opcode) -> Step:
    return lambda _thread: None


def call(context: Context, function: Function, statement: Statement, _opcode: Opcode) -> Step:
    """Calls a function by name or address, with parameters by their bytes or in registers."""
    operands = list(statement.operands)
    groups = [operand.parts for operand in operands if isinstance(operand, Group)]
    with_results = isinstance(operands[0], Group)
    results = groups.pop(0) if with_results else ()
    given = groups[0] if groups else ()
    target = operands[int(with_results)]
    address = reader(context, function, target, Type("b", 64))
    programs = list(context.programs.values())

    def step(thread: Thread) -> int:
        number = address(thread) - FUNCTIONS
        if not 0 <= number < len(programs):
            raise ExecutionError("a call of something that is no function")
        called = programs[number].function
        values = [
            argument(context, function, thread, operand, parameter)
            for operand, parameter in zip(given, called.parameters, strict=True)
        ]
        top, back = thread.local_top, thread.pc + 1
        frame = enter(thread, programs[number])
        for parameter, raw in zip(called.parameters, values, strict=True):
            put(thread, frame, parameter, raw)

        def finish() -> None:
            found = [taken(thread, frame, variable) for variable in called.results]
            thread.frames.pop()
            thread.local_top = top
            thread.pc = back
            for operand, raw in zip(results, found, strict=True):
                receive(thread, function, operand, raw)

        frame.finish = finish
        return 0

    return step


def argument(context: Context, function: Function, thread: Thread, operand: Operand, parameter: Variable) -> bytes:
    """Bytes of an argument: of a variable of the caller, or of a value."""
    place = thread.frame.places.get(operand.name) if isinstance(operand, Symbol) else None
    if place is not None:
        return thread.memory.read(place, parameter.size)
    return reader(context, function, operand, parameter.type)(thread).to_bytes(parameter.size, "little")


def put(thread: Thread, frame: Frame, parameter: Variable, raw: bytes) -> None:
    if parameter.space == "reg":
        frame.registers[parameter.name] = int.from_bytes(raw, "little")
    else:
        thread.memory.write(frame.places[parameter.name], raw)


def taken(thread: Thread, frame: Frame, result: Variable) -> bytes:
    if result.space == "reg":
        return frame.registers[result.name].to_bytes(result.size, "little")
    return thread.memory.read(frame.places[result.name], result.size)


def receive(thread: Thread, function: Function, operand: Operand, raw: bytes) -> None:
    if isinstance(operand, Register):
        writer(function, operand, function.registers[operand.name])(thread, int.from_bytes(raw, "little"))
    elif isinstance(operand, Symbol) and operand.name != "_":
        thread.memory.write(thread.frame.places[operand.name], raw)


def barrier(context: Context, function: Function, statement: Statement, opcode: Opcode) -> Step:
    """Bar and barrier: sync, arrive, and red, which gives all threads what their predicates come to."""
    if opcode.has("warp"):
        mask = reader(context, function, statement.operands[0], U32)
        return lambda thread: wait(thread, Wait((id(statement),), mask(thread), lambda _members: None))
    operands = list(statement.operands)
    to = operands.pop(0) if opcode.has("red") else None
    predicate = operands.pop() if opcode.has("red") else None
    numbers = [reader(context, function, operand, U32) for operand in operands]
    vote = reader(context, function, predicate, PREDICATE) if predicate is not None else None
    kind = U32 if opcode.has("popc") else PREDICATE
    write = writer(function, to, kind) if to is not None else None

    def finish(members: dict[int, Thread]) -> None:
        votes = [thread.wait.data[0] for thread in members.values() if thread.wait is not None and thread.wait.data]
        found = sum(votes) if opcode.has("popc") else all(votes) if opcode.has("and") else any(votes)
        for thread in members.values():
            if write is not None:
                write(thread, int(found))

    def step(thread: Thread) -> int:
        number, *count = (read(thread) for read in numbers)
        data = (vote(thread),) if vote is not None else ()
        return wait(thread, Wait(("barrier", number), 0, finish, data, count[0] if count else 0))

    return step


def wait(thread: Thread, what: Wait) -> int:
    thread.wait = what
    return STOP


NOTHING = ("membar", "fence", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep")
"""Instructions without an effect where threads run one after the other."""

BINDERS = {
    "bra": bra,
    "brx": brx,
    "call": call,
    "ret": ret,
    "exit": exit_,
    "trap": trap,
    "bar": barrier,
    "barrier": barrier,
    **dict.fromkeys(NOTHING, nothing),
}
