"""Instructions that compute results from operands alone: what they take, give and compute, by their mnemonics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.ptx_reference.types import Type, type_of


class UnknownInstructionError(Exception):
    """The interpreter does not have the instruction."""


@dataclass(frozen=True, slots=True)
class Opcode:
    """An instruction's name with its modifiers, such as ``add.rn.ftz.f32``."""

    text: str

    @property
    def name(self) -> str:
        return self.text.split(".", 1)[0]

    @property
    def modifiers(self) -> list[str]:
        return self.text.split(".")[1:]

    def has(self, *modifiers: str) -> bool:
        return any(modifier in self.modifiers for modifier in modifiers)

    def one_of(self, *modifiers: str) -> str:
        """First modifier of several; the empty string without one."""
        return next((modifier for modifier in self.modifiers if modifier in modifiers), "")

    @property
    def types(self) -> list[Type]:
        return [found for modifier in self.modifiers if (found := type_of(modifier)) is not None]

    @property
    def type(self) -> Type:
        """Last type among the modifiers."""
        return self.types[-1]

    @property
    def rounding(self) -> str:
        return self.one_of("rn", "rz", "rm", "rp", "rna") or "rn"


@dataclass(frozen=True, slots=True)
class Operation:
    """Results and sources by their types, and the function from the bits of sources to the bits of results."""

    results: tuple[Type, ...]
    sources: tuple[Type, ...]
    compute: Callable[..., int | tuple[int, ...]]
    canonical: bool = False
    """Results that are not a number have the bits that the ISA names; otherwise any are right."""

    def __call__(self, *bits: int) -> tuple[int, ...]:
        found = self.compute(*bits)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(result & kind.mask for result, kind in zip(results, self.results, strict=True))


Maker = Callable[[Opcode], Operation]
MAKERS: Final[dict[str, Maker]] = {}


def makes(*names: str) -> Callable[[Maker], Maker]:
    """Registers the function that makes the operations of some mnemonics."""

    def register(maker: Maker) -> Maker:
        for name in names:
            MAKERS[name] = maker
        return maker

    return register


def lanewise(kind: Type, sources: int, compute: Callable[..., int], *, canonical: bool = False) -> Operation:
    """Operation of one type that is done on each lane apart."""

    def by_lanes(*bits: int) -> int:
        return kind.joined([compute(*lane) for lane in zip(*(kind.split(value) for value in bits), strict=True)])

    return Operation((kind,), (kind,) * sources, compute if kind.lanes == 1 else by_lanes, canonical)
