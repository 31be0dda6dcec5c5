"""Writing thread of the recorder: one transaction per flush; keeps the store's age and size within bounds.

Nothing is lost silently. Items that the queue has no room for are counted and become a gap entry with the next flush; a
store that fails is tried again while the queue fills; a writer that was killed leaves the time of its last flush
behind, and the next writer records the gap since then.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from control_center.recorder import prune, schema
from control_center.recorder.account import Accounts
from control_center.recorder.dialect import Database, StoreError, free_bytes
from control_center.recorder.entry import OVERHEAD_BYTES, Entry, Kind, batch_entries, gap_entry
from control_center.recorder.inbox import Batch, Inbox, Missed, Taken
from control_center.recorder.texts import KnownTexts, Place
from virtio_proto.control.records import RecordError

log = logging.getLogger(__name__)

ALIVE_NS: Final = 5 * 10**9
"""Interval at which an idle writer notes in the store that it runs."""
_VM_LEFT: Final = "vm_left"
"""Event of a host by which a VM leaves."""
_RETRY_S: Final = 1.0
"""Pause before a failed write is tried again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Store and bounds of a recorder. All but the URL have defaults that suit a control centre."""

    url: str
    retention_s: float | None = None
    """Age at which entries are deleted; None: never."""
    size_bytes: int | None = None
    """Bound of all entries' estimated sizes, above which the oldest are deleted; None: unbounded."""
    flush_s: float = 0.5
    """Time within which queued items are in the store: how much a crash can cost."""
    queue_bytes: int = 64 << 20
    """Most bytes that wait for the writer; items beyond that are left out, counted, and noted as a gap."""
    prune_s: float = 10.0
    """Interval between two checks of age and size."""
    now_ns: Callable[[], int] = time.time_ns
    """Clock for entries' times of arrival and for ages."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Time in which the store could not be written."""

    error: str
    from_ns: int
    to_ns: int | None = None
    """When it was written again; None: it still cannot be."""


@dataclass(frozen=True, slots=True)
class End:
    """End of the writing thread by an error that nobody expected."""

    error: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class _Text:
    entry_index: int
    """Index of the entry that the text came with."""
    place: Place
    address: int
    text: str


