"""Fault watch: enters faults into the fault book and runs the actions of policies.

It also finds hung processing elements by snapshots, but takes these only while a policy or an instance of the fault
function asks for faults of the kind ``hung``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from vhost_backend.config.control import PolicyConfig
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import DeviceError, FaultNoted, FaultReported, InstanceOpened, PolicyActed, WorkerLost
from vhost_backend.control.faults import snapshots, xid
from vhost_backend.control.faults.book import MAX_TEXT_CHARS, Fault, FaultBook, kind_of
from vhost_backend.control.faults.policies import Policies, Policy
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ElementState
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import Logger
from virtio_proto.control.selector import Selector

NS_PER_S: Final = 1_000_000_000
TOLD_EVERY_NS: Final = NS_PER_S
"""Least time between two `FaultNoted` events of one entry; policies count every occurrence."""

RECENT_NS: Final = 5 * NS_PER_S
"""Age up to which a record's time is plausible, and a reported fault explains the death of its worker."""

SAVE_EVERY_S: Final = 0.1
"""Least time between two times that the book is left with the keeper, unless somebody asks for it."""

LOOK_MS: Final = 100
"""Deadline of the snapshots that find hung processing elements."""

MAX_ACTING: Final = 4
"""Bound on the actions of policies that run at once on one VM; further ones are left out, with a `PolicyActed` event."""

Action = Callable[[VmSide, PolicyConfig], Awaitable[str]]
"""Acts on a VM and returns the result in words. Raises `RefusedError` if it cannot."""


