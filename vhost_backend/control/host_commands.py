"""Verbs about the host: topology, stat, reset_worker, quiesce, resume, self."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from vhost_backend.control.channel_port import ElementFigures
from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.fields import Fields
from vhost_backend.control.interface import Interface
from vhost_backend.control.refusal import RefusedError, unknown
from vhost_backend.control.self_cost import SelfCost
from vhost_backend.control.vm_port import Host
from vhost_backend.control.vm_side import VmSide
from virtio_proto.control.api import PeStat, SelfInfo, Topology, VmInfo


class HostCommands:
    """A group of verbs over the interface and the host."""

    def __init__(
        self, name: str, interface: Interface, host: Host, cost: SelfCost, firmware: Callable[[str], str]
    ) -> None:
        self._name = name
        self._firmware = firmware
        self._interface = interface
        self._host = host
        self._cost = cost

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "topology": self._topology,
            "stat": self._stat,
            "self": self._self,
            "reset_worker": self._reset_worker,
            "quiesce": self._quiesce,
            "resume": self._resume,
        }

    async def _topology(self, caller: Caller, fields: Fields) -> Topology:
        fields.done()
        vms = [self._vm(side) for side in self._interface.visible(caller.peer)]
        gpus = await self._host.gpus()
        seen = {vm["gpu"] for vm in vms}
        shown = [gpu for gpu in gpus if caller.peer.vms is None or gpu["gpu"] in seen]
        return {"host": self._name, "gpus": shown, "vms": vms}

    def _vm(self, side: VmSide) -> VmInfo:
        facts = side.vm.facts()
        return {
            "vm": facts.vm,
            "uuid": facts.uuid,
            "gpu": facts.gpu,
            "pes": side.vm.channels.num_pes or facts.pes,
            "confined_to": None if side.confined_to is None else list(side.confined_to),
            "state": facts.state,
            "quiesced": facts.quiesced,
            "generation": facts.generation,
            "memory_quota_bytes": facts.memory_quota_bytes,
            "memory_used_bytes": facts.memory_used_bytes,
            "requests_done": facts.requests_done,
            "requests_failed": facts.requests_failed,
            "in_flight": facts.in_flight,
            "channels": len(side.table),
            "firmware": self._firmware(side.name),
        }

    async def _stat(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        """Figures of the chosen elements; only elements with an open channel of perf or load count anything."""
        selector = fields.selector()
        fields.done()
        stats = [
            _stat(side, figures)
            for side in self._interface.chosen(caller.peer, selector)
            for pe, figures in sorted(side.figures.items())
            if selector.matches_pe(pe)
        ]
        return {"pes": stats}

    async def _self(self, caller: Caller, fields: Fields) -> SelfInfo:
        fields.done()
        return self._cost.info(self._interface.visible(caller.peer))

    # ---- workers ---------------------------------------------------------------------------------

    async def _reset_worker(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        side = self._side(caller, fields)
        fields.done()
        if not side.vm.channels.ready:
            raise RefusedError("busy", f"{side.name} has no worker now; allowed: when its state is ready")
        await side.vm.reset(f"{caller.peer.name} asked for it")
        return {}

    async def _quiesce(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        side = self._side(caller, fields)
        fields.done()
        await side.vm.quiesce(on=True)
        return {}

    async def _resume(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        side = self._side(caller, fields)
        fields.done()
        await side.vm.quiesce(on=False)
        return {}

    def _side(self, caller: Caller, fields: Fields) -> VmSide:
        name = fields.text("vm")
        return find_side(self._interface, caller, name)


def find_side(interface: Interface, caller: Caller, name: str) -> VmSide:
    """The VM of this name.

    :raise RefusedError: "unknown": there is none for this caller.
    """
    side = interface.sides.get(name)
    if side is None or not caller.peer.sees(name):
        raise unknown(f"no VM {name}", (item.name for item in interface.visible(caller.peer)))
    return side


def _stat(side: VmSide, figures: ElementFigures) -> PeStat:
    then_ns, then = side.figures_then.get(figures.pe, (side.figures_ns, figures))
    elapsed_ns = side.figures_ns - then_ns
    busy = max(0, figures.busy_ns - then.busy_ns)
    counted = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures) if field.name != "pe"}
    return {
        "gpu": side.vm.facts().gpu,
        "vm": side.name,
        "pe": figures.pe,
        "occupancy": min(1.0, busy / elapsed_ns) if elapsed_ns > 0 else 0.0,
        **counted,  # type: ignore[typeddict-item]  # the rest of its keys, by their names
    }
