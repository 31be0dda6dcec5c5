"""The control system interface: function instances, from the command that opens one to the channels that it has.

The patent's "control system interface" with its "user-mode control module": it takes what a command means (`Opening`),
has the function's module say on which terms, creates the instance with its number, and has the channel tables of the
VMs bind it. A command that cannot be done whole is undone whole.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vhost_backend.control.access import Peer
from vhost_backend.control.channel_port import AgainError, ChannelError, Loss, Terms, WorkerGoneError
from vhost_backend.control.events import EventHub
from vhost_backend.control.firmware.elements import FirmwareReport
from vhost_backend.control.functions import MODULES, base
from vhost_backend.control.instances import Instance
from vhost_backend.control.refusal import RefusedError, unknown
from vhost_backend.control.vm_port import ControlledVm
from vhost_backend.control.vm_side import VmSide, gather_settled
from vhost_backend.log import Logger
from virtio_proto.control.records import Function
from virtio_proto.control.selector import Selector

NS_PER_S: Final = 1_000_000_000
MAX_INSTANCES: Final = 16384
"""Of all users together; an instance without channels, for a VM without a worker, costs little but not nothing."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What an ``open`` asks for."""

    selector: Selector
    terms: Terms
    ttl_s: float | None = None
    owner: str = ""
    keep: bool = False
    internal: bool = False


