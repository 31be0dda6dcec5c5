"""The recorder that keeps everything in a store: `control_center.recording_port.Recorder` over SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypedDict, TypeVar

from control_center.recorder import perfetto, table
from control_center.recorder.dialect import StoreError, check_url, connect, without_password
from control_center.recorder.entry import (
    Kind,
    command_entry,
    event_entry,
    load_entry,
    snapshot_entry,
    unpack_body,
)
from control_center.recorder.inbox import Batch, Inbox
from control_center.recorder.lookup import Lookup
from control_center.recorder.rows import command_row, event_row, last_records, moments, record_row
from control_center.recorder.settings import Settings
from control_center.recorder.timeline import timeline
from control_center.recorder.writer import Writer
from control_center.recording_port import (
    CommandRow,
    ExportFormat,
    Query,
    RecorderStatus,
    RecordRow,
    Row,
    TimelineBin,
)
from virtio_proto.control.api import EventPush, LoadInfo, RecordsPush, SnapshotInfo

T = TypeVar("T")

_CHUNK: Final = 256
"""Rows that are fetched at a time: a thread's work between two looks of the event loop."""


class SnapshotRow(TypedDict):
    """A snapshot that was recorded."""

    time_ns: int
    host: str
    name: str
    info: SnapshotInfo


class StoreRecorder:
    """Takes from the event loop without waiting, writes in a thread, reads in others."""

    def __init__(self, settings: Settings) -> None:
        """:raise ValueError: the store's URL is none."""
        check_url(settings.url)
        self._settings = settings
        self._inbox = Inbox(settings.queue_bytes, settings.now_ns)
        self._writer = Writer(settings, self._inbox, lambda: connect(settings.url))
        self._lookup = Lookup(lambda: connect(settings.url, read_only=True))
        self._started = False

    async def start(self) -> None:
        """Opens the store.

        :raise OSError: it cannot be opened, or another recorder writes it; the text says why.
        """
        await asyncio.to_thread(self._writer.start)
        self._started = True

    async def close(self) -> None:
        """Writes what is still queued and closes the store."""
        self._inbox.close()
        if self._started:
            await asyncio.to_thread(self._writer.join)
        self._lookup.close()

    async def flush(self) -> None:
        """Returns when all that was told before can be found.

        :raise OSError: the store does not take it.
        """
        if not await asyncio.to_thread(self._inbox.flush, 30.0):
            raise StoreError(self._writer.error or "the recording was not written within 30 s")

    # ---- telling ---------------------------------------------------------------------------------

    def record_batch(self, push: RecordsPush, host: str) -> None:
        """Takes a batch. `dictionary` holds what is new since the VM's last batch."""
        self._inbox.put(Batch(push, host, self._settings.now_ns()))

    def record_event(self, push: EventPush, host: str) -> None:
        self._inbox.put(event_entry(push, host))

    def record_command(self, command: CommandRow) -> None:
        self._inbox.put(command_entry(command))

    def record_snapshot(self, info: SnapshotInfo, host: str, name: str) -> None:
        """Takes a snapshot of a host; `name` is the same for all hosts of one snapshot."""
        self._inbox.put(snapshot_entry(name, info, host))

    def record_load(self, info: LoadInfo, host: str) -> None:
        self._inbox.put(load_entry(info, host))

    # ---- asking ----------------------------------------------------------------------------------

    async def query(self, query: Query, limit: int) -> list[RecordRow]:
        """The last `limit` records of what `query` chooses, oldest first."""
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
        """`bins` pieces of equal length from `query.from_ns` to `query.to_ns`, by default all that is recorded."""
        return await asyncio.to_thread(timeline, self._lookup, query, bins)

    async def export(self, query: Query, form: ExportFormat) -> AsyncIterator[bytes]:
        """A Perfetto trace (JSON of the Trace Event Format) or CSV, in pieces."""
        made = {"perfetto": perfetto.export, "csv": table.export}[form]
        async for pieces in _in_thread(lambda: made(moments(self._lookup, query))):
            yield b"".join(pieces)

    async def replay(self, query: Query) -> AsyncIterator[Row]:
        """Records and events in the order of time, as fast as they are asked for; `player.Player` keeps time."""

        def rows() -> Iterator[Row]:
            for moment in moments(self._lookup, query, Kind.BATCH, Kind.EVENT, Kind.GAP):
                if moment.entry.kind is Kind.BATCH:
                    yield "record", record_row(moment)
                else:
                    yield "event", event_row(moment.entry)

        async for chunk in _in_thread(rows):
            for row in chunk:
                yield row

    def status(self) -> RecorderStatus:
        """What the recorder holds, as of the last flush."""
        totals = self._writer.totals
        return RecorderStatus(
            url=without_password(self._settings.url),
            bytes=totals.bytes,
            first_ns=totals.first_ns,
            last_ns=totals.last_ns,
            records=totals.records,
            left_out=self._inbox.total_left_out,
        )


async def _in_thread(make: Callable[[], Iterable[T]]) -> AsyncIterator[list[T]]:
    """What the iterable that `make` returns yields, in chunks, each made in a thread."""
    iterator = iter(await asyncio.to_thread(make))
    while chunk := await asyncio.to_thread(lambda: list(islice(iterator, _CHUNK))):
        yield chunk
