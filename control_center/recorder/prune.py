"""Deletes entries that are too old, then the oldest ones while the store is too large."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from control_center.recorder import schema
from control_center.recorder.dialect import Database
from control_center.recorder.schema import Totals
from control_center.recorder.texts import Place

_CHUNK: Final = 1000
"""Most entries that are deleted in one transaction."""
_LOW_WATER: Final = 0.95
"""Part of the size bound down to which entries are deleted, so that not every flush has to delete."""


def prune(
    database: Database, totals: Totals, now_ns: int, *, retention_s: float | None, size_bytes: int | None
) -> tuple[Totals, list[Place]]:
    """Deletes entries beyond the bounds; gives the new totals, and the VMs whose texts were all deleted."""
    before = totals
    if retention_s is not None:
        oldest_ns = now_ns - int(retention_s * 1e9)
        while (after := _delete(database, totals, older_than_ns=oldest_ns)) != totals:
            totals = after
    if size_bytes is not None and totals.bytes > size_bytes:
        wanted = int(size_bytes * _LOW_WATER)
        while totals.bytes > wanted and (after := _delete(database, totals, down_to=wanted)) != totals:
            totals = after
    if totals == before:
        return totals, []
    forgotten = _delete_texts(database)
    database.give_back()
    return totals, forgotten


def _delete(database: Database, totals: Totals, *, older_than_ns: int = 1 << 62, down_to: int = 0) -> Totals:
    """Deletes the oldest entries, `_CHUNK` at most; gives the new totals."""
    oldest = database.fetch(
        "SELECT time_ns, id, size, count FROM entries WHERE time_ns < ? ORDER BY time_ns, id LIMIT ?",
        (older_than_ns, _CHUNK),
    )
    size, records, last = totals.bytes, totals.records, None
    for time_ns, number, bytes_, count in oldest:
        if size <= down_to:
            break
        size, records, last = size - bytes_, records - count, (time_ns, number)
    if last is None:
        return totals
    with database.transaction():
        schema.set_fact(database, "last_id", schema.last_id(database))
        database.execute("DELETE FROM entries WHERE (time_ns, id) <= (?, ?)", last)
        first = database.fetch("SELECT MIN(time_ns) FROM entries")[0][0]
        totals = replace(totals, bytes=size, records=records) if first is not None else Totals()
        totals = replace(totals, first=totals.first if first is None else int(first))
        schema.set_totals(database, totals)
    return totals


def _delete_texts(database: Database) -> list[Place]:
    """Deletes texts that no entry needs: those replaced before the oldest entry, and those of VMs without entries.
    Gives the VMs whose texts were all deleted.
    """
    oldest = int(database.fetch("SELECT MIN(id) FROM entries")[0][0] or 1 << 62)
    with database.transaction():
        database.execute(
            "DELETE FROM texts WHERE id < ? AND EXISTS (SELECT 1 FROM texts newer WHERE newer.host = texts.host"
            " AND newer.vm = texts.vm AND newer.address = texts.address AND newer.id > texts.id AND newer.id <= ?)",
            (oldest, oldest),
        )
        places: list[Place] = []
        for host, vm in database.fetch("SELECT DISTINCT host, vm FROM texts"):
            if not database.fetch("SELECT 1 FROM entries WHERE vm = ? AND host = ? LIMIT 1", (vm, host)):
                database.execute("DELETE FROM texts WHERE host = ? AND vm = ?", (host, vm))
                places.append((host, vm))
    return places
