"""A module with its memory, whose kernels can be launched."""

from __future__ import annotations

from collections.abc import Sequence

from tests.ptx_reference.binding import bind
from tests.ptx_reference.memory import Memory
from tests.ptx_reference.schedule import run_block
from tests.ptx_reference.syntax import Module, Variable, parse
from tests.ptx_reference.threads import LANES, Context, Program, Thread, enter


class Machine:
    """A module with its memory.

    :raise ParseError: the text is not known.
    :raise UnknownInstructionError: an instruction is not known.
    """

    def __init__(self, text: str) -> None:
        self.module: Module = parse(text)
        self.memory = Memory()
        self.programs = {
            name: Program(function) for name, function in self.module.functions.items() if function.defined
        }
        self.context = Context(self.memory, self.programs)
        self.shared_bytes = 0
        self.dynamic: list[str] = []
        self._place_variables()
        for program in self.programs.values():
            program.steps = [
                bind(self.context, program.function, index) for index in range(len(program.function.statements))
            ]

    def _place_variables(self) -> None:
        local = [v for program in self.programs.values() for v in program.function.variables]
        for variable in (*self.module.variables, *local):
            if variable.space == "shared":
                self._place_shared(variable)
            elif variable.space in ("global", "const"):
                self.memory.variables[variable.name] = self.memory.allocate(max(1, variable.size))
        for variable in (*self.module.variables, *local):
            if variable.space in ("global", "const") and variable.initial:
                self.memory.initialise(variable, self.memory.variables[variable.name])

    def _place_shared(self, variable: Variable) -> None:
        if variable.size == 0:
            self.dynamic.append(variable.name)
            return
        start = -(-self.shared_bytes // variable.align) * variable.align
        self.context.shared[variable.name] = start
        self.shared_bytes = start + variable.size

    def buffer(self, raw: bytes) -> int:
        """Address of a new buffer of global memory with these bytes."""
        address = self.memory.allocate(len(raw))
        self.memory.write(address, raw)
        return address

    def launch(
        self, name: str, grid: Sequence[int], block: Sequence[int], arguments: Sequence[bytes], shared: int = 0
    ) -> None:
        """Runs a kernel, block after block.

        :raise ExecutionError: it fails.
        """
        program = self.programs[name]
        start = -(-self.shared_bytes // 16) * 16
        for dynamic in self.dynamic:
            self.context.shared[dynamic] = start
        for number in range(grid[0] * grid[1] * grid[2]):
            memory = self.memory.of_block(start + shared)
            threads = [
                Thread(n, special_registers(n, number, grid, block), [], memory.of_thread())
                for n in range(block[0] * block[1] * block[2])
            ]
            for thread in threads:
                frame = enter(thread, program)
                for parameter, raw in zip(program.function.parameters, arguments, strict=True):
                    thread.memory.write(frame.places[parameter.name], raw)
            run_block(threads)


def coordinates(number: int, sizes: Sequence[int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // sizes[0] // sizes[1]


def special_registers(number: int, block_number: int, grid: Sequence[int], block: Sequence[int]) -> dict[str, int]:
    """Special registers of a thread by name, but for clocks."""
    lane = number % LANES
    special = {"%laneid": lane, "%warpid": number // LANES, "WARP_SZ": LANES}
    rows = {"tid": coordinates(number, block), "ntid": block, "ctaid": coordinates(block_number, grid), "nctaid": grid}
    for name, values in rows.items():
        special |= {f"%{name}.{letter}": value for letter, value in zip("xyz", values, strict=True)}
    bit = 1 << lane
    return special | {
        "%lanemask_eq": bit,
        "%lanemask_lt": bit - 1,
        "%lanemask_le": 2 * bit - 1,
        "%lanemask_gt": 0xFFFFFFFF & -2 * bit,
        "%lanemask_ge": 0xFFFFFFFF & -bit,
    }