class Interface:
    """All instances of a host. `observer` is told of workers that come and go, and of what records say."""

    def __init__(
        self, vms: Iterable[ControlledVm], quota: int, hub: EventHub, log: Logger, clock_ns: Callable[[], int]
    ) -> None:
        self.hub = hub
        self.clock_ns = clock_ns
        self.observer: Observer = Observer()
        self._log = log
        self._instances: dict[int, Instance] = {}
        self._of_vm: dict[str, dict[int, Instance]] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.sides: dict[str, VmSide] = {}
        for vm in vms:
            self._of_vm[vm.name] = {}
            self.sides[vm.name] = VmSide(vm, quota, hub, self, log)

    async def close(self) -> None:
        """Ends what runs in the background; channels end with their workers."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Does something in the background; an error in it is logged."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("control_task_failed", error=repr(error))

    # ---- what VMs' sides ask ---------------------------------------------------------------------

    def instances_of(self, vm: str) -> list[Instance]:
        return list(self._of_vm[vm].values())

    def function_host(self) -> base.Host:
        return self.observer

    def worker_ready(self, side: VmSide) -> None:
        self.hub.event("worker_ready", side.name, generation=side.vm.facts().generation, pes=side.vm.channels.num_pes)
        self.observer.worker_ready(side)

    def worker_lost(self, side: VmSide, loss: Loss) -> None:
        self.hub.event("worker_lost", side.name, generation=side.vm.facts().generation, reason=loss.reason)
        self.observer.worker_lost(side, loss)

    def firmware_reported(self, side: VmSide, report: FirmwareReport) -> None:
        self.observer.firmware_reported(side, report)

    # ---- finding ---------------------------------------------------------------------------------

    def visible(self, peer: Peer) -> list[VmSide]:
        return [side for side in self.sides.values() if peer.sees(side.name)]

    def chosen(self, peer: Peer, selector: Selector) -> list[VmSide]:
        """The VMs that a selector chooses of those that there are for the peer.

        A VM that has no GPU yet is chosen whatever GPU the selector names: it may get that one.

        :raise RefusedError: "unknown": there is none, or no such GPU or element in them; with what there is.
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
        """An instance all of whose VMs there are for the peer.

        :raise RefusedError: "unknown".
        """
        found = self._instances.get(number)
        if found is None or not self._is_visible(peer, found):
            raise unknown(f"no instance {number}", (item.number for item in self.instances(peer)))
        return found

    def instances(self, peer: Peer) -> list[Instance]:
        """Those that the peer may know of, by number."""
        return [item for item in self._instances.values() if self._is_visible(peer, item)]

    def _is_visible(self, peer: Peer, instance: Instance) -> bool:
        return not instance.internal and (peer.vms is None or instance.vms <= peer.vms)

    # ---- opening and closing ---------------------------------------------------------------------

    async def open(self, peer: Peer, opening: Opening, connection: int | None = None) -> Instance:
        """Creates an instance with its channels. VMs without a worker get theirs when one is ready.

        :raise RefusedError: "unknown", "quota", or "failed" as the worker says; then nothing is open that was not before.
        """
        sides = self.chosen(peer, opening.selector)
        if len(self._instances) >= MAX_INSTANCES:
            raise RefusedError("quota", f"{len(self._instances)} instances are open; allowed: {MAX_INSTANCES}")
        now_ns = self.clock_ns()
        instance = Instance(
            number=next(self._numbers),
            module=MODULES[opening.selector.one_fn()],
            selector=opening.selector,
            owner=opening.owner or peer.name,
            terms=opening.terms,
            vms=frozenset(side.name for side in sides),
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
        self.observer.opened(instance)
        if not instance.internal:
            detail = {"instance": instance.number, "selector": str(instance.selector), "owner": instance.owner}
            self.hub.event("opened", _only(instance), **detail)
        return instance

    async def _bind(self, instance: Instance, sides: Sequence[VmSide]) -> None:
        """:raise RefusedError: not all could be bound; none is."""
        try:
            for side in sides:
                side.table.attach(instance, side.chosen_pes(instance))
            self._register(instance)
            await gather_settled(sides)
            self._check(instance, "opened")
        except BaseException:
            self._forget(instance)
            self.spawn(self._undo(instance, sides))
            raise

    async def _undo(self, instance: Instance, sides: Iterable[VmSide]) -> None:
        """Releases what an instance that is not to be has got already, and forgets what that brought."""
        await gather_settled(sides)
        self.hub.forget(instance.number)

    def _check(self, instance: Instance, done: str) -> None:
        """:raise RefusedError: "failed": a worker refused one of its channels."""
        channels = [channel for vm in instance.vms for channel in self.sides[vm].table.of(instance)]
        problem = next((channel.problem for channel in channels if channel.problem), "")
        if problem:
            raise RefusedError("failed", f"channels of {instance.function} could not be {done}: {problem}")

    def _register(self, instance: Instance) -> None:
        self._instances[instance.number] = instance
        for vm in instance.vms:
            self._of_vm[vm][instance.number] = instance

    def _forget(self, instance: Instance) -> None:
        self._instances.pop(instance.number, None)
        for vm in instance.vms:
            self._of_vm[vm].pop(instance.number, None)
            self.sides[vm].table.detach(instance)

    async def close_instance(self, instance: Instance, event: str = "closed") -> None:
        """Releases an instance's channels; what they held has been pushed when this returns."""
        if self._instances.get(instance.number) is not instance:
            return
        sides = [self.sides[vm] for vm in instance.vms]
        self._forget(instance)
        await gather_settled(sides)
        for side in sides:
            side.drop_figures()
        self.hub.forget(instance.number)
        if not instance.internal:
            detail = {"instance": instance.number, "selector": str(instance.selector), "owner": instance.owner}
            self.hub.event(event, _only(instance), **detail)

    def connection_ended(self, connection: int) -> None:
        """Closes, in the background, what was opened on it and was not to be kept."""
        for instance in [item for item in self._instances.values() if item.connection == connection]:
            self.spawn(self.close_instance(instance))

    async def change(self, instance: Instance, *, level: int | None, sample: int | None, ttl_s: float | None) -> None:
        """Other terms for an instance, effective in the kernels that run; and a new time to live.

        :raise RefusedError: "failed", as the worker says; then the terms are the old ones.
        """
        before = instance.terms
        wanted = replace(
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
        """Standard input for an instance's elements, or for those that `vm` and `pe` name. To how many it went.

        Where several elements are meant, those with room have got it also if others refuse.

        :raise RefusedError: "unknown": none of them has a channel; "busy": an element has not read what it was sent
          before, and has no room, or its worker is gone; "failed": a worker refused.
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
                self.hub.event("input", side.name, instance=instance.number, pe=channel.pe, data=data, eof=eof)
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
        self._timer = asyncio.get_running_loop().call_later(delay_s, lambda: self.spawn(self.expire()))

    async def expire(self) -> None:
        """Closes the instances whose time has come. What comes next waits for none of their workers."""
        now_ns = self.clock_ns()
        timed = [(item, item.expires_ns) for item in self._instances.values() if item.expires_ns is not None]
        self._timer = None
        soonest = min((expires_ns for _, expires_ns in timed if expires_ns > now_ns), default=None)
        if soonest is not None:
            self._set_timer(soonest)
        due = [item for item, expires_ns in timed if expires_ns <= now_ns]
        await asyncio.gather(*(self.close_instance(instance, "expired") for instance in due))


class Observer:
    """Whom the interface tells what it learns; this one does nothing with it."""

    def opened(self, instance: Instance) -> None: ...

    def worker_ready(self, side: VmSide) -> None: ...

    def worker_lost(self, side: VmSide, loss: Loss) -> None: ...

    def firmware_reported(self, side: VmSide, report: FirmwareReport) -> None: ...

    def fault(self, source: base.Source, code: int, text: str, time_ns: int) -> None: ...

    def crossed(self, source: base.Source, name: str, value: float, threshold: float, time_ns: int) -> None: ...

    def wants_input(self, source: base.Source, time_ns: int) -> None: ...


def _not_sent(where: str, error: BaseException) -> BaseException:
    """What is said about input that an element did not get."""
    if isinstance(error, AgainError | WorkerGoneError):
        return RefusedError("busy", f"{where}: {error}")
    return RefusedError("failed", f"{where}: {error}") if isinstance(error, ChannelError) else error


def _only(instance: Instance) -> str | None:
    """The VM that an instance is about, if that is one."""
    return next(iter(instance.vms)) if len(instance.vms) == 1 else None
