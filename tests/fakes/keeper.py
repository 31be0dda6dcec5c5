"""A keeper in this process: entries that one daemon leaves and the next finds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from vhost_backend.fds import Fd
from vhost_backend.keeper.client import Change, Drop, Kept, Put
from vhost_backend.keeper.shelf import Shelf


class FakeKeeper:
    """Takes changes as the keeper does."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.files: dict[str, Fd] = {}
        self.commits = 0

    def commit(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        for change in changes:
            match change:
                case Put(key, blob, file):
                    self._drop(lambda other, key=key: other == key)  # type: ignore[misc]
                    self.entries[key] = blob
                    if file is not None:
                        self.files[key] = Fd(os.dup(file.fileno()))
                case Drop(dropped):
                    self._drop(lambda key, dropped=dropped: f"{key}/".startswith(f"{dropped}/"))  # type: ignore[misc]
                case _:
                    raise AssertionError(f"{change} is for frontends")

    def _drop(self, is_dropped: Callable[[str], bool]) -> None:
        for key in [key for key in self.entries if is_dropped(key)]:
            del self.entries[key]
            if (file := self.files.pop(key, None)) is not None:
                file.close()

    def shelf(self, name: str) -> Shelf:
        """Shelf of a daemon that begins now."""
        kept = {}
        for key, blob in self.entries.items():
            file = self.files.get(key)
            kept[key] = Kept(blob, None if file is None else Fd(os.dup(file.fileno())))
        return Shelf(name, self, kept)
