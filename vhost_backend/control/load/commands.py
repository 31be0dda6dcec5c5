"""The verbs ``load`` and ``balance``: the load of a host, and migrations that the strategy proposes or has started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.vm_port import Host
from vhost_backend.control.load.meter import packed
from vhost_backend.control.load.migrations import MigrationService
from vhost_backend.control.load.strategy import DEFAULT, Place, Proposal, Tenant, Tuning, propose
from vhost_backend.control.load.watch import LoadWatch
from virtio_proto.control.api import GpuInfo, LoadInfo, ProposalInfo
from virtio_proto.control.verbs.base import Verb
from virtio_proto.control.verbs.hosts import Load
from virtio_proto.control.verbs.migrations import Balance, ProposalList

LONG_AGO_NS: Final = 1 << 62
"""Time since the last migration of a VM that was never migrated."""


class LoadCommands:
    """A group of verbs over the watch, the strategy and the host's migrations."""

    def __init__(
        self,
        registry: InstanceRegistry,
        host: Host,
        watch: LoadWatch,
        migrations: MigrationService,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._registry = registry
        self._host = host
        self._watch = watch
        self._migrations = migrations
        self._tuning = tuning

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {Load: self._load, Balance: self._balance}

    # ---- load ------------------------------------------------------------------------------------

    async def _load(self, caller: Caller, asked: Load.Request) -> LoadInfo:
        """Loads of the selected VMs and all GPUs; all 0 until the watch, which the first request starts, has two samples."""
        self._watch.ask()
        sides = self._registry.chosen(caller.peer, asked.chosen)
        gpus = await self._host.gpus()
        now_ns = self._registry.clock_ns()
        elements = {side.name: self._watch.meter(side.name).elements(now_ns) for side in sides}
        demand = {name: sum(parts.values()) for name, parts in elements.items()}
        in_all = {gpu["gpu"]: _demand_on(gpu, sides, demand) for gpu in gpus}
        return {
            "time_ns": now_ns,
            "host": _part(sum(in_all.values()), sum(gpu["pes"] for gpu in gpus)),
            "gpus": {gpu["gpu"]: _part(in_all[gpu["gpu"]], gpu["pes"]) for gpu in gpus},
            "vms": {side.name: _part(demand[side.name], side.vm.channels.num_pes) for side in sides},
            "gpu_pes_used": in_all,
            "vm_pes_used": demand,
            "pes": {side.name: packed(elements[side.name], side.vm.channels.num_pes) for side in sides},
        }

    # ---- balance ---------------------------------------------------------------------------------

    async def _balance(self, caller: Caller, asked: Balance.Request) -> ProposalList:
        """Proposes migrations, and starts them with ``apply``.

        Only for callers who see all VMs: proposals for one VM follow from the load of others.
        """
        if caller.peer.vms is not None:
            raise RefusedError("denied", f"balance is about all VMs of the host; {caller.peer.name} sees some of them")
        self._watch.ask()
        gpus = await self._host.gpus()
        places = tuple(Place(gpu["gpu"], gpu["kind"], gpu["pes"], gpu["memory_bytes"]) for gpu in gpus)
        tenants = tuple(self._tenant(side) for side in self._registry.sides.values() if side.vm.channels.ready)
        return {"moves": [self._started(one, apply=asked.apply) for one in propose(places, tenants, self._tuning)]}

    def _tenant(self, side: VmSide) -> Tenant:
        facts, now_ns = side.vm.facts(), self._registry.clock_ns()
        last = [one for one in self._migrations.of(lambda vm: vm == side.name) if one["state"] == "done"]
        migrated_ns = last[-1]["ended_ns"] if last else None
        return Tenant(
            vm=side.name,
            gpu=facts.gpu,
            pes=side.vm.channels.num_pes,
            most_pes=facts.pes_quota or side.vm.channels.num_pes,
            memory_bytes=facts.memory_quota_bytes,
            demand=self._watch.meter(side.name).sustained(now_ns),
            movable=facts.state == "ready" and side.confined_to is None and not (facts.quiesced or facts.stays),
            rested_ns=LONG_AGO_NS if migrated_ns is None else now_ns - migrated_ns,
        )

    def _started(self, proposal: Proposal, *, apply: bool) -> ProposalInfo:
        """Describes a proposal; `apply` starts its migration.

        :raise RefusedError: "busy": the VM is not ready any more.
        """
        number = None
        if apply:
            gpu = None if proposal.kind == "resize" else proposal.target
            number = self._migrations.begin(self._registry.sides[proposal.vm], gpu, range(proposal.pes))["migration"]
        source, target = f"{proposal.source}, {self._pes(proposal.vm)} PEs", f"{proposal.target}, {proposal.pes} PEs"
        return {"vm": proposal.vm, "source": source, "target": target, "reason": proposal.reason, "migration": number}

    def _pes(self, vm: str) -> int:
        return self._registry.sides[vm].vm.channels.num_pes


def _demand_on(gpu: GpuInfo, sides: Iterable[VmSide], demand: Mapping[str, float]) -> float:
    return sum(demand[side.name] for side in sides if gpu["gpu"] in side.vm.facts().gpu_names)


def _part(demand: float, pes: int) -> float:
    """Load, 0..1, even if the VMs together have more processing elements than the GPU."""
    return min(1.0, demand / pes) if pes else 0.0
