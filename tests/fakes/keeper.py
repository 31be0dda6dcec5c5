"""A keeper in this process: entries that one daemon leaves and the next finds."""

from __future__ import annotations

from collections.abc import Sequence

from vhost_backend.keeper.client import Change, Drop, Kept, Put
from vhost_backend.keeper.shelf import Shelf


class FakeKeeper:
    """Takes changes as the keeper does, but without descriptors."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.commits = 0

    def commit(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        for change in changes:
            match change:
                case Put(key, blob, None):
                    self.entries[key] = blob
                case Drop(dropped):
                    self.entries = {
                        key: blob for key, blob in self.entries.items() if not f"{key}/".startswith(f"{dropped}/")
                    }
                case _:
                    raise AssertionError(f"{change} has a descriptor")

    def shelf(self, name: str) -> Shelf:
        """Shelf of a daemon that begins now."""
        return Shelf(name, self, {key: Kept(blob, None) for key, blob in self.entries.items()})
