"""The texts of formats and names that batches refer to by device address, as a writer knows them.

Each text is stored once per VM and again only when its address gets another one. What programs of a guest can make us
keep is bounded; texts beyond that are counted, and shown as addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

MAX_TEXTS: Final = 65536
"""Per VM."""
MAX_VM_CHARS: Final = 2 << 20
"""Of one VM: that of a guest that makes up texts takes no room of others'."""
MAX_TOTAL_CHARS: Final = 64 << 20
MAX_CHARS: Final = 4096

Place: TypeAlias = tuple[str, str]
"""Host and VM: device addresses are of one VM."""


class KnownTexts:
    """What is stored, and what was told but is to be stored again since pruning removed it."""

    def __init__(self) -> None:
        self._known: dict[Place, dict[int, str]] = {}
        self._restate: set[Place] = set()
        self._chars = 0
        self._chars_of: dict[Place, int] = {}
        self.left_out = 0
        """Texts that found no room, since this was made."""

    def learn(self, place: Place, dictionary: dict[str, str]) -> Iterator[tuple[int, str]]:
        """The texts that are to be stored with a batch that brings `dictionary`, by address."""
        known = self._known.setdefault(place, {})
        if place in self._restate:
            self._restate.discard(place)
            yield from known.items()
        for key, whole in dictionary.items():
            address, text = self._parse(key), whole[:MAX_CHARS]
            if address is None or known.get(address) == text:
                continue
            before = known.get(address)
            more = len(text) - len(before or "")
            of_vm = self._chars_of.get(place, 0) + more
            is_full = before is None and len(known) >= MAX_TEXTS
            if is_full or of_vm > MAX_VM_CHARS or self._chars + more > MAX_TOTAL_CHARS:
                self.left_out += 1
                continue
            known[address], self._chars_of[place] = text, of_vm
            self._chars += more
            yield address, text

    @staticmethod
    def _parse(key: str) -> int | None:
        try:
            address = int(key, 16)
        except ValueError:
            return None
        return address if 0 <= address < 1 << 64 else None

    def forgotten(self, places: Iterable[Place]) -> None:
        """The store has none of these VMs' texts any more: they are stored again when one of their batches comes."""
        self._restate |= {place for place in places if place in self._known}
