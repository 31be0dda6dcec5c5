"""Reader of a recording: finds, counts, replays and exports, in threads, also while a recorder writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypedDict, TypeVar

from control_center.recorder import perfetto, schema, table
from control_center.recorder.dialect import check_url, connect, free_bytes, without_password
from control_center.recorder.entry import Kind, unpack_body
from control_center.recorder.lookup import Lookup
from control_center.recorder.rows import command_row, event_row, last_records, load_row, moments, record_row
from control_center.recorder.timeline import timeline
from control_center.recording_port import (
    CommandRow,
    ExportFormat,
    Query,
    RecordRow,
    Row,
    TimelineBin,
)
from virtio_proto.control.api import RecorderStatus, SnapshotInfo

T = TypeVar("T")

_CHUNK: Final = 256
"""Rows that a thread fetches at a time, before the event loop runs again."""


class SnapshotRow(TypedDict):
    """Recorded snapshot of one host."""

    time_ns: int
    host: str
    name: str
    info: SnapshotInfo


class StoreReader:
    """Queries of a recording. Every method raises `dialect.StoreError` when the store does not answer."""

    def __init__(self, url: str) -> None:
        """:raise ValueError: the URL does not name a store."""
        check_url(url)
        self._url = url
        self._lookup = Lookup(lambda: connect(url, read_only=True))

    def close(self) -> None:
        """Closes the connection; a read that is under way raises."""
        self._lookup.close()

    async def state(self) -> RecorderStatus:
        """Size and time range of the store. Nothing is left out, queued or failing: only the recorder that writes knows it.

        :raise StoreError: no recording of this version is at the URL.
        """

        def read() -> RecorderStatus:
            database = connect(self._url, read_only=True)
            try:
                schema.check_version(database)
                return status_of(self._url, schema.totals(database), free_bytes(self._url))
            finally:
                database.close()

        return await asyncio.to_thread(read)

    # ---- asking ----------------------------------------------------------------------------------

    async def query(self, query: Query, limit: int) -> list[RecordRow]:
        """Last `limit` records that `query` chooses, oldest first."""
        return await asyncio.to_thread(last_records, self._lookup, query, limit)

    async def commands(self, query: Query, verb: str | None = None) -> list[CommandRow]:
        """Commands that `query` chooses (all verbs, or one), oldest first."""

        def read() -> list[CommandRow]:
            found = self._lookup.entries(query, Kind.COMMAND)
            return [command_row(entry) for _, entry in found if verb in (None, entry.name)]

        return await asyncio.to_thread(read)

    async def snapshots(self, query: Query) -> list[SnapshotRow]:
        """Snapshots that `query` chooses, oldest first."""

        def read() -> list[SnapshotRow]:
            found = (entry for _, entry in self._lookup.entries(query, Kind.SNAPSHOT))
            return [SnapshotRow(time_ns=e.time_ns, host=e.host, name=e.name, info=unpack_body(e.body)) for e in found]

        return await asyncio.to_thread(read)

    async def timeline(self, query: Query, bins: int) -> list[TimelineBin]:
        """Counts in `bins` pieces of equal length from `query.from_ns` to `query.to_ns`, by default the whole recording."""
        return await asyncio.to_thread(timeline, self._lookup, query, bins)

    async def export(self, query: Query, form: ExportFormat) -> AsyncIterator[bytes]:
        """Writes a Perfetto trace (JSON of the Trace Event Format) or CSV, in pieces."""
        made = {"perfetto": perfetto.export, "csv": table.export}[form]
        async for pieces in _in_thread(lambda: made(moments(self._lookup, query))):
            yield b"".join(pieces)

    async def replay(self, query: Query) -> AsyncIterator[Row]:
        """Yields records, events and loads in the order of time without waiting; `player.Player` waits between them."""

        def rows() -> Iterator[Row]:
            for moment in moments(self._lookup, query, Kind.BATCH, Kind.EVENT, Kind.GAP, Kind.LOAD):
                if moment.entry.kind is Kind.BATCH:
                    yield "record", record_row(moment)
                elif moment.entry.kind is Kind.LOAD:
                    if (load := load_row(moment.entry)) is not None:
                        yield "load", load
                else:
                    yield "event", event_row(moment)

        async for chunk in _in_thread(rows):
            for row in chunk:
                yield row


def status_of(url: str, totals: schema.Totals, free: int | None = None) -> RecorderStatus:
    """Status of a recording at rest; `free`: bytes on its disk."""
    return RecorderStatus(
        url=without_password(url),
        bytes=totals.bytes,
        first_ns=totals.first_ns,
        last_ns=totals.last_ns,
        records=totals.records,
        left_out=0,
        queued_bytes=0,
        queue_bytes=0,
        lag_ns=0,
        free_bytes=free,
        failures=0,
        failure=None,
        ended=None,
    )


async def _in_thread(make: Callable[[], Iterable[T]]) -> AsyncIterator[list[T]]:
    """Yields the items of the iterable that `make` returns in chunks, each fetched in a thread."""
    iterator = iter(await asyncio.to_thread(make))
    while chunk := await asyncio.to_thread(lambda: list(islice(iterator, _CHUNK))):
        yield chunk
