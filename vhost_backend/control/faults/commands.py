"""Verbs about faults and snapshots: faults, clear_faults, policies, set_policies, snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from vhost_backend.config.control import PolicyConfig, why_policy_fails
from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FaultCleared
from vhost_backend.control.faults import snapshots
from vhost_backend.control.faults.book import Fault
from vhost_backend.control.faults.watch import FaultWatch
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from virtio_proto.control.api import SnapshotInfo
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.base import Request, Verb
from virtio_proto.control.verbs.faults import (
    Cleared,
    ClearFaults,
    FaultList,
    Faults,
    FaultTotal,
    Policies,
    PolicyFields,
    PolicyList,
    SetPolicies,
    TakeSnapshot,
)


class FaultCommands:
    """Handlers of the verbs about faults."""

    def __init__(self, registry: InstanceRegistry, bus: EventBus, watch: FaultWatch) -> None:
        self._registry = registry
        self._bus = bus
        self._watch = watch

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {
            Faults: self._faults,
            ClearFaults: self._clear,
            Policies: self._policies,
            SetPolicies: self._set_policies,
            TakeSnapshot: self._snapshot,
        }

    def _chosen(self, caller: Caller, selector: Selector, *, cleared: bool) -> list[Fault]:
        """Faults that a selector chooses. Those without a processing element match only selectors that name none."""
        return [
            fault
            for side in self._registry.visible(caller.peer)
            if selector.matches_vm(side.name)
            for fault in self._watch.book.of(side.name, cleared=cleared)
            if selector.matches_gpu(fault.gpu, *_other_names(side, fault.gpu))
            and (selector.pe is None or (fault.pe is not None and selector.matches_pe(fault.pe)))
        ]

    async def _faults(self, caller: Caller, asked: Faults.Request) -> FaultList:
        """Faults, which another daemon would not forget any more, and how often they have occurred so far."""
        self._watch.save()
        found = self._chosen(caller, asked.chosen, cleared=asked.cleared)
        totals: list[FaultTotal] = [
            {"vm": side.name, "kind": kind, "count": count}
            for side in self._registry.visible(caller.peer)
            if asked.chosen.matches_vm(side.name)
            for kind, count in self._watch.book.counts(side.name).items()
        ]
        return {"faults": [fault.info() for fault in sorted(found, key=lambda fault: fault.number)], "totals": totals}

    async def _clear(self, caller: Caller, asked: ClearFaults.Request) -> Cleared:
        chosen = self._chosen(caller, asked.chosen, cleared=False)
        if asked.faults is not None:  # an empty list clears nothing
            numbers = frozenset(asked.faults)
            chosen = [fault for fault in chosen if fault.number in numbers]
        cleared = self._watch.book.clear(chosen)
        self._watch.save()
        for fault in chosen:
            self._bus.publish(FaultCleared(fault.vm, fault.number, caller.peer.name))
        return {"cleared": cleared}

    async def _policies(self, caller: Caller, _asked: Request) -> PolicyList:
        """Policies of the host. Callers that see only some VMs see the policies that match no other VMs."""
        names = [side.name for side in self._registry.sides.values()]
        return {
            "policies": [
                policy.info()
                for policy in self._watch.policies.all
                if all(caller.peer.sees(name) for name in names if policy.selector.matches_vm(name))
            ]
        }

    async def _set_policies(self, caller: Caller, asked: SetPolicies.Request) -> PolicyList:
        if caller.peer.vms is not None:
            raise RefusedError("denied", "set_policies is about all VMs; allowed: a token without vms")
        policies = [_policy(fields) for fields in asked.policies]
        for policy in policies:
            if wrong := why_policy_fails(policy) or self._why_stays(policy):
                raise RefusedError("malformed", f"policy {policy.name}: {wrong}")
        self._watch.policies.replace(policies)
        self._watch.look_for_hung()
        return {"policies": [policy.info() for policy in self._watch.policies.all]}

    def _why_stays(self, policy: PolicyConfig) -> str:
        """Reason why a VM that a policy is to migrate cannot be; "" if they all can."""
        if policy.action != "migrate":
            return ""
        chosen = parse(policy.selector)
        for side in self._registry.sides.values():
            facts = side.vm.facts()
            if facts.stays and chosen.matches_vm(side.name) and chosen.matches_gpu(*facts.gpu_names or ("",)):
                return f"it is to migrate {side.name}: {facts.stays}; or another action or selector"
        return ""

    async def _snapshot(self, caller: Caller, asked: TakeSnapshot.Request) -> SnapshotInfo:
        selector = asked.chosen
        sides = self._registry.chosen(caller.peer, selector)
        parts = await snapshots.look(sides, selector, asked.deadline_ms)
        return snapshots.assemble(parts, self._registry.clock_ns(), self._watch.is_hung)


def _other_names(side: VmSide, gpu: str) -> tuple[str, ...]:
    """Names of the VM's GPU if `gpu` is one of them."""
    names = side.vm.facts().gpu_names
    return names if gpu in names else ()


def _policy(fields: PolicyFields) -> PolicyConfig:
    return PolicyConfig(
        name=fields.name,
        selector=str(parse(fields.selector)),
        kinds=tuple(dict.fromkeys(fields.kinds)),
        trigger=fields.trigger,
        count=fields.count,
        window_s=fields.window_s,
        action=fields.action,
        target=fields.target or "",
    )
