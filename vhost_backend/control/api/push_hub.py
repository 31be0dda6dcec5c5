"""Push hub of the control API: delivers records of instances and events of the host to subscribed connections.

The hub never waits: a push that a subscriber does not take in time is dropped, and the next push tells the subscriber
how many were dropped. Records of an instance without subscribers are kept for the first subscriber, within a bound on
all instances together; dropped ones are counted in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from vhost_backend.log import Logger
from virtio_proto.control.frames import Frame

MAX_KEPT_BYTES: Final = 32 << 20
"""Bound on the records of all instances that wait for a first subscriber."""

MAX_KEPT_OF_ONE_BYTES: Final = 1 << 20
"""Bound on the records of one instance that wait for a first subscriber."""

MAX_TEXTS: Final = 1 << 14
MAX_TEXTS_CHARS: Final = 1 << 20
"""Bound on one worker's formats and names together: they are pushed with its records, and must fit a push."""

MAX_TEXT_CHARS: Final = 1024


class Lexicon:
    """Formats and names of one worker, by device address: the latest, within `MAX_TEXTS` and `MAX_TEXTS_CHARS`."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Texts by device address, in order of arrival."""
        self._chars = 0
        self._came = 0

    def add(self, texts: Mapping[int, str]) -> None:
        """Adds texts; a new text at a known address, from another program, replaces the old one."""
        for address, whole in texts.items():
            text = whole[:MAX_TEXT_CHARS]
            if self.names.get(address) != text:
                self._drop(address)
                self.names[address] = text
                self._chars += len(text)
                self._came += 1
        while len(self.names) > MAX_TEXTS or self._chars > MAX_TEXTS_CHARS:
            self._drop(next(iter(self.names)))

    def _drop(self, address: int) -> None:
        self._chars -= len(self.names.pop(address, ""))

    def since(self, count: int) -> dict[str, str]:
        """Texts that came after the first `count` and are still kept, by address in hexadecimal."""
        last = itertools.islice(reversed(self.names.items()), max(0, self._came - count))
        return {f"{address:x}": text for address, text in last}

    def __len__(self) -> int:
        """Number of texts that ever came."""
        return self._came


@dataclass(slots=True)
class RecordsOf:
    """Batch of records on its way to subscribers; `lexicon` has the texts at its addresses."""

    instance: int
    frame: Frame
    lexicon: Lexicon

    @property
    def size_bytes(self) -> int:
        return len(self.frame["data"]) + 256


class Subscriber(Protocol):
    """Connection of a client, as the hub uses it."""

    def push(self, frame: Frame) -> bool:
        """Hands over a frame; False if the frame was dropped because the peer reads too slowly."""
        ...

    def sees(self, vm: str | None) -> bool:
        """True if the peer may know of this VM, or, for None, of events that concern the whole host."""
        ...


@dataclass(slots=True, eq=False)
class _Subscription:
    subscriber: Subscriber
    instances: set[int] = field(default_factory=set)
    events: bool = False
    dropped: int = 0
    known: WeakKeyDictionary[Lexicon, dict[int, int]] = field(default_factory=WeakKeyDictionary)
    """Number of each lexicon's texts that the peer has, by instance: the pushes of one instance are enough to decode it."""


@dataclass(slots=True)
class _Kept:
    """Records of an instance that has no subscriber yet."""

    batches: list[RecordsOf] = field(default_factory=list)
    size_bytes: int = 0
    dropped: int = 0


class PushHub:
    """Delivers pushes to subscribed connections, on the event loop's thread."""

    def __init__(self, log: Logger, clock_ns: Callable[[], int]) -> None:
        self._log = log
        self._clock_ns = clock_ns
        self._subscriptions: dict[Subscriber, _Subscription] = {}
        self._kept: dict[int, _Kept] = {}
        self._kept_bytes = 0
        self.dropped = 0
        """Number of pushes dropped since the daemon started."""

    # ---- subscribing -----------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber, instances: set[int], *, events: bool | None) -> None:
        """Adds instances, and events if `events` is True, to a subscription; `events` None changes nothing there."""
        subscription = self._subscriptions.setdefault(subscriber, _Subscription(subscriber))
        subscription.instances |= instances
        if events is not None:
            subscription.events = events
        for instance in instances:
            kept = self._take_kept(instance)
            subscription.dropped += kept.dropped
            for records in kept.batches:
                self._deliver(subscription, records)

    def unsubscribe(self, subscriber: Subscriber, instances: set[int] | None = None, *, events: bool = False) -> None:
        """Removes instances, and events if `events`, from a subscription; `instances` None ends the subscription."""
        subscription = self._subscriptions.get(subscriber)
        if subscription is None:
            return
        if instances is None:
            del self._subscriptions[subscriber]
            return
        subscription.instances -= instances
        subscription.events &= not events

    def forget(self, instance: int) -> None:
        """Drops kept records and subscriptions of a closed instance."""
        self._take_kept(instance)
        for subscription in self._subscriptions.values():
            subscription.instances.discard(instance)

    # ---- pushing ---------------------------------------------------------------------------------

    def records(self, records: RecordsOf) -> None:
        """Pushes a batch to the subscribers of its instance, or keeps it for the first one."""
        taken = False
        for subscription in self._subscriptions.values():
            if records.instance in subscription.instances:
                taken = True
                self._deliver(subscription, records)
        if not taken:
            self._keep(records)

    def _keep(self, records: RecordsOf) -> None:
        kept = self._kept.setdefault(records.instance, _Kept())
        size = records.size_bytes
        if kept.size_bytes + size > MAX_KEPT_OF_ONE_BYTES or self._kept_bytes + size > MAX_KEPT_BYTES:
            kept.dropped += 1
            self.dropped += 1
            return
        kept.batches.append(records)
        kept.size_bytes += size
        self._kept_bytes += size

    def _take_kept(self, instance: int) -> _Kept:
        kept = self._kept.pop(instance, None) or _Kept()
        self._kept_bytes -= kept.size_bytes
        return kept

    def _deliver(self, to: _Subscription, records: RecordsOf) -> None:
        known = to.known.setdefault(records.lexicon, {})
        texts = records.lexicon.since(known.get(records.instance, 0))
        frame = {**records.frame, "dictionary": texts, "dropped": to.dropped}
        if to.subscriber.push(frame):
            known[records.instance], to.dropped = len(records.lexicon), 0
        else:
            to.dropped += 1
            self.dropped += 1

    def event(self, event: str, vm: str | None, /, **detail: Any) -> None:
        """Pushes an event of a VM, or for None of the whole host, to the peers that follow events and may see the VM."""
        frame = {"push": "event", "time_ns": self._clock_ns(), "event": event, "vm": vm, "detail": detail}
        concerned = [item for item in self._subscriptions.values() if item.events and item.subscriber.sees(vm)]
        for subscription in concerned:
            if not subscription.subscriber.push(frame):
                subscription.dropped += 1
                self.dropped += 1
        self._log.debug("control_event", event_name=event, of_vm=vm, detail=detail)
