"""Reads entries from the store: a `Query` as SQL, entries in pages by time, and the texts known at an entry's time."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from control_center.recorder import schema
from control_center.recorder.dialect import Database, Row, StoreError, Value
from control_center.recorder.entry import Entry, Kind
from control_center.recording_port import Query
from virtio_proto.control.selector import FUNCTIONS

_PAGE_ENTRIES: Final = 64
"""Entries of one page, each of `entry.MAX_BODY` at most: bounds a reader's memory."""
_WILD: Final = frozenset("*?")


class Lookup:
    """Reads a store, from any thread, while a writer writes it. Each page is one short read, which blocks no writer."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._database: Database | None = None
        self._lock = threading.Lock()

    def fetch(self, sql: str, parameters: list[Value]) -> list[Row]:
        """:raise StoreError: the store does not answer, not over a new connection either."""
        with self._lock:
            if self._database is not None:
                try:
                    return self._database.fetch(sql, parameters)
                except StoreError:
                    self._drop()
            self._database = self._connect()
            return self._database.fetch(sql, parameters)

    def _drop(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(StoreError):
                database.close()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def span_ns(self) -> int:
        """Longest time that one entry of the store covers."""
        found = self.fetch("SELECT value FROM facts WHERE name = ?", ["span_ns"])
        return int(found[0][0]) if found else 0

    def range_ns(self) -> tuple[int, int] | None:
        """First and last time of the recording; None if it is empty."""
        first, last, end = self.fetch("SELECT MIN(time_ns), MAX(time_ns), 0 FROM entries", [])[0]
        if first is None:
            return None
        recent = "SELECT MAX(end_ns) FROM entries WHERE time_ns >= ?"
        end = self.fetch(recent, [int(last) - self.span_ns()])[0][0]
        return int(first), int(end)

    def entries(self, query: Query, *kinds: Kind, newest_first: bool = False) -> Iterator[tuple[int, Entry]]:
        """Entries that `query` chooses, with their numbers, in the order of their start times."""
        condition, parameters = where(query, kinds, self.span_ns())
        order, beyond = ("DESC", "<") if newest_first else ("ASC", ">")
        columns = ", ".join(schema.ENTRY_COLUMNS)
        sql = f"SELECT {columns} FROM entries WHERE {condition} AND (time_ns, id) {beyond} (?, ?)"  # noqa: S608  ours
        sql += f" ORDER BY time_ns {order}, id {order} LIMIT {_PAGE_ENTRIES}"
        at = (1 << 62, 1 << 62) if newest_first else (-1, -1)
        while page := self.fetch(sql, [*parameters, *at]):
            for values in page:
                number, entry = schema.entry_of(values)
                at = (entry.time_ns, number)
                yield number, entry


# ---- conditions ----------------------------------------------------------------------------------


def where(query: Query, kinds: tuple[Kind, ...], span_ns: int) -> tuple[str, list[Value]]:
    """Condition of `query` in SQL, and its parameters. `span_ns`: the longest time that one entry covers."""
    parts: list[str] = []
    values: list[Value] = []

    def add(part: str, *more: Value) -> None:
        parts.append(part)
        values.extend(more)

    if query.from_ns is not None:
        add("time_ns >= ? AND end_ns >= ?", query.from_ns - span_ns, query.from_ns)
    if query.to_ns is not None:
        add("time_ns < ?", query.to_ns)
    if kinds:
        add(f"kind IN ({', '.join('?' * len(kinds))})", *map(int, kinds))
    for column in ("host", "gpu", "vm"):
        _add_names(add, column, getattr(query.selector, column))
    if query.selector.pe is not None:
        ranges = " OR ".join(["pe BETWEEN ? AND ?"] * len(query.selector.pe))
        add(f"(pe = -1 OR {ranges})", *(bound for pair in query.selector.pe for bound in pair))
    if query.selector.fn is not None:
        mask = sum(1 << FUNCTIONS.index(fn) for fn in query.selector.fn)
        add("(kind <> 1 OR (fns & ?) <> 0)", mask)
    if query.vms is not None:
        _add_vms(add, query.vms)
    return " AND ".join(parts) or "1 = 1", values


def _add_names(add: Callable[..., None], column: str, pattern: str) -> None:
    names = pattern.split("|")
    if "*" in names:
        return
    likes = [f"{column} = ?" if not _WILD & set(name) else f"{column} LIKE ? ESCAPE '!'" for name in names]
    add(f"({' OR '.join(likes)})", *(_like(name) if _WILD & set(name) else name for name in names))


def _like(pattern: str) -> str:
    escaped = "".join("!" + char if char in "!%_" else char for char in pattern)
    return escaped.replace("*", "%").replace("?", "_")


def _add_vms(add: Callable[..., None], vms: frozenset[str]) -> None:
    """Adds the condition that an entry belongs to one of `vms`; entries without a VM are left out."""
    anywhere = [vm for vm in vms if "/" not in vm]
    placed = [vm.split("/", 1) for vm in vms if "/" in vm]
    either = [f"vm IN ({', '.join('?' * len(anywhere))})"] if anywhere else []
    either += ["(host = ? AND vm = ?)"] * len(placed)
    add(f"vm <> '' AND ({' OR '.join(either or ['1 = 0'])})", *anywhere, *(name for pair in placed for name in pair))


# ---- texts ---------------------------------------------------------------------------------------


class _TextsAt(Mapping[int, str]):
    """Texts of a VM as they were when an entry was recorded."""

    def __init__(self, history: dict[int, list[tuple[int, str]]], number: int) -> None:
        self._history = history
        self._number = number

    def __getitem__(self, address: int) -> str:
        versions = self._history[address]
        index = bisect_right(versions, self._number, key=lambda version: version[0])
        if index == 0:
            raise KeyError(address)
        return versions[index - 1][1]

    def __iter__(self) -> Iterator[int]:
        return iter(self._history)

    def __len__(self) -> int:
        return len(self._history)


class Texts:
    """Texts of all VMs that one read meets."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._histories: dict[tuple[str, str], tuple[int, dict[int, list[tuple[int, str]]]]] = {}

    def at(self, number: int, host: str, vm: str) -> Mapping[int, str]:
        """Texts of a VM as they were when the entry with that number was recorded."""
        upto, history = self._histories.get((host, vm), (0, {}))
        if number > upto:
            sql = "SELECT id, address, text FROM texts WHERE host = ? AND vm = ? AND id > ? ORDER BY id"
            found = self._lookup.fetch(sql, [host, vm, upto])
            newest = self._lookup.fetch("SELECT MAX(id) FROM entries", [])[0][0] or 0
            for version, address, text in found:
                decoded = bytes(text).decode(errors="replace")
                history.setdefault(schema.unsigned(address), []).append((version, decoded))
            self._histories[host, vm] = (max(upto, int(newest), *(row[0] for row in found)), history)
        return _TextsAt(history, number)
