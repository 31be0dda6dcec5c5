"""Loans of processors: which VMs have some to themselves for a while, though they share them with others.

A VM that is entitled by its weight to as many whole processors as it has elements, and always has work for these, gets as much
time if others run on the same processors, but has to wait for it again and again. So the others keep off, for as long as it
has work: if it would be entitled to them even if all others had work, and else if more is wanted than there is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_FULLY: Final = 0.9
"""Part of the time of all its elements that a VM wants, and is entitled to, for them to count as always at work."""
_LOOKS: Final = 3
"""Looks in a row before a loan, and half of them before its end."""

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Claim:
    """Wants and rights of a VM, in processors on average."""

    elements: int
    wanted: float
    entitled: float
    """Right to processors, as others' wants are now."""
    sure: float
    """Right to processors if all others always had work."""

    def is_whole(self, others_wanted: float, cores: int) -> bool:
        """True if the VM is entitled to a processor for each element, has work for them, and others could be in its way."""
        if self.wanted < _FULLY * self.elements:
            return False
        is_contended = others_wanted > _FULLY * (cores - self.elements)
        return self.sure >= self.elements or (is_contended and self.entitled >= _FULLY * self.elements)


class Loans(Generic[_Key]):
    """VMs that have processors lent, as looks at all that have work go by."""

    def __init__(self) -> None:
        self._looks: dict[_Key, int] = {}
        """Looks in a row, at most `_LOOKS`, at which a VM was one for a loan."""
        self._lent: set[_Key] = set()

    def look(self, claims: Mapping[_Key, Claim], cores: int, *, may_begin: bool = True) -> set[_Key]:
        """Returns the VMs that are to have as many processors lent as they have elements, of `cores`; one stays for others.

        `may_begin`: a loan may begin now. It may end at any time.
        """
        wanted = sum(claim.wanted for claim in claims.values())
        for key, claim in claims.items():
            is_due = claim.is_whole(wanted - claim.wanted, cores)
            self._looks[key] = min(_LOOKS, max(0, self._looks.get(key, 0) + (1 if is_due else -2)))
        self._looks = {key: looks for key, looks in self._looks.items() if key in claims}
        kept = [key for key in claims if key in self._lent and self._looks[key] > 0]
        fresh = [key for key in claims if may_begin and key not in self._lent and self._looks[key] == _LOOKS]
        self._lent = set()
        for key in (*kept, *fresh):
            if claims[key].elements < cores:
                self._lent.add(key)
                cores -= claims[key].elements
        return set(self._lent)
