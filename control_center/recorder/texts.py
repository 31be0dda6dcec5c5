"""Texts (formats and names) that batches refer to by device address, as far as the writer has stored them.

Each text is stored once per VM, and again only when its address gets a new text. How much the programs of a guest can
make the recorder keep is bounded; texts beyond that are counted, and shown as addresses. When the texts of all VMs are too
many, the VM that has been silent for longest makes room: its texts are in the store, and stored again when it tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

MAX_TEXTS: Final = 65536
"""Most texts of one VM."""
MAX_VM_CHARS: Final = 2 << 20
"""Most characters of one VM's texts: a guest that makes up texts must not use up the room of other VMs."""
MAX_TOTAL_CHARS: Final = 64 << 20
"""Most characters of all VMs' texts."""
MAX_VMS: Final = 1 << 16
"""Most VMs whose texts are known."""
MAX_CHARS: Final = 4096
"""Length to which one text is cut."""

Place: TypeAlias = tuple[str, str]
"""Host and VM: a device address has a meaning only within one VM."""


class KnownTexts:
    """Texts that are stored, and the VMs whose texts must be stored again because pruning deleted them."""

    def __init__(self) -> None:
        self._known: dict[Place, dict[int, str]] = {}
        self._restate: set[Place] = set()
        self._chars = 0
        self._chars_of: dict[Place, int] = {}
        self.left_out = 0
        """Number of texts that exceeded a bound since the writer started."""

    def learn(self, place: Place, dictionary: dict[str, str]) -> Iterator[tuple[int, str]]:
        """Texts to store with a batch that brings `dictionary`, as (address, text)."""
        known = self._known[place] = self._known.pop(place, {})  # the last one is the one that spoke last
        if place in self._restate:
            self._restate.discard(place)
            yield from known.items()
        self._make_room()
        for key, whole in dictionary.items():
            address, text = self._parse(key), whole[:MAX_CHARS]
            if address is None or known.get(address) == text:
                continue
            before = known.get(address)
            more = len(text) - len(before or "")
            of_vm = self._chars_of.get(place, 0) + more
            is_full = before is None and len(known) >= MAX_TEXTS
            if is_full or of_vm > MAX_VM_CHARS:
                self.left_out += 1
                continue
            known[address], self._chars_of[place] = text, of_vm
            self._chars += more
            self._make_room()
            yield address, text

    def _make_room(self) -> None:
        """Forgets VMs that have been silent for longest until the others' texts fit, or only the one that speaks is left."""
        while (self._chars > MAX_TOTAL_CHARS or len(self._known) > MAX_VMS) and len(self._known) > 1:
            silent = next(iter(self._known))
            del self._known[silent]
            self._chars -= self._chars_of.pop(silent, 0)
            self._restate.discard(silent)

    @staticmethod
    def _parse(key: str) -> int | None:
        try:
            address = int(key, 16)
        except ValueError:
            return None
        return address if 0 <= address < 1 << 64 else None

    def left(self, place: Place) -> None:
        """Forgets a VM that has left: one of its name that comes later tells texts of its own."""
        self._known.pop(place, None)
        self._chars -= self._chars_of.pop(place, 0)
        self._restate.discard(place)

    def forgotten(self, places: Iterable[Place]) -> None:
        """Notes that the store has no texts of these VMs any more: each VM's next batch stores them again."""
        self._restate |= {place for place in places if place in self._known}
