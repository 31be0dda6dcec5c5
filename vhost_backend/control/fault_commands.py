"""Verbs about faults and snapshots: faults, clear_faults, policies, set_policies, snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vhost_backend.control import snapshots
from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.events import EventHub
from vhost_backend.control.faults import Fault
from vhost_backend.control.fields import Fields
from vhost_backend.control.interface import Interface
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.vm_side import VmSide
from vhost_backend.control.watch import Watch
from vhost_backend.control_config import ACTIONS, FAULT_KINDS, MAX_POLICIES, TRIGGERS, PolicyConfig
from virtio_proto.control.api import SnapshotInfo
from virtio_proto.control.selector import Selector

MAX_CLEARED: Final = 65536
DEADLINE_MS: Final = 100
MAX_DEADLINE_MS: Final = 10_000
MAX_WINDOW_S: Final = 7 * 24 * 3600.0


class FaultCommands:
    """A group of verbs over the watch."""

    def __init__(self, interface: Interface, hub: EventHub, watch: Watch) -> None:
        self._interface = interface
        self._hub = hub
        self._watch = watch

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "faults": self._faults,
            "clear_faults": self._clear,
            "policies": self._policies,
            "set_policies": self._set_policies,
            "snapshot": self._snapshot,
        }

    def _chosen(self, caller: Caller, selector: Selector, *, cleared: bool) -> list[Fault]:
        """Faults that a selector chooses. One without an element is chosen unless elements are named."""
        return [
            fault
            for side in self._interface.visible(caller.peer)
            if selector.matches_vm(side.name)
            for fault in self._watch.book.of(side.name, cleared=cleared)
            if selector.matches_gpu(fault.gpu, *_other_names(side, fault.gpu))
            and (selector.pe is None or (fault.pe is not None and selector.matches_pe(fault.pe)))
        ]

    async def _faults(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        selector = fields.selector()
        cleared = fields.flag("cleared")
        fields.done()
        found = self._chosen(caller, selector, cleared=cleared)
        return {"faults": [fault.info() for fault in sorted(found, key=lambda fault: fault.number)]}

    async def _clear(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        selector = fields.selector()
        numbers = fields.integers("faults", MAX_CLEARED)
        fields.done()
        chosen = self._chosen(caller, selector, cleared=False)
        if "faults" in fields:  # none of them is not all of them
            chosen = [fault for fault in chosen if fault.number in numbers]
        cleared = self._watch.book.clear(chosen)
        for fault in chosen:
            self._hub.event("fault_cleared", fault.vm, fault=fault.number, by=caller.peer.name)
        return {"cleared": cleared}

    async def _policies(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        """All of the host; who sees some VMs only sees those policies that name just these."""
        fields.done()
        names = [side.name for side in self._interface.sides.values()]
        return {
            "policies": [
                policy.info()
                for policy in self._watch.policies.all
                if all(caller.peer.sees(name) for name in names if policy.selector.matches_vm(name))
            ]
        }

    async def _set_policies(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        tables = fields.tables("policies", MAX_POLICIES)
        fields.done()
        if caller.peer.vms is not None:
            raise RefusedError("denied", "set_policies is about all VMs; allowed: a token without vms")
        configs = [_policy(table) for table in tables]
        names = [config.name for config in configs]
        if len(set(names)) < len(names):
            raise RefusedError("malformed", f"set_policies: names are {', '.join(names)}; allowed: each once")
        self._watch.policies.replace(configs)
        self._watch.look_for_hung()
        return {"policies": [policy.info() for policy in self._watch.policies.all]}

    async def _snapshot(self, caller: Caller, fields: Fields) -> SnapshotInfo:
        selector = fields.selector()
        deadline_ms = fields.integer("deadline_ms", 1, MAX_DEADLINE_MS, DEADLINE_MS)
        fields.done()
        sides = self._interface.chosen(caller.peer, selector)
        parts = await snapshots.look(sides, selector, deadline_ms)
        return snapshots.assemble(parts, self._interface.clock_ns(), self._watch.is_hung)


def _other_names(side: VmSide, gpu: str) -> tuple[str, ...]:
    """What else the VM's GPU goes by, if it is this one."""
    names = side.vm.facts().gpu_names
    return names if gpu in names else ()


def _policy(table: Mapping[str, Any]) -> PolicyConfig:
    """:raise RefusedError: a field is wrong."""
    fields = Fields("set_policies", table)
    default = PolicyConfig(fields.text("name", 63))
    window_s = fields.optional_number("window_s", 0.001, MAX_WINDOW_S)
    made = PolicyConfig(
        name=default.name,
        selector=str(fields.selector()),
        kinds=fields.texts("kinds", FAULT_KINDS, default.kinds),
        trigger=fields.choice("trigger", TRIGGERS, default.trigger),
        count=fields.integer("count", 1, 1_000_000, default.count),
        window_s=default.window_s if window_s is None else window_s,
        action=fields.choice("action", ACTIONS, default.action),
        target=fields.optional_text("target") or "",
    )
    fields.done()
    return made
