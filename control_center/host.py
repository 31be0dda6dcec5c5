"""Registered host: its link, its last known state, and subscriptions to the records of its instances."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from control_center.address import Address, Credentials
from control_center.answers import Push
from control_center.daemon_link import Connection, DaemonLink, skew_ns
from control_center.errors import RefusedError, UnreachableError
from virtio_proto.control.api import EventPush, GpuInfo, LoadInfo, RecordsPush, TopologyInfo, VmInfo
from virtio_proto.control.selector import MAX_PES, Selector, SelectorError, parse
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.channels import Ls
from virtio_proto.control.verbs.hosts import Load, Topology
from virtio_proto.control.verbs.session import Subscribe, Unsubscribe

State: TypeAlias = Literal["up", "stale", "down"]
TOPOLOGY_EVERY: Final = 5
"""Number of polls of the load per poll of the topology, which an event causes earlier."""
MAX_INSTANCES: Final = 16384
_OPENED: Final = "opened"
_ENDED: Final = ("closed", "expired")
_CHANGING: Final = (
    "worker_ready",
    "worker_lost",
    "migration",
    "firmware",
    "vm_added",
    "vm_left",
    "vm_connected",
    "vm_disconnected",
    "policy_acted",
)
"""Events after which the topology may have changed."""


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Daemon that the control centre serves."""

    name: str
    address: Address
    credentials: Credentials = field(default_factory=Credentials)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Sources of time; tests have their own."""

    real_ns: Callable[[], int] = time.time_ns
    monotonic_s: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Ages:
    """Times since a host's last answer after which its state is *stale* or *down*."""

    stale_s: float = 3.0
    down_s: float = 30.0


class Watcher(Protocol):
    """Receives what hosts send, from the event loop; must not wait."""

    def host_changed(self, host: Host) -> None:
        """Called when the host's state or topology has changed."""

    def records(self, host: Host, push: RecordsPush) -> None: ...

    def event(self, host: Host, push: EventPush) -> None: ...

    def wanted(self, host: Host) -> set[int]:
        """Instances of the host whose records are wanted."""


