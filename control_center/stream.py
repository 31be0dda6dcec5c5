"""The stream: what happens, to every client that wants it, as JSON texts over a WebSocket.

Nobody is waited for. Each client has a bounded queue; what finds no room in it is dropped, counted, and the client is
told how much it missed (``{"type": "dropped", "count": n}``). A record is decoded once and encoded once, however many
clients want it, and not at all if none does.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, TypedDict

from control_center.cluster import Cluster, Listener
from control_center.encoding import dumps, load_json
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.hosts_view import host_info
from control_center.recording_port import EventRow, RecordRow
from control_center.rows import Lexicon, rows
from control_center.scope import Scope
from control_center.shapes import ShapeError, check
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.selector import Selector

MAX_QUEUED_BYTES: Final = 4 << 20
"""Per client."""
MAX_LEXICONS: Final = 4096
"""VMs whose texts are known, of all hosts."""
MAX_INSTANCES: Final = 4096
"""That one client may listen to."""


class Subscribe(TypedDict):
    """What a client wants from now on; what is left out stays as it is."""

    instances: NotRequired[list[str]]
    """Each ``host/number``. Without it, a stream with a selector has the records of all instances that match."""
    load: NotRequired[bool]
    events: NotRequired[bool]


class Outbox:
    """The bounded queue of one client."""

    def __init__(self, limit_bytes: int = MAX_QUEUED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._texts: deque[str] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        self.dropped = 0
        """Not told yet."""
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
        """The oldest text; before it, if there is one, what was missed."""
        while not self._texts:
            self._ready.clear()
            await self._ready.wait()
        if self.dropped:
            count, self.dropped = self.dropped, 0
            return json.dumps({"type": "dropped", "count": count})
        text = self._texts.popleft()
        self._bytes -= len(text)
        return text


@dataclass(eq=False, slots=True)
class Client:
    """One open stream."""

    scope: Scope
    selector: Selector | None = None
    """None: none was given."""
    events: bool = False
    load: bool = False
    instances: frozenset[tuple[str, int]] | None = None
    """None: never said; then those that `selector` matches."""
    outbox: Outbox = field(default_factory=Outbox)
    is_let_in: Callable[[], bool] = field(default=lambda: True)
    """Whether who opened it would be let in now, too: tokens end, and are taken away."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is not."""

    def hears(self, host: str, instance: int, known: Selector | None) -> bool:
        """Whether the records of an instance may be for it; `known` is the instance's selector."""
        if self.instances is not None:
            return (host, instance) in self.instances
        if self.selector is None or not self.selector.matches_host(host):
            return False
        return known is None or self.selector.fn is None or bool(set(self.selector.fn) & set(known.fn or ()))

    def named(self, host: str) -> set[int]:
        """The host's instances that it has named."""
        return {number for name, number in self.instances or () if name == host}

    def sees(self, host: str, gpu: Iterable[str], vm: str, pe: int) -> bool:
        """Whether what is of an element is for it."""
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
    """All clients."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clients: set[Client] = set()
        self._lexicons: dict[tuple[str, str], Lexicon] = {}
        cluster.listeners.append(self)

    def __len__(self) -> int:
        return len(self._clients)

    def lexicon(self, host: str, vm: str) -> Lexicon:
        """What the texts of a VM's records mean; the texts of the VM that was quiet for longest go first."""
        found = self._lexicons.pop((host, vm), None) or Lexicon()
        self._lexicons[host, vm] = found
        if len(self._lexicons) > MAX_LEXICONS:
            del self._lexicons[next(iter(self._lexicons))]
        return found

    # ---- clients ---------------------------------------------------------------------------------

    def add(self, client: Client) -> None:
        self._clients.add(client)
        self._listen()

    def remove(self, client: Client) -> None:
        self._clients.discard(client)
        self._listen()

    def subscribe(self, client: Client, message: object) -> None:
        """Does what a client's message says.

        :raise RefusedError: "malformed" or "unknown"; then nothing has changed.
        """
        try:
            check(message, _Message, "message", strict=True)
        except ShapeError as error:
            raise RefusedError("malformed", str(error)) from None
        assert isinstance(message, dict)
        wanted: Subscribe = message["subscribe"]
        if "instances" in wanted:
            client.instances = self._instances(client, wanted["instances"])
        client.load = wanted.get("load", client.load)
        client.events = wanted.get("events", client.events)
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

    # ---- what happens ----------------------------------------------------------------------------

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
                text = text or dumps({"type": "event", **event_row(host.name, push)})
                client.outbox.put(text)

    def host_changed(self, host: Host) -> None:
        for client in self._clients:
            if client.events and host in self._cluster.visible(client.scope):
                client.outbox.put(dumps({"type": "host", **host_info(host, client.scope)}))

    def tick(self) -> None:
        """Ends streams whose tokens have ended, and sends the load as it is known now; called once a second."""
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


class _Message(TypedDict):
    subscribe: Subscribe


def event_row(host: str, push: EventPush) -> EventRow:
    return {
        "time_ns": push["time_ns"],
        "host": host,
        "event": push["event"],
        "vm": push["vm"],
        "detail": push["detail"],
    }


def _record_text(row: RecordRow, push: RecordsPush) -> str:
    message: dict[str, Any] = {"type": "record", "instance": f"{row['host']}/{push['instance']}", **row}
    return dumps(message)
