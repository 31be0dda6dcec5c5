"""Stream of records, events and load to clients, as JSON texts over a WebSocket.

The hub waits for no client. Each client has a bounded queue; messages that do not fit are dropped and counted, and the
client is told how many it missed (``{"type": "dropped", "count": n}``). A record is decoded once and encoded once for all
clients, and not at all if no client wants it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from control_center.cluster import Cluster, Listener
from control_center.encoding import dumps, load_json
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.hosts_view import host_info
from control_center.messages import DroppedMessage, EventMessage, HostMessage, RecordMessage
from control_center.recording_port import EventRow, RecordRow
from control_center.rows import Lexicon, rows
from control_center.scope import Scope
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.selector import Selector
from virtio_proto.control.shapes import ShapeError, check_plain, checked

MAX_QUEUED_BYTES: Final = 4 << 20
"""Bound of one client's queue."""
MAX_LEXICONS: Final = 4096
"""Most VMs, of all hosts, whose texts are kept."""
MAX_INSTANCES: Final = 4096
"""Most instances that one client may subscribe to."""


class Subscribe(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes to a stream's subscriptions; fields that are left out change nothing."""

    instances: list[str] | None = None
    """Instances as ``host/number``. If never given, a stream with a selector has the records of all matching instances."""
    load: bool | None = None
    events: bool | None = None


class Outbox:
    """Bounded queue of one client's messages."""

    def __init__(self, limit_bytes: int = MAX_QUEUED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._texts: deque[str] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        self.dropped = 0
        """Number of messages dropped since the client was last told."""
        self.dropped_in_all = 0

    def put(self, text: str) -> None:
        if self._bytes + len(text) > self._limit_bytes:
            self.dropped += 1
            self.dropped_in_all += 1
            return
        self._texts.append(text)
        self._bytes += len(text)
        self._ready.set()

    async def get(self) -> str:
        """Waits for the oldest text; if messages were dropped, first gives a text that says how many."""
        while not self._texts:
            self._ready.clear()
            await self._ready.wait()
        if self.dropped:
            count, self.dropped = self.dropped, 0
            message: DroppedMessage = {"type": "dropped", "count": count}
            return json.dumps(message)
        text = self._texts.popleft()
        self._bytes -= len(text)
        return text


@dataclass(eq=False, slots=True)
class Client:
    """Client of an open stream, with its subscriptions."""

    scope: Scope
    selector: Selector | None = None
    """Selector of the stream's query; None: not given."""
    events: bool = False
    load: bool = False
    instances: frozenset[tuple[str, int]] | None = None
    """Instances that the client has subscribed to; None: never, so those that `selector` matches."""
    outbox: Outbox = field(default_factory=Outbox)
    is_let_in: Callable[[], bool] = field(default=lambda: True)
    """Checks the client's token again: tokens expire and are revoked."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client's token is no longer valid."""

    def hears(self, host: str, instance: int, known: Selector | None) -> bool:
        """True if the client may want records of an instance; `known` is the instance's selector."""
        if self.instances is not None:
            return (host, instance) in self.instances
        if self.selector is None or not self.selector.matches_host(host):
            return False
        return known is None or self.selector.fn is None or bool(set(self.selector.fn) & set(known.fn or ()))

    def named(self, host: str) -> set[int]:
        """Instances of the host that the client has subscribed to."""
        return {number for name, number in self.instances or () if name == host}

    def sees(self, host: str, gpu: Iterable[str], vm: str, pe: int) -> bool:
        """True if the client's scope and selector include a PE."""
        if not self.scope.sees(host, vm):
            return False
        chosen = self.selector
        return chosen is None or (
            chosen.matches_host(host) and chosen.matches_gpu(*gpu) and chosen.matches_vm(vm) and chosen.matches_pe(pe)
        )

    def wants_event(self, host: str, vm: str | None) -> bool:
        if not self.events or not self.scope.sees(host, vm):
            return False
        chosen = self.selector
        return chosen is None or (chosen.matches_host(host) and (vm is None or chosen.matches_vm(vm)))


class StreamHub(Listener):
    """All open streams: passes on what the cluster reports."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clients: set[Client] = set()
        self._lexicons: dict[tuple[str, str], Lexicon] = {}
        self._dropped_of_gone = 0
        self._dropped_known = 0
        self.dropped_ns: int | None = None
        """When a message was dropped last, within a second; None: none was."""
        cluster.listeners.append(self)

    def __len__(self) -> int:
        return len(self._clients)

    def lexicon(self, host: str, vm: str) -> Lexicon:
        """Texts of a VM's records. Above `MAX_LEXICONS`, the VM whose records came longest ago loses its texts."""
        found = self._lexicons.pop((host, vm), None) or Lexicon()
        self._lexicons[host, vm] = found
        if len(self._lexicons) > MAX_LEXICONS:
            del self._lexicons[next(iter(self._lexicons))]
        return found

    # ---- clients ---------------------------------------------------------------------------------

    def add(self, client: Client) -> None:
        self._clients.add(client)
        self._listen()

    @property
    def dropped(self) -> int:
        """Messages dropped since the start, as clients read too slowly."""
        return self._dropped_of_gone + sum(client.outbox.dropped_in_all for client in self._clients)

    def remove(self, client: Client) -> None:
        if client in self._clients:
            self._dropped_of_gone += client.outbox.dropped_in_all
        self._clients.discard(client)
        self._listen()

    def subscribe(self, client: Client, message: object) -> None:
        """Applies a client's message.

        :raise RefusedError: "malformed" or "unknown"; nothing has changed then.
        """
        try:
            check_plain(message, "message", strict=True)
            wanted = checked(message, _Message, "message").subscribe
        except ShapeError as error:
            raise RefusedError("malformed", str(error)) from None
        if wanted.instances is not None:
            client.instances = self._instances(client, wanted.instances)
        client.load = client.load if wanted.load is None else wanted.load
        client.events = client.events if wanted.events is None else wanted.events
        self._listen()
        if client.load:
            self._send_load([client])

    def _instances(self, client: Client, names: list[str]) -> frozenset[tuple[str, int]]:
        if len(names) > MAX_INSTANCES:
            raise RefusedError("quota", f"{len(names)} instances; allowed: {MAX_INSTANCES} in one stream")
        found = set()
        for name in names:
            host, slash, number = name.rpartition("/")
            if not slash or not number.isdecimal() or len(number) > 18:
                raise RefusedError("malformed", f"instance {name!r:.80}; allowed: host/number")
            found.add((self._cluster.host(client.scope, host).name, int(number)))
        return frozenset(found)

    def _listen(self) -> None:
        for host in self._cluster.hosts.values():
            host.listen()

    def wanted(self, host: Host) -> set[int]:
        return {
            number
            for client in self._clients
            for number in (
                client.named(host.name)
                if client.instances is not None
                else (one for one, known in host.instances.items() if client.hears(host.name, one, known))
            )
        }

    # ---- from the cluster ------------------------------------------------------------------------

    def records(self, host: Host, push: RecordsPush) -> None:
        lexicon = self.lexicon(host.name, push["vm"])
        lexicon.learn(push["dictionary"])
        known = host.instances.get(push["instance"])
        gpu = host.names_of_gpu(push["gpu"])
        clients = [
            client
            for client in self._clients
            if client.hears(host.name, push["instance"], known) and client.sees(host.name, gpu, push["vm"], push["pe"])
        ]
        if not clients:
            return
        for row in rows(host.name, push, lexicon):
            text = _record_text(row, push)
            for client in clients:
                if client.selector is None or client.selector.matches_fn(row["fn"]):
                    client.outbox.put(text)

    def event(self, host: Host, push: EventPush) -> None:
        text = None
        for client in self._clients:
            if client.wants_event(host.name, push["vm"]):
                text = text or _event_text(event_row(host.name, push))
                client.outbox.put(text)

    def host_changed(self, host: Host) -> None:
        for client in self._clients:
            if client.events and host in self._cluster.visible(client.scope):
                message: HostMessage = {"type": "host", **host_info(host, client.scope)}
                client.outbox.put(dumps(message))

    def tick(self) -> None:
        """Ends streams whose tokens are not valid any more, and sends the latest load; called once a second."""
        if (dropped := self.dropped) != self._dropped_known:
            self._dropped_known, self.dropped_ns = dropped, self._cluster.clocks.real_ns()
        for client in self._clients:
            if not client.is_let_in():
                client.ended.set()
        self._send_load([client for client in self._clients if client.load and not client.ended.is_set()])

    def _send_load(self, clients: list[Client]) -> None:
        texts: dict[tuple[Scope, Selector | None], str] = {}
        for client in clients:
            key = (client.scope, client.selector)
            if key not in texts:
                hosts = self._cluster.visible(client.scope)
                time_ns = self._cluster.clocks.real_ns()
                texts[key] = '{"type":"load",' + load_json(hosts, time_ns, *key)[1:]
            client.outbox.put(texts[key])


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    subscribe: Subscribe


def event_row(host: str, push: EventPush) -> EventRow:
    return {
        "time_ns": push["time_ns"],
        "host": host,
        "event": push["event"],
        "vm": push["vm"],
        "detail": push["detail"],
    }


def _event_text(row: EventRow) -> str:
    message: EventMessage = {"type": "event", **row}
    return dumps(message)


def _record_text(row: RecordRow, push: RecordsPush) -> str:
    message: RecordMessage = {"type": "record", "instance": f"{row['host']}/{push['instance']}", **row}
    return dumps(message)
