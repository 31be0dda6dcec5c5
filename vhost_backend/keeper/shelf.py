"""Shelf at the keeper: entries of one part of the daemon, below a key of its own."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Protocol

from vhost_backend.fds import HasFileno
from vhost_backend.keeper.client import Change, Drop, Kept, Put, below
from vhost_backend.keeper.record import Record, pack


class Committer(Protocol):
    """Maker of changes at the keeper: `vhost_backend.keeper.client.Keeper`."""

    def commit(self, changes: Sequence[Change]) -> None: ...


class Shelf:
    """Entries below one key. Without a keeper nothing is kept."""

    def __init__(
        self, folder: str, keeper: Committer | None = None, kept: MutableMapping[str, Kept] | None = None
    ) -> None:
        """`kept`: all that an earlier daemon has left and nobody has taken, out of which entries are taken."""
        self._folder = folder
        self._keeper = keeper
        self._kept: MutableMapping[str, Kept] = {} if kept is None else kept
        self._sent = {key: entry.blob for key, entry in below(self._kept, folder).items()}

    @property
    def is_kept(self) -> bool:
        """True if another daemon will find the entries."""
        return self._keeper is not None

    def part(self, name: str) -> Shelf:
        """Shelf of a part of this one. Its entries are not to be set through this one."""
        return Shelf(f"{self._folder}/{name}", self._keeper, self._kept)

    def take(self) -> dict[str, Kept]:
        """Takes the entries that an earlier daemon has left, by key. Their descriptors are the caller's to close."""
        found = below(self._kept, self._folder)
        for key in found:
            del self._kept[f"{self._folder}/{key}"]
        return found

    def set(self, records: Mapping[str, Record | None], files: Mapping[str, HasFileno] | None = None) -> None:
        """Sets entries, in one commit as far as a packet holds them; None: removes one, and all below it.

        Entries that are as they were cost nothing. `files`: descriptors of entries, of which the keeper gets copies.
        """
        if self._keeper is None:
            return
        changes: list[Change] = []
        for key, record in records.items():
            if record is None:
                left = {name: blob for name, blob in self._sent.items() if not f"{name}/".startswith(f"{key}/")}
                if len(left) < len(self._sent):
                    changes.append(Drop(f"{self._folder}/{key}"))
                    self._sent = left
                continue
            blob, file = pack(record), (files or {}).get(key)
            if file is not None or self._sent.get(key) != blob:
                changes.append(Put(f"{self._folder}/{key}", blob, file))
                self._sent[key] = blob
        if changes:
            self._keeper.commit(changes)
