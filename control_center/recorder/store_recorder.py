"""`control_center.recording_port.Recorder` over SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio

from control_center.recorder.dialect import StoreError, connect
from control_center.recorder.entry import command_entry, event_entry, load_entry, snapshot_entry
from control_center.recorder.inbox import Batch, Inbox
from control_center.recorder.store_reader import StoreReader, status_of
from control_center.recorder.writer import Settings, Writer
from control_center.recording_port import CommandRow
from virtio_proto.control.api import EventPush, LoadInfo, RecordAccount, RecorderStatus, RecordsPush, SnapshotInfo


class StoreRecorder:
    """Takes entries from the event loop without waiting, writes them in one thread, reads in others (`StoreReader`)."""

    def __init__(self, settings: Settings) -> None:
        """:raise ValueError: the URL in `settings` does not name a store."""
        self._settings = settings
        self._reader = StoreReader(settings.url)
        self._inbox = Inbox(settings.queue_bytes, settings.now_ns)
        self._writer = Writer(settings, self._inbox, lambda: connect(settings.url))
        self._started = False
        self.query = self._reader.query
        self.commands = self._reader.commands
        self.snapshots = self._reader.snapshots
        self.timeline = self._reader.timeline
        self.export = self._reader.export
        self.replay = self._reader.replay

    async def start(self) -> None:
        """Opens the store.

        :raise OSError: the store cannot be opened, or another recorder writes it; the text says why.
        """
        await asyncio.to_thread(self._writer.start)
        self._started = True

    async def close(self) -> None:
        """Writes what is still queued and closes the store."""
        self._inbox.close()
        if self._started:
            await asyncio.to_thread(self._writer.join)
        self._reader.close()

    async def flush(self) -> None:
        """Returns when everything recorded before can be found.

        :raise OSError: the store cannot be written.
        """
        if not await asyncio.to_thread(self._inbox.flush, 30.0):
            failure, ended = self._writer.failure, self._writer.ended
            if ended is not None:
                raise StoreError(f"the recorder has ended: {ended.error}")
            lasts = failure is not None and failure.to_ns is None
            raise StoreError(failure.error if failure and lasts else "the recording was not written within 30 s")

    def record_batch(self, push: RecordsPush, host: str) -> None:
        """Records a batch. Its `dictionary` holds the texts that are new since the VM's last batch."""
        self._inbox.put(Batch(push, host, self._settings.now_ns()))

    def record_event(self, push: EventPush, host: str) -> None:
        self._inbox.put(event_entry(push, host, self._settings.now_ns()))

    def record_command(self, command: CommandRow) -> None:
        self._inbox.put(command_entry(command))

    def record_snapshot(self, info: SnapshotInfo, host: str, name: str) -> None:
        """Records a snapshot of a host; `name` is equal for all hosts of one snapshot."""
        self._inbox.put(snapshot_entry(name, info, host, self._settings.now_ns()))

    def record_load(self, info: LoadInfo, host: str) -> None:
        self._inbox.put(load_entry(info, host, self._settings.now_ns()))

    def accounts(self) -> list[RecordAccount]:
        """Accounts of all VMs' records since the start, by host and VM, as of the last flush. Does not wait."""
        return self._writer.accounts.rows()

    def status(self) -> RecorderStatus:
        """Size and time range of the store as of the last flush, what is not in it yet, and what went wrong. Does not wait."""
        failure, ended, backlog = self._writer.failure, self._writer.ended, self._inbox.backlog()
        return {
            **status_of(self._settings.url, self._writer.totals),
            "left_out": backlog.left_out,
            "queued_bytes": backlog.bytes,
            "queue_bytes": backlog.limit_bytes,
            "lag_ns": backlog.lag_ns,
            "free_bytes": self._writer.free_bytes,
            "failures": self._writer.failures,
            "failure": None
            if failure is None
            else {"error": failure.error, "from_ns": failure.from_ns, "to_ns": failure.to_ns},
            "ended": None if ended is None else {"error": ended.error, "at_ns": ended.at_ns},
        }