class FaultWatch:
    """Takes faults from records, deaths of workers, Xid errors and snapshots."""

    def __init__(
        self,
        registry: InstanceRegistry,
        bus: EventBus,
        policies: Policies,
        tasks: BackgroundTasks,
        log: Logger,
        *,
        hung_after_ns: int,
        actions: Mapping[str, Action],
        shelf: Shelf | None = None,
    ) -> None:
        """`shelf`: of the fault book at the keeper; None: it ends with the daemon."""
        self.book = FaultBook(self._on_fault, shelf)
        self.policies = policies
        self._registry = registry
        self._bus = bus
        self._tasks = tasks
        self._log = log
        self._hung_after_ns = hung_after_ns
        self._actions = actions
        self._acting: Counter[str] = Counter()
        self._saving: asyncio.TimerHandle | None = None
        self._saved_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        bus.subscribe(InstanceOpened, self._instance_opened)
        bus.subscribe(WorkerLost, self._worker_lost)
        bus.subscribe(FaultReported, self._fault_reported)
        bus.subscribe(DeviceError, self._device_error)

    # ---- events ----------------------------------------------------------------------------------

    def _instance_opened(self, event: InstanceOpened) -> None:
        if event.function == "fault":
            self.look_for_hung()

    def _worker_lost(self, event: WorkerLost) -> None:
        """Enters a worker's death as a fault, unless a processing element has just reported its cause.

        Of a death without a known cause, the fault says how the process ended. A worker that was replaced has no fault.
        """
        self.book.forget_hangs(event.vm)
        self._save_soon()
        kind, now_ns = event.loss.fault or ("death" if event.loss.died else None), self._registry.clock_ns()
        if kind is None or self._is_known(event.vm, kind, now_ns):
            return
        text = printable(event.loss.reason)
        side = self._registry.sides.get(event.vm)
        gpu = "" if side is None else side.vm.facts().gpu
        self.book.add(gpu=gpu, vm=event.vm, pe=None, kind=kind, text=text, time_ns=now_ns)

    def _is_known(self, vm: str, kind: str, now_ns: int) -> bool:
        return any(
            fault.kind == kind and fault.pe is not None and now_ns - fault.last_ns < RECENT_NS
            for fault in self.book.of(vm)
        )

    def _fault_reported(self, event: FaultReported) -> None:
        kind = kind_of(event.code)
        if kind is None:
            return  # guest code made up the fault's code: only the channel counts the record
        now_ns = self._registry.clock_ns()
        plausible_ns = event.time_ns if abs(now_ns - event.time_ns) < RECENT_NS else now_ns
        self.book.add(gpu=event.gpu, vm=event.vm, pe=event.pe, kind=kind, text=event.text, time_ns=plausible_ns)

    def _device_error(self, event: DeviceError) -> None:
        """Enters an Xid error of a GPU as a fault of every VM that computes on the GPU."""
        text = xid.describe(event.xid)
        self._log.warning("gpu_error", uuid=event.gpu_uuid, xid=event.xid, meaning=text)
        now_ns = self._registry.clock_ns()
        for side in self._registry.sides.values():
            facts = side.vm.facts()
            if facts.gpu_uuid.lower() == event.gpu_uuid.lower():
                self.book.add(
                    gpu=facts.gpu,
                    vm=side.name,
                    pe=None,
                    kind="device",
                    text=text,
                    time_ns=now_ns,
                    xid=event.xid,
                    advice=xid.advice(event.xid),
                )

    # ---- at the keeper ---------------------------------------------------------------------------

    def save(self) -> None:
        """Leaves the book as it is with the keeper: to be called before it is shown."""
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        self.book.save()

    def _save_soon(self) -> None:
        """Saves the book in the next turn of the loop, unless it was saved just before that: a guest may have any number of
        faults.
        """
        if self.book.is_kept and self._saving is None:
            loop = asyncio.get_running_loop()
            self._saving = loop.call_at(self._saved_s + SAVE_EVERY_S, self._save_now)

    def _save_now(self) -> None:
        self._saved_s = asyncio.get_running_loop().time()
        self.save()

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left."""
        self.book.forget(vm)

    # ---- policies --------------------------------------------------------------------------------

    def _on_fault(self, fault: Fault, count: int) -> None:
        self._save_soon()
        now_ns = self._registry.clock_ns()
        if now_ns - fault.told_ns >= TOLD_EVERY_NS:
            fault.told_ns = now_ns
            self._bus.publish(FaultNoted(fault.vm, fault.info()))
        for policy in self.policies.due(fault, count):
            self._begin(policy, fault)

    def _begin(self, policy: Policy, fault: Fault) -> None:
        if self._acting[fault.vm] >= MAX_ACTING:
            self._tell(policy, fault, f"left out: {MAX_ACTING} actions are under way")
            return
        self._acting[fault.vm] += 1
        self._tasks.spawn(self._act(policy, fault))

    async def _act(self, policy: Policy, fault: Fault) -> None:
        try:
            side = self._registry.sides.get(fault.vm)
            act = self._actions[policy.config.action]
            result = "left out: the VM has left" if side is None else await act(side, policy.config)
        except RefusedError as error:
            result = f"failed: {error}"
        finally:
            self._acting[fault.vm] -= 1
        self._tell(policy, fault, result)

    def _tell(self, policy: Policy, fault: Fault, result: str) -> None:
        name, action = policy.config.name, policy.config.action
        self._bus.publish(PolicyActed(fault.vm, name, action, fault.number, result))
        self._log.warning(
            "policy_acted",
            of_vm=fault.vm,
            policy=name,
            action=action,
            fault=fault.number,
            result=result,
            guest=True,
        )

    # ---- hung processing elements -----------------------------------------------------------------

    def look_for_hung(self) -> None:
        """Starts to take snapshots, if none are being taken, until no policy or instance asks for ``hung`` any more."""
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn(self._look_while_wanted())

    async def _look_while_wanted(self) -> None:
        while sides := self._watched():
            await self.look(sides)
            await asyncio.sleep(self._hung_after_ns / 2 / NS_PER_S)

    def _watched(self) -> list[VmSide]:
        """VMs with a fault instance, and VMs that a policy about ``hung`` concerns."""
        policies = [item for item in self.policies.all if "hung" in item.config.kinds]
        return [
            side
            for name, side in self._registry.sides.items()
            if any(item.function == "fault" for item in side.instances.values())
            or any(item.selector.matches_vm(name) for item in policies)
        ]

    async def look(self, sides: list[VmSide]) -> None:
        """Takes a snapshot and enters hung processing elements, each once for a block."""
        for part in await snapshots.look([side for side in sides if side.vm.channels.ready], Selector(), LOOK_MS):
            for state in part.states:
                if self.is_hung(part.side, state):
                    self._note_hung(part.side, state)

    def is_hung(self, _side: VmSide, state: ElementState) -> bool:
        """True if a processing element has been in the same block for too long."""
        return state.kernel is not None and 0 < state.since_ns <= state.at_ns - self._hung_after_ns

    def _note_hung(self, side: VmSide, state: ElementState) -> None:
        if not self.book.is_new_hang(side.name, state.pe, state.launch, state.block):
            return
        seconds = (state.at_ns - state.since_ns) / NS_PER_S
        kernel = printable(state.kernel or "")
        text = f"in block {state.block} of {kernel}, launch {state.launch}, for {seconds:.1f} s"
        gpu = side.vm.facts().gpu
        self.book.add(gpu=gpu, vm=side.name, pe=state.pe, kind="hung", text=text, time_ns=state.at_ns)


def printable(text: str) -> str:
    """Removes control characters from a guest's text and cuts it to the fault book's limit."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_TEXT_CHARS]).strip()
