"""Tables of the store, equal in both dialects: entries, the texts that batches refer to, and a few facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from control_center.recorder.dialect import Database, StoreError, Value
from control_center.recorder.entry import Entry, Kind

VERSION: Final = 1
ENTRY_COLUMNS: Final = (
    "id",
    "kind",
    "time_ns",
    "end_ns",
    "host",
    "gpu",
    "vm",
    "pe",
    "fns",
    "name",
    "instance",
    "channel",
    "clock_ns",
    "arrived_ns",
    "count",
    "lost",
    "lost_new",
    "size",
    "body",
)
_TEXTS: Final = frozenset({"host", "gpu", "vm", "name"})
TEXT_COLUMNS: Final = ("id", "host", "vm", "address", "text")
_TEXT_COLUMN_TYPES: Final = (
    "id BIGINT NOT NULL",
    "host TEXT NOT NULL",
    "vm TEXT NOT NULL",
    "address BIGINT NOT NULL",
)


def create(database: Database) -> None:
    """Creates the tables that do not exist yet.

    :raise StoreError: the store's tables have another version.
    """
    columns = ", ".join(f"{name} {_column_type(database, name)} NOT NULL" for name in ENTRY_COLUMNS)
    texts = f"{', '.join(_TEXT_COLUMN_TYPES)}, text {database.bytes_type} NOT NULL"
    with database.transaction():
        for statement in (
            "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
            f"CREATE TABLE IF NOT EXISTS entries ({columns})",
            "CREATE UNIQUE INDEX IF NOT EXISTS entries_by_id ON entries (id)",
            "CREATE INDEX IF NOT EXISTS entries_by_time ON entries (time_ns, id)",
            "CREATE INDEX IF NOT EXISTS entries_by_vm ON entries (vm, time_ns, id)",
            "CREATE INDEX IF NOT EXISTS entries_by_kind ON entries (kind, time_ns, id)",
            f"CREATE TABLE IF NOT EXISTS texts ({texts})",
            "CREATE INDEX IF NOT EXISTS texts_by_place ON texts (host, vm, address, id)",
        ):
            database.execute(statement)
        set_fact(database, "version", fact(database, "version", VERSION))
    check_version(database)


def check_version(database: Database) -> None:
    """:raise StoreError: the store's tables have another version, or do not exist."""
    if (found := fact(database, "version", 0)) != VERSION:
        raise StoreError(f"the recording has version {found} of its tables; this recorder knows version {VERSION}")


def _column_type(database: Database, name: str) -> str:
    return "TEXT" if name in _TEXTS else database.bytes_type if name == "body" else "BIGINT"


def fact(database: Database, name: str, default: int) -> int:
    """Number that the store keeps about itself: version, bytes, records, alive_ns, closed_ns, span_ns."""
    found = database.fetch("SELECT value FROM facts WHERE name = ?", (name,))
    return int(found[0][0]) if found else default


def set_fact(database: Database, name: str, value: int) -> None:
    database.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def entry_values(number: int, entry: Entry) -> tuple[Value, ...]:
    """Columns of an entry, in the order of `ENTRY_COLUMNS`."""
    return (
        number,
        int(entry.kind),
        entry.time_ns,
        entry.end_ns,
        entry.host,
        entry.gpu,
        entry.vm,
        entry.pe,
        entry.fns,
        entry.name,
        entry.instance,
        entry.channel,
        entry.clock_ns,
        entry.arrived_ns,
        entry.count,
        entry.lost,
        entry.lost_new,
        entry.size,
        entry.body,
    )


def entry_of(values: tuple[int | str | bytes, ...]) -> tuple[int, Entry]:
    """Entry with its number from a row of the table: the inverse of `entry_values`."""
    number, kind, *rest = values
    del rest[-2]  # size
    return int(number), Entry(Kind(int(kind)), *rest)  # type: ignore[arg-type]  # the columns are the fields, in order


def signed(address: int) -> int:
    """Device address as a signed 64-bit number: databases have no unsigned one."""
    return address - (1 << 64) if address >> 63 else address


def unsigned(address: int) -> int:
    """Device address from a column: the inverse of `signed`."""
    return address % (1 << 64)


# ---- totals --------------------------------------------------------------------------------------


_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the store, written with every transaction, so that no reader has to count rows."""

    bytes: int = 0
    records: int = 0
    span_ns: int = 0
    """Longest time that one entry covers."""
    first: int = _NEVER
    last: int = _NEVER

    @property
    def first_ns(self) -> int | None:
        """Start time of the oldest entry; None if the store is empty."""
        return None if self.first == _NEVER else self.first

    @property
    def last_ns(self) -> int | None:
        return None if self.last == _NEVER else self.last

    def with_entries(self, entries: Iterable[Entry]) -> Totals:
        size, records, span, first, last = self.bytes, self.records, self.span_ns, self.first, self.last
        for entry in entries:
            size += entry.size
            records += entry.count
            span = max(span, entry.end_ns - entry.time_ns)
            first = entry.time_ns if first == _NEVER else min(first, entry.time_ns)
            last = max(last, entry.end_ns)
        return Totals(size, records, span, first, last)


_TOTALS: Final = tuple(field.name for field in fields(Totals))


def totals(database: Database) -> Totals:
    return Totals(*(fact(database, field.name, int(field.default)) for field in fields(Totals)))  # type: ignore[arg-type]


def set_totals(database: Database, found: Totals) -> None:
    for name in _TOTALS:
        set_fact(database, name, getattr(found, name))


def last_id(database: Database) -> int:
    """Highest number that any entry has ever had; 0 if there never was an entry."""
    found = database.fetch("SELECT MAX(id) FROM entries")[0][0]
    return max(int(found or 0), fact(database, "last_id", 0))
