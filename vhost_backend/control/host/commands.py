"""Verbs about the host: topology, stat, reset_worker, quiesce, resume, self."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.host.self_cost import SelfCost
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ElementFigures
from vhost_backend.control.links.vm_port import Host, VmFacts
from virtio_proto.control.api import Nothing, PeStat, SelfInfo, TopologyInfo, VmInfo
from virtio_proto.control.verbs.base import Request, Verb, VmRequest
from virtio_proto.control.verbs.hosts import Quiesce, ResetWorker, Resume, Self, Stat, Stats, Topology


class HostCommands:
    """Handlers of the verbs about the host."""

    def __init__(
        self, name: str, registry: InstanceRegistry, host: Host, cost: SelfCost, firmware: Callable[[str], str]
    ) -> None:
        self._name = name
        self._firmware = firmware
        self._registry = registry
        self._host = host
        self._cost = cost

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {
            Topology: self._topology,
            Stat: self._stat,
            Self: self._self,
            ResetWorker: self._reset_worker,
            Quiesce: self._quiesce,
            Resume: self._resume,
        }

    async def _topology(self, caller: Caller, _asked: Request) -> TopologyInfo:
        vms = [self._vm(side) for side in sorted(self._registry.visible(caller.peer), key=lambda side: side.name)]
        gpus = await self._host.gpus()
        seen = {vm["gpu"] for vm in vms}
        shown = [gpu for gpu in gpus if caller.peer.vms is None or gpu["gpu"] in seen]
        return {"host": self._name, "gpus": shown, "vms": vms}

    def _vm(self, side: VmSide) -> VmInfo:
        facts = side.vm.facts()
        info: VmInfo = {
            "vm": facts.vm,
            "uuid": facts.uuid,
            "origin": facts.origin,
            "gpu": facts.gpu,
            "pes": side.vm.channels.num_pes or facts.pes,
            "confined_to": None if side.confined_to is None else list(side.confined_to),
            "state": facts.state,
            "quiesced": facts.quiesced,
            "weight": facts.weight,
            "weight_of": facts.weight_of,
            "own_cores": facts.has_own_cores,
            "generation": facts.generation,
            "allotment": facts.allotment,
            "acknowledged": facts.acknowledged or None,
            "allotment_state": facts.allotment_state,
            "memory_quota_bytes": facts.memory_quota_bytes,
            "memory_used_bytes": facts.memory_used_bytes,
            "requests_done": facts.requests_done,
            "requests_failed": facts.requests_failed,
            "in_flight": facts.in_flight,
            "latency": list(facts.latency),
            "memory_peak_bytes": facts.memory_peak_bytes,
            "failures": dict(facts.failures),
            "compiling": facts.compiling,
            "compilations": dict(facts.compilations),
            "compile_ns": facts.compile_ns,
            "cpu_ns": facts.cpu_ns,
            "stray_cpu_ns": facts.stray_cpu_ns,
            "channels": side.table.held,
            "firmware": self._firmware(side.name),
            "clock_error_ns": None if side.clock is None else side.clock.error_at(time.monotonic_ns()),
        }
        if facts.socket:
            info["socket"] = facts.socket
        if facts.cores:
            info["cores"] = facts.cores
        if facts.gpu_time is not None:
            info["gpu_ns"] = facts.gpu_time.used_ns
            info["gpu_held_ns"] = facts.gpu_time.held_ns
            info["gpu_shared_ns"] = facts.gpu_time.shared_ns
            info["gpu_shared_of_ns"] = facts.gpu_time.shared_of_ns
        if facts.pending:
            info["pending"] = list(facts.pending)
        if facts.exceeded:
            info["exceeded"] = list(facts.exceeded)
        if facts.usable_pes is not None and facts.usable_pes < info["pes"]:
            info["usable_pes"] = facts.usable_pes
        _add_reasons(info, facts)
        return info

    async def _stat(self, caller: Caller, asked: Stat.Request) -> Stats:
        """Figures of the chosen processing elements; only those with an open channel of perf or load have any."""
        selector = asked.chosen
        stats = [
            _stat(side, figures)
            for side in self._registry.chosen(caller.peer, selector)
            for pe, figures in sorted(side.figures.items())
            if selector.matches_pe(pe)
        ]
        return {"pes": stats}

    async def _self(self, caller: Caller, _asked: Request) -> SelfInfo:
        return self._cost.info(self._registry.visible(caller.peer))

    # ---- workers ---------------------------------------------------------------------------------

    async def _reset_worker(self, caller: Caller, asked: ResetWorker.Request) -> Nothing:
        side = self._side(caller, asked)
        if not side.vm.channels.ready:
            raise RefusedError("busy", f"{side.name} has no worker now; allowed: when its state is ready")
        await side.vm.reset(f"{caller.peer.name} asked for it")
        return {}

    async def _quiesce(self, caller: Caller, asked: Quiesce.Request) -> Nothing:
        side = self._side(caller, asked)
        await side.vm.quiesce(on=True)
        return {}

    async def _resume(self, caller: Caller, asked: Resume.Request) -> Nothing:
        side = self._side(caller, asked)
        await side.vm.quiesce(on=False)
        return {}

    def _side(self, caller: Caller, asked: VmRequest) -> VmSide:
        return self._registry.side(caller.peer, asked.vm)


def _add_reasons(info: VmInfo, facts: VmFacts) -> None:
    """Adds the reasons why something of a VM does not work, as far as there are any."""
    if facts.unseen:
        info["unseen"] = facts.unseen
    if facts.problem:
        info["problem"] = facts.problem
    if facts.ring_problem:
        info["ring_problem"] = facts.ring_problem
    if facts.stays:
        info["stays"] = facts.stays


def _stat(side: VmSide, figures: ElementFigures) -> PeStat:
    then_ns, then = side.figures_then.get(figures.pe, (side.figures_ns, figures))
    elapsed_ns = side.figures_ns - then_ns
    busy = max(0, figures.busy_ns - then.busy_ns)
    counted = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures) if field.name != "pe"}
    return {
        "gpu": side.vm.facts().gpu,
        "vm": side.name,
        "pe": figures.pe,
        "busy_share": min(1.0, busy / elapsed_ns) if elapsed_ns > 0 else 0.0,
        **counted,  # type: ignore[typeddict-item]  # the rest of its keys, by their names
    }