class Writer:
    """Owns the store's only writing connection, and the thread that uses it."""

    def __init__(self, settings: Settings, inbox: Inbox, connect: Callable[[], Database]) -> None:
        """`connect` opens a connection that may write; it is called again after a failure."""
        self._settings = settings
        self._inbox = inbox
        self._connect = connect
        self._database: Database | None = None
        self._known = KnownTexts()
        self._texts_left_out = 0
        self.accounts = Accounts(settings.now_ns())
        self._next_id = 1
        self._pruned_ns = 0
        self._alive_ns = 0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self.totals = schema.Totals()
        """Sums over the store, as of the last flush."""
        self._is_pruned = True
        """False if the last attempt to delete entries failed."""
        self.failures = 0
        """Times at which the store could not be written any more."""
        self.failure: Failure | None = None
        """The last of them; None: there was none."""
        self.ended: End | None = None
        """None: the thread runs, or has ended in its time."""
        self.free_bytes: int | None = None
        """Free space on the store's disk as of the last flush; None: it is not on a disk of this machine."""

    def start(self) -> None:
        """Opens the store and starts the thread.

        :raise StoreError: the store cannot be opened, or another recorder writes it.
        """
        self._note_absence(self._open())
        self._thread.start()

    def join(self) -> None:
        """Waits for the end of the thread, which `Inbox.close` causes."""
        self._thread.join()

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._record()
        except BaseException as error:
            log.exception("recording: ends by an error that nobody expected")
            self.ended = End(f"{type(error).__name__}: {error}", self._settings.now_ns())
            self._inbox.give_up()
            self._drop_connection()

    def _record(self) -> None:
        """Writes until the inbox closes."""
        while True:
            taken = self._inbox.take(self._settings.flush_s)
            entries, texts = self._prepare(taken)
            stored = self._try(entries, texts)
            while not stored:
                closing = self._inbox.wait_closing(_RETRY_S)
                stored = self._try(entries, texts)
                if closing:
                    break
            if stored:
                self.accounts.commit()
                self._prune()
                self.free_bytes = free_bytes(self._settings.url)
                self._inbox.written(taken)
            else:
                log.error("recording: ends without %d batches, events and commands, which are lost", len(taken.items))
            if taken.closing and taken.last:
                break
        self._end()

    def _try(self, entries: list[Entry], texts: list[_Text]) -> bool:
        try:
            self._write(entries, texts)
        except StoreError as error:
            self._fail(error)
            return False
        except Exception:  # an entry that cannot be written must not end the recording
            log.exception("recording: %d entries cannot be written", len(entries))
            self._drop_connection()
            self.accounts.spoil()
            now = self._settings.now_ns()
            return self._try([gap_entry("unwritable", now, now, {"entries": len(entries)})], []) if entries else False
        if self._is_pruned:
            self._recover()
        return True

    def _fail(self, error: StoreError) -> None:
        self._drop_connection()
        self.free_bytes = free_bytes(self._settings.url)
        failure = self.failure
        if failure is not None and failure.to_ns is None:
            self.failure = replace(failure, error=str(error))
            return
        log.error("recording: %s; will be tried again", error)
        self.failures += 1
        self.failure = Failure(str(error), self._settings.now_ns())

    def _recover(self) -> None:
        failure = self.failure
        if failure is not None and failure.to_ns is None:
            self.failure = replace(failure, to_ns=self._settings.now_ns())
            log.warning("recording: goes on after: %s", failure.error)

    def _prepare(self, taken: Taken) -> tuple[list[Entry], list[_Text]]:
        entries: list[Entry] = []
        texts: list[_Text] = []
        missed = 0
        for item in taken.items:
            if isinstance(item, Missed):
                for batch in item.latest.values():
                    made, before = self._entries_of(batch)
                    entries += made
                    missed += before
                continue
            if not isinstance(item, Batch):
                entries.append(item)
                self._follow(item)
                continue
            place = (item.host, item.push["vm"])
            learned = self._known.learn(place, item.push["dictionary"])
            new = [_Text(len(entries), place, address, text) for address, text in learned]
            made, before = self._entries_of(item)
            missed += before
            if new and made:
                made[0] = replace(made[0], texts_bytes=sum(len(one.text) + OVERHEAD_BYTES for one in new))
            texts += new
            entries += made
        gap = taken.left_out
        if gap.counts:
            counts = {**gap.counts, "records": missed} if missed else gap.counts
            entries.append(gap_entry("overload", gap.from_ns, gap.to_ns, counts))
        elif missed:
            now = self._settings.now_ns()
            entries.append(gap_entry("missed", now, now, {"records": missed}))
        if (left_out := self._known.left_out - self._texts_left_out) > 0:
            self._texts_left_out += left_out
            now = self._settings.now_ns()
            entries.append(gap_entry("texts", now, now, {"texts": left_out}))
        return entries, texts

    def _follow(self, item: Entry) -> None:
        """Forgets a VM that has left."""
        if item.kind == Kind.EVENT and item.name == _VM_LEFT and item.vm:
            self._known.left((item.host, item.vm))
            self.accounts.left(item.host, item.vm, item.time_ns)

    def _entries_of(self, item: Batch) -> tuple[list[Entry], int]:
        """Entries of a batch, and the number of records before it that never came."""
        push = item.push
        try:
            made = list(batch_entries(push, item.host, item.arrived_ns, 0))
        except RecordError as error:
            self.accounts.take(item.host, push, 0)
            gap = gap_entry(f"malformed batch: {error}", item.arrived_ns, item.arrived_ns, {"batches": 1})
            return [gap], 0
        new = self.accounts.take(item.host, push, sum(entry.count for entry in made))
        if new.lost:
            made = made or list(batch_entries(push, item.host, item.arrived_ns, new.lost))
            made[0] = replace(made[0], lost_new=new.lost)
        return made, new.left_out

    # ---- the store -------------------------------------------------------------------------------

    def _open(self) -> Database:
        if self._database is None:
            database = self._connect()
            try:
                database.lock()
                schema.create(database)
                self.totals = schema.totals(database)
                self._next_id = schema.last_id(database) + 1
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _drop_connection(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(StoreError):
                database.close()

    def _note_absence(self, database: Database) -> None:
        """Records the gap between the last writer's end and now."""
        now = self._settings.now_ns()
        alive, closed = (schema.fact(database, name, 0) for name in ("alive_ns", "closed_ns"))
        with database.transaction():
            if alive:
                reason, since = ("closed", closed) if closed >= alive else ("crashed", alive)
                self._insert(database, [gap_entry(reason, since, now, {})], [])
            schema.set_fact(database, "alive_ns", now)
            schema.set_fact(database, "closed_ns", 0)

    def _write(self, entries: list[Entry], texts: list[_Text]) -> None:
        now = self._settings.now_ns()
        if entries or not 0 <= now - self._alive_ns < ALIVE_NS:
            database = self._open()
            with database.transaction():
                self._insert(database, entries, texts)
                schema.set_fact(database, "alive_ns", now)
            self._alive_ns = now

    def _prune(self) -> None:
        """Keeps age and size within bounds. A failure must not have entries written again that are in the store."""
        now, limit = self._settings.now_ns(), self._settings.size_bytes
        is_due = not 0 <= now - self._pruned_ns < self._settings.prune_s * 1e9  # negative after the clock was set back
        if self._is_pruned and not is_due and (limit is None or self.totals.bytes <= limit):
            return
        self._pruned_ns = now
        try:
            self.totals, forgotten = prune.prune(
                self._open(), self.totals, now, retention_s=self._settings.retention_s, size_bytes=limit
            )
        except StoreError as error:
            self._is_pruned = False
            self._fail(error)
        except Exception:  # entries that cannot be deleted must not end the recording
            log.exception("recording: old entries cannot be deleted")
            self._drop_connection()
        else:
            self._is_pruned = True
            self._recover()
            self._known.forgotten(forgotten)

    def _insert(self, database: Database, entries: list[Entry], texts: list[_Text]) -> None:
        if texts:
            rows = [(self._next_id + t.entry_index, *t.place, schema.signed(t.address), encode(t.text)) for t in texts]
            database.insert("texts", schema.TEXT_COLUMNS, rows)
        if entries:
            numbered = enumerate(entries, self._next_id)
            database.insert("entries", schema.ENTRY_COLUMNS, [schema.entry_values(n, entry) for n, entry in numbered])
            self.totals = self.totals.with_entries(entries)
            schema.set_totals(database, self.totals)
            self._next_id += len(entries)

    def _end(self) -> None:
        if self._database is not None:
            with contextlib.suppress(StoreError):
                schema.set_fact(self._database, "closed_ns", self._settings.now_ns())
        self._drop_connection()


def encode(text: str) -> bytes:
    return text.encode(errors="replace")
