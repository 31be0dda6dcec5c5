"""Bounded queue in front of the writer. `Inbox.put` never waits; what does not fit is counted for a gap entry."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from control_center.recorder.entry import Entry, Kind
from virtio_proto.control.api import RecordsPush

FLUSH_ITEMS: Final = 4096
"""Most items that are written in one transaction."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of records as it came from a daemon, not yet checked."""

    push: RecordsPush
    host: str
    arrived_ns: int

    @property
    def size(self) -> int:
        texts = self.push["dictionary"]
        return len(self.push["data"]) + 512 + 64 * len(texts) + sum(map(len, texts.values()))


@dataclass(frozen=True, slots=True)
class Missed:
    """Batches in a row that did not fit: of each channel, the latest without its records, for its counters."""

    latest: dict[tuple[str, str, int, int], Batch] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        push = batch.push
        bare: RecordsPush = {**push, "data": b"", "dictionary": {}}
        self.latest[batch.host, push["vm"], push["instance"], push["channel"]] = replace(batch, push=bare)

    @property
    def size(self) -> int:
        """Nothing, as it always fits: it has no more than the channels' counters."""
        return 0


Item: TypeAlias = Batch | Missed | Entry
_COUNTED: Final = {Kind.BATCH: "batches", Kind.EVENT: "events", Kind.COMMAND: "commands"}


@dataclass(slots=True)
class LeftOut:
    """Counts of items that did not fit since the last flush."""

    from_ns: int = 0
    to_ns: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, item: Batch | Entry, now_ns: int) -> None:
        if not self.counts:
            self.from_ns = now_ns
        self.to_ns = now_ns
        name = _COUNTED.get(Kind.BATCH if isinstance(item, Batch) else item.kind, "others")
        self.counts[name] = self.counts.get(name, 0) + 1
        if isinstance(item, Batch):
            self.counts["bytes"] = self.counts.get("bytes", 0) + len(item.push["data"])


@dataclass(frozen=True, slots=True)
class Taken:
    """Items that the writer is to write now."""

    items: list[Item]
    left_out: LeftOut
    closing: bool
    """True after `Inbox.close`: nothing more will be put."""
    flush: int
    """Number of the latest `Inbox.flush`: if `last`, all items put before that call are in `items` or taken earlier."""
    last: bool
    """True if the queue is empty now."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Items between those that put them and the store."""

    bytes: int
    """Size of the items that wait, and of those that are being written."""
    limit_bytes: int
    """Most bytes that may wait."""
    lag_ns: int
    """Age of the oldest of them; 0: everything is in the store."""
    left_out: int
    """Items that did not fit, since the start."""


class Inbox:
    """Queue between the threads that put items and the writer's thread, which takes them."""

    def __init__(self, limit_bytes: int, now_ns: Callable[[], int]) -> None:
        self._limit_bytes = limit_bytes
        self._now_ns = now_ns
        self._changed = threading.Condition()
        self._queue: deque[Item] = deque()
        self._bytes = 0
        self._left_out = LeftOut()
        self._closing = False
        self._has_given_up = False
        self._wanted = 0
        self._flushed = 0
        self._came: deque[int] = deque()
        """Times at which the queued items came."""
        self._taken_ns: int | None = None
        """When the oldest item came that the writer has taken and not written; None: it has written all."""
        self._taken_bytes = 0
        self._taken_items = 0
        self.total_left_out = 0

    def put(self, item: Batch | Entry) -> None:
        """Queues an item, or counts it as left out."""
        with self._changed:
            if self._closing or self._bytes + item.size > self._limit_bytes:
                self._left_out.add(item, self._now_ns())
                self.total_left_out += 1
                if isinstance(item, Batch) and not self._closing:
                    self._miss(item)
                return
            self._append(item)

    def _miss(self, batch: Batch) -> None:
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, Missed):
            last = Missed()
            self._append(last)
        last.add(batch)

    def _append(self, item: Item) -> None:
        self._queue.append(item)
        self._came.append(self._now_ns())
        self._bytes += item.size
        if len(self._queue) == FLUSH_ITEMS:
            self._changed.notify_all()

    def backlog(self) -> Backlog:
        """Items that are not in the store yet."""
        with self._changed:
            oldest_ns = self._came[0] if self._taken_ns is None and self._came else self._taken_ns
            lag_ns = 0 if oldest_ns is None else max(0, self._now_ns() - oldest_ns)
            return Backlog(self._bytes + self._taken_bytes, self._limit_bytes, lag_ns, self.total_left_out)

    def close(self) -> None:
        """Closes the queue: later items are left out, and `take` gives out the rest at once."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def give_up(self) -> None:
        """Closes the queue as nobody writes anything any more: all that is not written is left out; callers of `flush` go on."""
        with self._changed:
            self._closing = self._has_given_up = True
            self.total_left_out += self._taken_items + sum(not isinstance(item, Missed) for item in self._queue)
            self._queue.clear()
            self._came.clear()
            self._bytes = self._taken_bytes = self._taken_items = 0
            self._taken_ns = None
            self._changed.notify_all()

    def take(self, pause_s: float) -> Taken:
        """Takes queued items: after `pause_s`, or at once when `flush` waits, `close` was called or the queue is long."""

        def due() -> bool:
            return self._closing or self._wanted > self._flushed or len(self._queue) >= FLUSH_ITEMS

        with self._changed:
            self._changed.wait_for(due, pause_s)
            items = [self._queue.popleft() for _ in range(min(len(self._queue), FLUSH_ITEMS))]
            if items and self._taken_ns is None:
                self._taken_ns = self._came[0]
            for item in items:
                self._came.popleft()
                self._bytes -= item.size
                self._taken_bytes += item.size
                self._taken_items += not isinstance(item, Missed)
            left_out, self._left_out = self._left_out, LeftOut()
            return Taken(items, left_out, self._closing, self._wanted, last=not self._queue)

    def wait_closing(self, pause_s: float) -> bool:
        """Waits until the inbox closes, for at most `pause_s`; True if it has closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, pause_s)

    def written(self, taken: Taken) -> None:
        """Notes that the taken items are in the store, and wakes the callers of `flush`."""
        with self._changed:
            self._taken_ns, self._taken_bytes, self._taken_items = None, 0, 0
            if taken.last:
                self._flushed = max(self._flushed, taken.flush)
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Waits until all items put before are in the store; False if they are not within `timeout_s`, or will never be."""
        with self._changed:
            self._wanted += 1
            wanted = self._wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._flushed >= wanted or self._has_given_up, timeout_s)
            return self._flushed >= wanted
