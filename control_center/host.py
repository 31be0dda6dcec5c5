"""One registered host: its link, what was last known of it, and which of its instances somebody listens to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from control_center import answers
from control_center.address import Address, Credentials
from control_center.daemon_link import ANSWER_S, Connection, DaemonLink
from control_center.errors import RefusedError, UnreachableError
from virtio_proto.control.api import EventPush, GpuInfo, LoadInfo, RecordsPush, Topology, VmInfo
from virtio_proto.control.frames import Frame
from virtio_proto.control.selector import MAX_PES, Selector, SelectorError, parse

State: TypeAlias = Literal["up", "stale", "down"]
POLL_TIMEOUT_S: Final = 5.0
TOPOLOGY_EVERY: Final = 5
"""Polls of the load between two of the topology, if no event says that it has changed."""
MAX_INSTANCES: Final = 16384
_OPENED: Final = "opened"
_ENDED: Final = ("closed", "expired")
_CHANGING: Final = (
    "worker_ready",
    "worker_lost",
    "migration",
    "firmware",
    "vm_connected",
    "vm_disconnected",
    "policy_acted",
)
"""Events after which the topology may be another one."""


@dataclass(frozen=True, slots=True)
class HostConfig:
    """A daemon that the control centre serves."""

    name: str
    address: Address
    credentials: Credentials = field(default_factory=Credentials)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clocks:
    """What time it is; tests have their own."""

    real_ns: Callable[[], int] = time.time_ns
    monotonic_s: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Ages:
    """When what is known of a host is too old."""

    stale_s: float = 3.0
    down_s: float = 30.0


class Watcher(Protocol):
    """Told of what hosts say, from the loop; must not wait."""

    def host_changed(self, host: Host) -> None:
        """Its state or its topology is another one."""

    def records(self, host: Host, push: RecordsPush) -> None: ...

    def event(self, host: Host, push: EventPush) -> None: ...

    def wanted(self, host: Host) -> set[int]:
        """The instances whose records somebody listens to."""


class Host:
    """A host, whether it answers or not. Everything happens on the loop.

    The states: *up*, it has answered lately; *stale*, it has not for `Ages.stale_s`, and what is shown is what was;
    *down*, it has not for `Ages.down_s`, or never has.
    """

    def __init__(self, config: HostConfig, watcher: Watcher, clocks: Clocks, ages: Ages) -> None:
        self.config = config
        self.state: State = "down"
        self.since_ns = clocks.real_ns()
        self.reason = "not connected yet"
        """Why it is not up."""
        self.daemon = ""
        """The daemon's version."""
        self.gpus: list[GpuInfo] = []
        self.vms: dict[str, VmInfo] = {}
        self.load: LoadInfo | None = None
        self.load_text: str | None = None
        """`load` as JSON, once somebody has wanted it."""
        self.instances: dict[int, Selector] = {}
        """What is open on it, as far as its events say."""
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
        """A subscription was; it is tried again after the next poll."""
        self._connected = asyncio.Event()
        self._link = DaemonLink(
            config.address, config.credentials, on_push=self._push, on_up=self._up, on_down=self._down
        )

    @property
    def name(self) -> str:
        return self.config.name

    def names_of_gpu(self, gpu: str) -> tuple[str, ...]:
        """All that a GPU goes by: its number, its UUID."""
        return self._gpu_names.get(gpu, (gpu,))

    def names_of_gpu_of(self, vm: str) -> tuple[str, ...]:
        """The same of the GPU that a VM runs on; none, if it is not known."""
        info = self.vms.get(vm)
        return () if info is None else self.names_of_gpu(info["gpu"])

    # ---- running ---------------------------------------------------------------------------------

    async def run(self, poll_s: float, offset_s: float = 0.0) -> None:
        """Keeps the link and what is known of the host fresh, until cancelled.

        `offset_s` is what its polls come later than the first host's: many at once would hold up who asks meanwhile.
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

    async def ask(self, verb: str, fields: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S) -> Any:
        """What the daemon answers to `verb`, of the shape that it should have.

        :raise RefusedError: the daemon's refusal.
        :raise UnreachableError: it does not answer, or something else.
        """
        try:
            answer = answers.checked(verb, await self._link.call(verb, fields, timeout_s))
        except UnreachableError as error:
            raise UnreachableError(f"{self.name}: {error.text}") from None
        except RefusedError as error:
            raise RefusedError(error.kind, f"{self.name}: {error.text}") from None
        return answer

    async def poll(self) -> None:
        """One request for the load, and for the topology when it may have changed."""
        try:
            if self._changed or self._polls % TOPOLOGY_EVERY == 0:
                await self._learn()
            self._polls += 1
            self.load, self.load_text = _bounded(await self.ask("load", {}, POLL_TIMEOUT_S)), None
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
            topology: Topology = await self.ask("topology", {}, POLL_TIMEOUT_S)
        except RefusedError:
            self._changed = True
            raise
        gpus, vms = topology["gpus"], {vm["vm"]: vm for vm in topology["vms"]}
        if (gpus, vms) != (self.gpus, self.vms):
            self.gpus, self.vms = gpus, vms
            self._gpu_names = {gpu["gpu"]: (gpu["gpu"], gpu["uuid"]) for gpu in gpus}
            self._watcher.host_changed(self)

    def look(self) -> None:
        """Brings `state` up to date with the time."""
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
        answers.checked("subscribe", await connection.call("subscribe", {"events": True}, POLL_TIMEOUT_S))
        listing = answers.checked("ls", await connection.call("ls", {"totals": True}, POLL_TIMEOUT_S))
        self.instances.clear()
        for info in listing["instances"]:
            self.opened(info["instance"], info["selector"])
        self._resubscribe.set()
        self._connected.set()
        self.reason = ""

    def _down(self, reason: str) -> None:
        self.reason = reason
        self._subscribed.clear()

    def _push(self, frame: Frame) -> None:
        """:raise FrameError: it has a wrong shape; that ends the connection."""
        answers.check_push(frame)
        match frame["push"]:
            case "records":
                push: RecordsPush = frame  # type: ignore[assignment]  # checked
                self._watcher.records(self, push)
            case "event":
                event: EventPush = frame  # type: ignore[assignment]  # checked
                self._event(event)

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
        """What `Watcher.wanted` says may be something else now."""
        self._resubscribe.set()

    async def _keep_subscribed(self) -> None:
        """Has the daemon send what is wanted and nothing else."""
        while True:
            await self._resubscribe.wait()
            self._resubscribe.clear()
            wanted = self._watcher.wanted(self)
            try:
                for number in sorted(wanted - self._subscribed):
                    await self._subscribe(number)
                if surplus := self._subscribed - wanted:
                    await self.ask("unsubscribe", {"records": sorted(surplus)})
                    self._subscribed -= surplus
            except RefusedError:
                self._was_refused = True

    async def _subscribe(self, number: int) -> None:
        try:
            await self.ask("subscribe", {"records": [number]})
            self._subscribed.add(number)
        except RefusedError as error:
            if error.kind != "unknown":
                raise
            self._ended(number)  # meanwhile


def _bounded(load: LoadInfo) -> LoadInfo:
    """:raise UnreachableError: a VM has more elements than there can be."""
    if any(len(busy) > MAX_PES for busy in load["pes"].values()):
        raise UnreachableError(f"the daemon's answer is wrong: load of more than {MAX_PES} elements of a VM")
    return load