class Host:
    """Registered host, whether it answers or not. All methods run on the event loop.

    The states: *up*, the host has answered lately; *stale*, no answer for `Ages.stale_s`, so what is shown is old;
    *down*, no answer for `Ages.down_s`, or never one.
    """

    def __init__(self, config: HostConfig, watcher: Watcher, clocks: Clocks, ages: Ages) -> None:
        self.config = config
        self.state: State = "down"
        self.since_ns = clocks.real_ns()
        self.reason = "not connected yet"
        """Reason why the host is not up; "" if it is."""
        self.daemon = ""
        """The daemon's version."""
        self.gpus: list[GpuInfo] = []
        self.vms: dict[str, VmInfo] = {}
        self.told_ns: int | None = None
        """When the host told `gpus` and `vms`; None: it never has."""
        self.clock_skew_ns: int | None = None
        """Difference of the host's clock to the centre's, without what the time of the answer may account for; None: unknown."""
        self.load: LoadInfo | None = None
        self.load_text: str | None = None
        """`load` as JSON, made at the first use."""
        self.instances: dict[int, Selector] = {}
        """Open instances by number, as far as the host's events tell."""
        self._gpu_names: dict[str, tuple[str, ...]] = {}
        self._watcher = watcher
        self._clocks = clocks
        self._ages = ages
        self._answered_s: float | None = None
        self._polls = 0
        self._changed = True
        self._subscribed: set[int] = set()
        self._resubscribe = asyncio.Event()
        self._was_refused = False
        """True if a subscription was refused; it is tried again after the next poll."""
        self._connected = asyncio.Event()
        self._link = DaemonLink(
            config.address, config.credentials, on_push=self._push, on_up=self._up, on_down=self._down
        )

    @property
    def name(self) -> str:
        return self.config.name

    def names_of_gpu(self, gpu: str) -> tuple[str, ...]:
        """Names of a GPU: its number and its UUID."""
        return self._gpu_names.get(gpu, (gpu,))

    def names_of_gpu_of(self, vm: str) -> tuple[str, ...]:
        """Names of the GPU that a VM runs on; empty if the VM is unknown."""
        info = self.vms.get(vm)
        return () if info is None else self.names_of_gpu(info["gpu"])

    # ---- running ---------------------------------------------------------------------------------

    async def run(self, poll_s: float, offset_s: float = 0.0) -> None:
        """Keeps the link up and polls the host, until cancelled.

        `offset_s` delays the polls against those of other hosts: many at once would delay requests.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._link.run())
            tasks.create_task(self._keep_subscribed())
            await self._connected.wait()
            pause_s = offset_s or poll_s
            while True:
                await self.poll()
                await asyncio.sleep(pause_s)
                pause_s = poll_s

    async def ask(self, request: Request, timeout_s: float | None = None) -> Any:
        """Sends a verb's request; returns the daemon's answer, checked against the verb's `Answer`.

        :raise RefusedError: the daemon refused.
        :raise UnreachableError: the daemon does not answer, or its answer has a wrong shape.
        """
        try:
            return await self._link.ask(request, timeout_s)
        except UnreachableError as error:
            raise UnreachableError(f"{self.name}: {error.text}") from None
        except RefusedError as error:
            raise RefusedError(error.kind, f"{self.name}: {error.text}") from None

    async def poll(self) -> None:
        """Polls the load, and the topology when it may have changed."""
        try:
            if self._changed or self._polls % TOPOLOGY_EVERY == 0:
                await self._learn()
            self._polls += 1
            asked_ns = self._clocks.real_ns()
            self.load, self.load_text = _bounded(await self.ask(Load.Request())), None
            self.clock_skew_ns = skew_ns(self.load["time_ns"], asked_ns, self._clocks.real_ns())
            self._answered_s, self.reason = self._clocks.monotonic_s(), ""
            if self._was_refused:
                self._was_refused = False
                self._resubscribe.set()
        except RefusedError as error:
            self.reason = error.text
        self.look()

    async def _learn(self) -> None:
        self._changed = False
        try:
            topology: TopologyInfo = await self.ask(Topology.Request())
        except RefusedError:
            self._changed = True
            raise
        self.told_ns = self._clocks.real_ns()
        gpus, vms = topology["gpus"], {vm["vm"]: vm for vm in topology["vms"]}
        if (gpus, vms) != (self.gpus, self.vms):
            self.gpus, self.vms = gpus, vms
            self._gpu_names = {gpu["gpu"]: (gpu["gpu"], gpu["uuid"]) for gpu in gpus}
            self._watcher.host_changed(self)

    def look(self) -> None:
        """Updates `state` from the time since the last answer."""
        age_s = float("inf") if self._answered_s is None else self._clocks.monotonic_s() - self._answered_s
        state: State = "up" if age_s < self._ages.stale_s else "stale" if age_s < self._ages.down_s else "down"
        if state != self.state:
            self.state, self.since_ns = state, self._clocks.real_ns()
            self._watcher.host_changed(self)

    # ---- the link's callbacks --------------------------------------------------------------------

    async def _up(self, connection: Connection) -> None:
        hello = connection.hello
        self.daemon = hello["daemon"]
        self._changed = True
        self._subscribed.clear()
        await connection.ask(Subscribe.Request(events=True))
        listing = await connection.ask(Ls.Request(totals=True))
        self.instances.clear()
        for info in listing["instances"]:
            self.opened(info["instance"], info["selector"])
        self._resubscribe.set()
        self._connected.set()
        self.reason = ""

    def _down(self, reason: str) -> None:
        self.reason = reason
        self._subscribed.clear()

    def _push(self, push: Push) -> None:
        if push["push"] == "records":
            self._watcher.records(self, push)
        else:
            self._event(push)

    def _event(self, push: EventPush) -> None:
        detail, name = push["detail"], push["event"]
        number = detail.get("instance")
        if name == _OPENED and isinstance(number, int):
            self.opened(number, detail.get("selector"))
        elif name in _ENDED and isinstance(number, int):
            self._ended(number)
        self._changed = self._changed or name in _CHANGING
        self._watcher.event(self, push)

    def opened(self, number: int, selector: object) -> None:
        if isinstance(selector, str) and len(self.instances) < MAX_INSTANCES:
            with contextlib.suppress(SelectorError):
                self.instances[number] = parse(selector)
                self._resubscribe.set()

    def _ended(self, number: int) -> None:
        self.instances.pop(number, None)
        self._subscribed.discard(number)

    # ---- listening -------------------------------------------------------------------------------

    def listen(self) -> None:
        """Updates the subscriptions; to be called when `Watcher.wanted` may have changed."""
        self._resubscribe.set()

    async def _keep_subscribed(self) -> None:
        """Subscribes to the records of wanted instances, and unsubscribes from the others, until cancelled."""
        while True:
            await self._resubscribe.wait()
            self._resubscribe.clear()
            wanted = self._watcher.wanted(self)
            try:
                for number in sorted(wanted - self._subscribed):
                    await self._subscribe(number)
                if surplus := self._subscribed - wanted:
                    await self.ask(Unsubscribe.Request(records=sorted(surplus)))
                    self._subscribed -= surplus
            except RefusedError:
                self._was_refused = True

    async def _subscribe(self, number: int) -> None:
        try:
            await self.ask(Subscribe.Request(records=[number]))
            self._subscribed.add(number)
        except RefusedError as error:
            if error.kind != "unknown":
                raise
            self._ended(number)  # closed meanwhile


def _bounded(load: LoadInfo) -> LoadInfo:
    """:raise UnreachableError: a VM has more than `MAX_PES` processing elements."""
    if any(len(busy) > MAX_PES for busy in load["pes"].values()):
        raise UnreachableError(f"the daemon's answer is wrong: load of more than {MAX_PES} elements of a VM")
    return load
