"""Function instances of a host, from the command that opens one to its close.

An `Opening` is a request to open an instance, with the terms that the function's module made from it. The registry
creates the instance and gives it a number; the channel tables of the VMs bind its channels. A command that fails in part
is undone as a whole.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import structs

from vhost_backend.control.api.access import Peer
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.api.refusal import RefusedError, unknown
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import InputSent, InstanceClosed, InstanceOpened
from vhost_backend.control.functions.modules import MODULES
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.instances.records import Confinement
from vhost_backend.control.instances.vm_side import VmSide, gather_settled
from vhost_backend.control.links.channel_port import AgainError, ChannelError, WorkerGoneError
from vhost_backend.control.links.vm_port import ControlledVm
from vhost_backend.keeper.record import unpack
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import Logger
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control.records import Function
from virtio_proto.control.selector import Selector

NS_PER_S: Final = 1_000_000_000
MAX_INSTANCES: Final = 16384
"""Bound on the instances of all users together: even an instance without channels costs memory."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Request of an ``open``."""

    selector: Selector
    terms: Terms
    ttl_s: float | None = None
    owner: str = ""
    keep: bool = False
    internal: bool = False


class InstanceRegistry:
    """All instances of a host, and the VMs that they are for."""

    def __init__(
        self,
        bus: EventBus,
        hub: PushHub,
        tasks: BackgroundTasks,
        log: Logger,
        *,
        quota: int,
        clock_ns: Callable[[], int],
        shelf: Shelf | None = None,
    ) -> None:
        """`shelf`: of VMs at the keeper; None: what clients have set for them ends with the daemon."""
        self.clock_ns = clock_ns
        self._bus = bus
        self._hub = hub
        self._tasks = tasks
        self._shelf = shelf or Shelf("vms")
        self._make_side = partial(VmSide, bus=bus, hub=hub, tasks=tasks, log=log, quota=quota, shelf=self._shelf)
        self._confined = {vm: unpack(entry.blob, Confinement).pes for vm, entry in self._shelf.take().items()}
        """VMs that an earlier daemon has confined, and that are not there yet."""
        self._instances: dict[int, Instance] = {}
        self._numbers = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.sides: dict[str, VmSide] = {}
        """The VMs' sides, by name."""

    def close(self) -> None:
        """Stops closing instances whose time to live ends; channels end with their workers."""
        if self._timer is not None:
            self._timer.cancel()

    # ---- VMs come and go -------------------------------------------------------------------------

    def admit(self, vm: ControlledVm) -> None:
        """Adds a VM. Instances that are open do not cover it."""
        self.sides[vm.name] = self._make_side(vm, confined_to=self._confined.pop(vm.name, None))

    def dismiss(self, name: str) -> None:
        """Removes a VM that has no worker; its last instances are closed in the background."""
        side = self.sides.pop(name)
        for instance in list(side.instances.values()):
            side.table.detach(instance)
            instance.vms -= {name}
            if not instance.vms:
                self._tasks.spawn(self.close_instance(instance))
        side.leave()

    # ---- finding ---------------------------------------------------------------------------------

    def visible(self, peer: Peer) -> list[VmSide]:
        return [side for side in self.sides.values() if peer.sees(side.name)]

    def side(self, peer: Peer, name: str) -> VmSide:
        """Finds a VM by name.

        :raise RefusedError: "unknown": the peer sees no such VM; the text names those that it sees.
        """
        found = self.sides.get(name)
        if found is None or not peer.sees(name):
            raise unknown(f"no VM {name}", (item.name for item in self.visible(peer)))
        return found

    def chosen(self, peer: Peer, selector: Selector) -> list[VmSide]:
        """Finds the VMs that a selector chooses among those that the peer sees.

        A VM without a GPU is chosen whatever GPU the selector names, as it may get that GPU.

        :raise RefusedError: "unknown": no such VM, GPU or processing element; the text names those that exist.
        """
        visible = self.visible(peer)
        named = [side for side in visible if selector.matches_vm(side.name)]
        if not named:
            raise unknown(f"no VM {selector.vm}", (side.name for side in visible))
        on_gpu = [side for side in named if not (names := side.vm.facts().gpu_names) or selector.matches_gpu(*names)]
        if not on_gpu:
            gpus = sorted({side.vm.facts().gpu for side in named})
            raise unknown(f"no GPU {selector.gpu} with VM {selector.vm}", gpus)
        pes = {side.name: side.vm.channels.num_pes for side in on_gpu}
        found = [side for side in on_gpu if not pes[side.name] or selector.pes_of(pes[side.name])]
        if not found:
            there = (f"{name}: 0-{count - 1}" for name, count in pes.items())
            raise unknown(f"no processing element {selector}", there)
        return found

    def instance(self, peer: Peer, number: int) -> Instance:
        """Finds an instance by number.

        :raise RefusedError: "unknown": there is no such instance, or the peer does not see all of its VMs.
        """
        found = self._instances.get(number)
        if found is None or not self._is_visible(peer, found):
            raise unknown(f"no instance {number}", (item.number for item in self.instances(peer)))
        return found

    def instances(self, peer: Peer) -> list[Instance]:
        """Instances all of whose VMs the peer sees, by number; without those of the control system itself."""
        return [item for item in self._instances.values() if self._is_visible(peer, item)]

    def _is_visible(self, peer: Peer, instance: Instance) -> bool:
        return not instance.internal and (peer.vms is None or instance.scope <= peer.vms)

    # ---- opening and closing ---------------------------------------------------------------------

    async def open(self, peer: Peer, opening: Opening, connection: int | None = None) -> Instance:
        """Creates an instance and its channels. In VMs without a worker they are bound when a worker is ready.

        :raise RefusedError: "unknown", "quota", or "failed" with the worker's text; then the instance is not open.
        """
        sides = self.chosen(peer, opening.selector)
        if len(self._instances) >= MAX_INSTANCES:
            raise RefusedError(
                "quota",
                f"{len(self._instances)} instances are open, of all users; allowed: {MAX_INSTANCES}, so close some: vgcctl close",
            )
        now_ns = self.clock_ns()
        instance = Instance(
            number=next(self._numbers),
            module=MODULES[opening.selector.one_fn()],
            selector=opening.selector,
            owner=opening.owner or peer.name,
            terms=opening.terms,
            vms=frozenset(side.name for side in sides),
            scope=frozenset(side.name for side in sides),
            opened_ns=now_ns,
            connection=None if opening.keep else connection,
            ttl_ns=None if opening.ttl_s is None else int(opening.ttl_s * NS_PER_S),
            internal=opening.internal,
        )
        await self._bind(instance, sides)
        if instance.module.function == Function.PERF:
            for side in sides:
                side.begin_windows(side.chosen_pes(instance))
        self._schedule(instance)
        self._bus.publish(
            InstanceOpened(
                instance=instance.number,
                function=instance.function,
                selector=str(instance.selector),
                owner=instance.owner,
                vm=_only(instance),
                internal=instance.internal,
            )
        )
        return instance

    async def _bind(self, instance: Instance, sides: Sequence[VmSide]) -> None:
        """Binds the channels of an instance in all of its VMs.

        :raise RefusedError: a channel could not be bound; then all are released again.
        """
        try:
            for side in sides:
                side.table.attach(instance, side.chosen_pes(instance))
            self._register(instance)
            await gather_settled(sides)
            self._check(instance, "opened")
        except BaseException:
            self._forget(instance)
            self._tasks.spawn(self._undo(instance, sides))
            raise

    async def _undo(self, instance: Instance, sides: Iterable[VmSide]) -> None:
        """Releases the channels of an instance that could not be opened, and forgets their records."""
        await gather_settled(sides)
        self._hub.forget(instance.number)

    def _check(self, instance: Instance, done: str) -> None:
        """:raise RefusedError: "failed": a worker refused one of its channels."""
        channels = [channel for vm in instance.vms for channel in self.sides[vm].table.of(instance)]
        problem = next((channel.problem for channel in channels if channel.problem), "")
        if problem:
            raise RefusedError("failed", f"channels of {instance.function} could not be {done}: {problem}")

    def _register(self, instance: Instance) -> None:
        self._instances[instance.number] = instance
        for vm in instance.vms:
            self.sides[vm].instances[instance.number] = instance

    def _forget(self, instance: Instance) -> None:
        self._instances.pop(instance.number, None)
        for vm in instance.vms:
            self.sides[vm].instances.pop(instance.number, None)
            self.sides[vm].table.detach(instance)

    async def close_instance(self, instance: Instance, *, expired: bool = False) -> None:
        """Closes an instance. When this returns its channels are released and their last records have been pushed."""
        if self._instances.get(instance.number) is not instance:
            return
        sides = [self.sides[vm] for vm in instance.vms]
        self._forget(instance)
        await gather_settled(sides)
        for side in sides:
            side.drop_figures()
        self._hub.forget(instance.number)
        self._bus.publish(
            InstanceClosed(
                instance=instance.number,
                selector=str(instance.selector),
                owner=instance.owner,
                vm=_only(instance),
                internal=instance.internal,
                expired=expired,
            )
        )

    def connection_ended(self, connection: int) -> None:
        """Closes, in the background, the instances that a connection opened without ``keep``."""
        for instance in [item for item in self._instances.values() if item.connection == connection]:
            self._tasks.spawn(self.close_instance(instance))

    async def change(self, instance: Instance, *, level: int | None, sample: int | None, ttl_s: float | None) -> None:
        """Changes an instance's terms, also in running kernels, and starts its time to live again.

        :raise RefusedError: "failed" with the worker's text; then the old terms hold.
        """
        before = instance.terms
        wanted = structs.replace(
            before,
            level=before.level if level is None else level,
            sample=before.sample if sample is None else sample,
        )
        if ttl_s is not None:
            instance.ttl_ns = int(ttl_s * NS_PER_S)
        self._schedule(instance)
        if wanted == before:
            return
        instance.terms = wanted
        await self._settle_changed(instance)
        try:
            self._check(instance, "changed")
        except RefusedError:
            instance.terms = before
            await self._settle_changed(instance)
            raise

    async def _settle_changed(self, instance: Instance) -> None:
        sides = [self.sides[vm] for vm in instance.vms]
        for side in sides:
            side.table.changed(instance)
        await gather_settled(sides)

    async def send(self, instance: Instance, data: bytes, *, eof: bool, vm: str | None, pe: int | None) -> int:
        """Sends standard input to an instance's processing elements, or to those that `vm` and `pe` name.

        Returns the number of processing elements. Of several, those with room get the input even if others refuse.

        :raise RefusedError: "unknown": no processing element has a channel; "busy": one has not read its earlier input
          and has no room, or its worker is gone; "failed": a worker refused.
        """
        if instance.function != "stdio":
            raise RefusedError(
                "malformed", f"instance {instance.number} is of {instance.function}; allowed: one of stdio"
            )
        targets = [
            (side, channel)
            for side in (self.sides[name] for name in sorted(instance.vms) if vm in (None, name))
            for channel in side.table.of(instance)
            if pe in (None, channel.pe) and channel.bound is not None
        ]
        if not targets:
            raise RefusedError(
                "unknown", f"instance {instance.number} has no channel to vm {vm or '*'}, pe {pe or '*'}"
            )
        sent = await asyncio.gather(
            *(side.vm.channels.send(channel.number, data, eof=eof) for side, channel in targets), return_exceptions=True
        )
        problem: BaseException | None = None
        for (side, channel), result in zip(targets, sent, strict=True):
            if result is None:
                self._bus.publish(InputSent(side.name, instance.number, channel.pe, data, eof))
            else:
                problem = problem or _not_sent(f"{side.name}/{channel.pe}", result)
        if problem is not None:
            raise problem
        return len(targets)

    # ---- time to live ----------------------------------------------------------------------------

    def _schedule(self, instance: Instance) -> None:
        instance.renew(self.clock_ns())
        if instance.expires_ns is not None and (self._timer is None or instance.expires_ns < self._due_ns):
            self._set_timer(instance.expires_ns)

    def _set_timer(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ns = due_ns
        delay_s = max(0, due_ns - self.clock_ns()) / NS_PER_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, lambda: self._tasks.spawn(self.expire()))

    async def expire(self) -> None:
        """Closes the instances whose time to live has ended. The timer of the next ones does not wait for their workers."""
        now_ns = self.clock_ns()
        timed = [(item, item.expires_ns) for item in self._instances.values() if item.expires_ns is not None]
        self._timer = None
        soonest = min((expires_ns for _, expires_ns in timed if expires_ns > now_ns), default=None)
        if soonest is not None:
            self._set_timer(soonest)
        due = [item for item, expires_ns in timed if expires_ns <= now_ns]
        await asyncio.gather(*(self.close_instance(instance, expired=True) for instance in due))


def _not_sent(where: str, error: BaseException) -> BaseException:
    """Error for input that a processing element did not get."""
    if isinstance(error, AgainError | WorkerGoneError):
        return RefusedError("busy", f"{where}: {error}")
    return RefusedError("failed", f"{where}: {error}") if isinstance(error, ChannelError) else error


def _only(instance: Instance) -> str | None:
    """The VM that an instance covers, if it covers exactly one."""
    return next(iter(instance.vms)) if len(instance.vms) == 1 else None
