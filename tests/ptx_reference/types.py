"""Types of PTX: their width, and their values as integers of bits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tests.ptx_reference.numbers import FORMATS, Format

_TYPE: Final = re.compile(r"(bf|tf|[busf])(128|64|32|16|8)(x2)?|pred")


@dataclass(frozen=True, slots=True)
class Type:
    """``kind`` is b, u, s, f, bf, tf, e4m3, e5m2, pred or cc (the carry flag); ``bits`` are those of one lane."""

    kind: str
    bits: int
    lanes: int = 1

    @property
    def width(self) -> int:
        return self.bits * self.lanes

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    @property
    def real(self) -> bool:
        return self.kind in ("f", "bf", "e4m3", "e5m2")

    @property
    def format(self) -> Format:
        return FORMATS[self.kind if self.kind in FORMATS else f"{self.kind}{self.bits}"]

    def value(self, bits: int) -> int:
        """The integer that bits of this type mean."""
        bits &= self.mask
        return bits - (1 << self.bits) if self.kind == "s" and bits >> self.bits - 1 else bits

    @property
    def limits(self) -> tuple[int, int]:
        half = 1 << self.bits - 1
        return (-half, half - 1) if self.kind == "s" else (0, 2 * half - 1)

    def clamp(self, value: int) -> int:
        """Bits of the nearest integer of this type."""
        low, high = self.limits
        return max(low, min(high, value)) & self.mask

    def split(self, bits: int) -> list[int]:
        """Bits of the lanes, the lowest first."""
        return [bits >> lane * self.bits & (1 << self.bits) - 1 for lane in range(self.lanes)]

    def joined(self, lanes: list[int]) -> int:
        return sum((bits & (1 << self.bits) - 1) << n * self.bits for n, bits in enumerate(lanes))


PREDICATE: Final = Type("pred", 1)
CARRY: Final = Type("cc", 1)
B16: Final = Type("b", 16)
B32: Final = Type("b", 32)
B64: Final = Type("b", 64)
U32: Final = Type("u", 32)


def type_of(name: str) -> Type | None:
    """Type by the name of its modifier, without the point; None for other words."""
    found = _TYPE.fullmatch(name)
    if found is None:
        return None
    if name == "pred":
        return PREDICATE
    return Type(found[1], int(found[2]), 2 if found[3] else 1)
