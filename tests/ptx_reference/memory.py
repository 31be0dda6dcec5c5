"""State spaces as segments of one generic address space: the upper half of an address is the segment's number."""

from __future__ import annotations

from typing import Final

from tests.ptx_reference.numbers import FORMATS
from tests.ptx_reference.syntax import Immediate, Operand, Symbol, Variable
from tests.ptx_reference.types import Type

SHARED: Final = 1 << 32
LOCAL: Final = 2 << 32
PARAM: Final = 3 << 32
"""Generic addresses of the first bytes of the spaces; local variables and parameters of a thread share a segment."""
_FIRST_BUFFER: Final = 16
_LOCAL_BYTES: Final = 1 << 16


class MemoryFaultError(Exception):
    """An address is in no segment."""


class Memory:
    """Segments by number. Blocks and threads have own ones in place of some."""

    def __init__(self) -> None:
        self.segments: dict[int, bytearray] = {}
        self.variables: dict[str, int] = {}
        self.next = _FIRST_BUFFER

    def allocate(self, size: int) -> int:
        """Address of a new segment."""
        self.segments[self.next] = bytearray(size)
        self.next += 1
        return self.next - 1 << 32

    def of_block(self, shared_bytes: int) -> Memory:
        return self._with({1: bytearray(shared_bytes)})

    def of_thread(self) -> Memory:
        local = bytearray(_LOCAL_BYTES)
        return self._with({2: local, 3: local})

    def _with(self, own: dict[int, bytearray]) -> Memory:
        made = Memory()
        made.segments = self.segments | own
        made.variables = self.variables
        return made

    def _segment(self, address: int, size: int) -> tuple[bytearray, int]:
        segment, offset = self.segments.get(address >> 32), address & 0xFFFFFFFF
        if segment is None or offset + size > len(segment):
            raise MemoryFaultError(f"{size} bytes at {address:#x}")
        return segment, offset

    def read(self, address: int, size: int) -> bytes:
        segment, offset = self._segment(address, size)
        return bytes(segment[offset : offset + size])

    def write(self, address: int, raw: bytes) -> None:
        segment, offset = self._segment(address, len(raw))
        segment[offset : offset + len(raw)] = raw

    def load(self, address: int, size: int) -> int:
        return int.from_bytes(self.read(address, size), "little")

    def store(self, address: int, size: int, bits: int) -> None:
        self.write(address, (bits & (1 << 8 * size) - 1).to_bytes(size, "little"))

    def initialise(self, variable: Variable, address: int) -> None:
        kind = Type(variable.type.kind, variable.type.bits)
        for place, value in enumerate(variable.initial):
            self.store(address + place * kind.bits // 8, kind.bits // 8, self.constant(value, kind))

    def constant(self, value: Operand, kind: Type) -> int:
        """Bits of a value of an initialiser."""
        if isinstance(value, Symbol):
            return self.variables[value.name] + value.offset
        if not isinstance(value, Immediate):
            raise MemoryFaultError("an initialiser is no constant")
        return immediate_bits(value, kind)


def immediate_bits(value: Immediate, kind: Type) -> int:
    """Bits of a constant in a type: floats are rounded to it, and keep their bits where the type is no float."""
    if value.real and kind.real and f"{kind.kind}{kind.bits}" != value.real:
        return kind.format.bits(FORMATS[value.real].number(value.bits))
    return value.bits & kind.mask
