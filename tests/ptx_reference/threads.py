"""Threads of a block, their frames, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.ptx_reference.memory import LOCAL, PARAM, Memory
from tests.ptx_reference.syntax import Function

LANES: Final = 32


class ExecutionError(Exception):
    """The kernel does something that PTX leaves undefined, traps, or hangs."""


@dataclass(slots=True)
class Frame:
    """Registers and variables of one call of a function."""

    program: Program
    registers: dict[str, int]
    places: dict[str, int]
    """Addresses of its parameters and of the variables that it declares, by name."""
    finish: Callable[[], None] | None = None
    """Returns to the caller; None for a kernel."""


@dataclass(slots=True)
class Wait:
    """A thread at a barrier, or at an operation of its warp."""

    key: tuple[Any, ...]
    """Equal for threads that meet: the statement, or the number of the barrier."""
    mask: int
    """Lanes that take part; 0 for barriers of the block."""
    finish: Callable[[dict[int, Thread]], None]
    """Gives results to all threads that have met, by lane (by number in the block at barriers)."""
    data: tuple[Any, ...] = ()
    count: int = 0
    """Threads of a barrier, if not all of the block."""


@dataclass(slots=True)
class Thread:
    """Thread of a block; `number` counts within the block."""

    number: int
    special: dict[str, int]
    frames: list[Frame]
    memory: Memory
    pc: int = 0
    carry: int = 0
    done: bool = False
    wait: Wait | None = None
    depth: int = 0
    local_top: int = 16

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def lane(self) -> int:
        return self.number % LANES


Step = Callable[[Thread], int | None]
STOP: Final = -1
"""Result of a statement after which the thread waits or has ended."""


@dataclass(slots=True)
class Program:
    """A function whose statements are bound to their operands."""

    function: Function
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Context:
    """Objects that statements refer to by name."""

    memory: Memory
    programs: dict[str, Program]
    shared: dict[str, int] = field(default_factory=dict)
    """Offsets of shared variables."""


def enter(thread: Thread, program: Program) -> Frame:
    """Pushes the frame of a call: places for parameters, results and local variables."""
    function = program.function
    frame = Frame(program, dict.fromkeys(function.registers, 0), {})
    for variable in (*function.results, *function.parameters, *function.variables):
        if variable.space in ("param", "local"):
            top = -(-thread.local_top // max(1, variable.align)) * max(1, variable.align)
            thread.local_top = top + max(1, variable.size)
            frame.places[variable.name] = (PARAM if variable.space == "param" else LOCAL) + top
    thread.frames.append(frame)
    return frame
