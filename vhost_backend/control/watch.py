"""What the host does with what it learns: faults into the book and to policies, thresholds and input to subscribers.

The part of fault management that acts by itself. It also looks for elements that hang, by snapshots, while a policy or
an instance of the fault function asks for faults of the kind ``hung``; otherwise it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from vhost_backend.control import snapshots, xid
from vhost_backend.control.channel_port import ElementState, Loss
from vhost_backend.control.events import EventHub
from vhost_backend.control.faults import MAX_TEXT_CHARS, Fault, FaultBook, kind_of
from vhost_backend.control.firmware.elements import FirmwareReport
from vhost_backend.control.functions import base
from vhost_backend.control.instances import Instance
from vhost_backend.control.interface import Interface, Observer
from vhost_backend.control.policies import Policies, Policy
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.vm_side import VmSide
from vhost_backend.control_config import PolicyConfig
from vhost_backend.log import Logger
from virtio_proto.control.selector import Selector

NS_PER_S: Final = 1_000_000_000
TOLD_EVERY_NS: Final = NS_PER_S
"""A fault that keeps coming is told of as often, with its count; each policy counts every one."""

RECENT_NS: Final = 5 * NS_PER_S
LOOK_MS: Final = 100
MAX_ACTING: Final = 4
"""Actions of policies under way at once for one VM; what else is due meanwhile is told of, and left out."""

Action = Callable[[VmSide, PolicyConfig], Awaitable[str]]
"""Does something to a VM; how it went. Raises `RefusedError`."""


class Watch(Observer):
    """The interface's observer."""

    def __init__(
        self,
        interface: Interface,
        hub: EventHub,
        policies: Policies,
        log: Logger,
        *,
        hung_after_ns: int,
        actions: Mapping[str, Action],
    ) -> None:
        self.book = FaultBook(self._on_fault)
        self.policies = policies
        self._interface = interface
        self._hub = hub
        self._log = log
        self._hung_after_ns = hung_after_ns
        self._actions = actions
        self._acting: Counter[str] = Counter()
        self._seen_hung: dict[tuple[str, int], tuple[int, int]] = {}
        """By element: launch and block that it was found hanging in."""
        self._looking: asyncio.Task[None] | None = None
        self.on_worker_ready: Callable[[VmSide], Coroutine[Any, Any, None]] | None = None
        self.on_worker_lost: Callable[[str, Loss], None] | None = None
        self.on_firmware: Callable[[str, FirmwareReport], None] | None = None

    # ---- the interface's Observer ----------------------------------------------------------------

    def opened(self, instance: Instance) -> None:
        if instance.function == "fault":
            self.look_for_hung()

    def worker_ready(self, side: VmSide) -> None:
        if self.on_worker_ready is not None:
            self._interface.spawn(self.on_worker_ready(side))

    def worker_lost(self, side: VmSide, loss: Loss) -> None:
        """What a worker died of is a fault, unless an element has reported it already."""
        for key in [key for key in self._seen_hung if key[0] == side.name]:
            del self._seen_hung[key]
        if self.on_worker_lost is not None:
            self.on_worker_lost(side.name, loss)
        now_ns = self._interface.clock_ns()
        if loss.fault is None or self._is_known(side.name, loss.fault, now_ns):
            return
        text = printable(loss.reason)
        gpu = side.vm.facts().gpu
        self.book.add(gpu=gpu, vm=side.name, pe=None, kind=loss.fault, text=text, time_ns=now_ns)

    def _is_known(self, vm: str, kind: str, now_ns: int) -> bool:
        return any(
            fault.kind == kind and fault.pe is not None and now_ns - fault.last_ns < RECENT_NS
            for fault in self.book.of(vm)
        )

    def firmware_reported(self, side: VmSide, report: FirmwareReport) -> None:
        if self.on_firmware is not None:
            self.on_firmware(side.name, report)

    def fault(self, source: base.Source, code: int, text: str, time_ns: int) -> None:
        kind = kind_of(code)
        if kind is None:
            return  # guest code wrote it: its channel counts it, and that is all
        now_ns = self._interface.clock_ns()
        plausible_ns = time_ns if abs(now_ns - time_ns) < RECENT_NS else now_ns
        self.book.add(gpu=source.gpu, vm=source.vm, pe=source.pe, kind=kind, text=text, time_ns=plausible_ns)

    def device_error(self, uuid: str, number: int) -> None:
        """A GPU reported an Xid: a fault of every VM that computes on it."""
        self._log.warning("gpu_error", uuid=uuid, xid=number, meaning=xid.describe(number))
        now_ns = self._interface.clock_ns()
        for side in self._interface.sides.values():
            facts = side.vm.facts()
            if facts.gpu_uuid.lower() == uuid.lower():
                self.book.add(
                    gpu=facts.gpu,
                    vm=side.name,
                    pe=None,
                    kind="device",
                    text=xid.describe(number),
                    time_ns=now_ns,
                    xid=number,
                    advice=xid.advice(number),
                )

    def crossed(self, source: base.Source, name: str, value: float, threshold: float, time_ns: int) -> None:
        at_ns = min(time_ns, self._interface.clock_ns())
        self._hub.event("threshold", source.vm, pe=source.pe, name=name, value=value, threshold=threshold, at_ns=at_ns)

    def wants_input(self, source: base.Source, time_ns: int) -> None:
        at_ns = min(time_ns, self._interface.clock_ns())
        self._hub.event("wants_input", source.vm, pe=source.pe, at_ns=at_ns)

    # ---- policies --------------------------------------------------------------------------------

    def _on_fault(self, fault: Fault, count: int) -> None:
        now_ns = self._interface.clock_ns()
        if now_ns - fault.told_ns >= TOLD_EVERY_NS:
            fault.told_ns = now_ns
            self._hub.event("fault", fault.vm, **fault.info())
        for policy in self.policies.due(fault, count):
            self._begin(policy, fault)

    def _begin(self, policy: Policy, fault: Fault) -> None:
        if self._acting[fault.vm] >= MAX_ACTING:
            self._tell(policy, fault, f"left out: {MAX_ACTING} actions are under way")
            return
        self._acting[fault.vm] += 1
        self._interface.spawn(self._act(policy, fault))

    async def _act(self, policy: Policy, fault: Fault) -> None:
        try:
            side = self._interface.sides[fault.vm]
            result = await self._actions[policy.config.action](side, policy.config)
        except RefusedError as error:
            result = f"failed: {error}"
        finally:
            self._acting[fault.vm] -= 1
        self._tell(policy, fault, result)

    def _tell(self, policy: Policy, fault: Fault, result: str) -> None:
        about = {"policy": policy.config.name, "action": policy.config.action, "fault": fault.number, "result": result}
        self._hub.event("policy_acted", fault.vm, **about)
        self._log.warning("policy_acted", of_vm=fault.vm, **about, guest=True)

    # ---- elements that hang ----------------------------------------------------------------------

    def look_for_hung(self) -> None:
        """Begins to look, if somebody wants to know and nobody looks yet."""
        if self._looking is None or self._looking.done():
            self._looking = self._interface.spawn(self._look_while_wanted())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_while_wanted(self) -> None:
        while sides := self._watched():
            await self.look(sides)
            await asyncio.sleep(self._hung_after_ns / 2 / NS_PER_S)

    def _watched(self) -> list[VmSide]:
        """VMs with a fault instance, or that a policy about hung elements concerns."""
        policies = [item for item in self.policies.all if "hung" in item.config.kinds]
        return [
            side
            for name, side in self._interface.sides.items()
            if any(item.function == "fault" for item in self._interface.instances_of(name))
            or any(item.selector.matches_vm(name) for item in policies)
        ]

    async def look(self, sides: list[VmSide]) -> None:
        """Looks once, and notes the elements that hang, each once for a block."""
        for part in await snapshots.look([side for side in sides if side.vm.channels.ready], Selector(), LOOK_MS):
            for state in part.states:
                if self.is_hung(part.side, state):
                    self._note_hung(part.side, state)

    def is_hung(self, _side: VmSide, state: ElementState) -> bool:
        """Whether an element has been in the same block for too long."""
        return state.kernel is not None and 0 < state.since_ns <= state.at_ns - self._hung_after_ns

    def _note_hung(self, side: VmSide, state: ElementState) -> None:
        if self._seen_hung.get((side.name, state.pe)) == (state.launch, state.block):
            return
        self._seen_hung[side.name, state.pe] = (state.launch, state.block)
        seconds = (state.at_ns - state.since_ns) / NS_PER_S
        kernel = printable(state.kernel or "")
        text = f"in block {state.block} of {kernel}, launch {state.launch}, for {seconds:.1f} s"
        gpu = side.vm.facts().gpu
        self.book.add(gpu=gpu, vm=side.name, pe=state.pe, kind="hung", text=text, time_ns=state.at_ns)


def printable(text: str) -> str:
    """What guests had written, fit to be shown."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_TEXT_CHARS]).strip()
