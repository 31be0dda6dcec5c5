"""The verbs ``load`` and ``balance``: how loaded the host is, and what the strategy would move, or has moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.fields import Fields
from vhost_backend.control.interface import Interface
from vhost_backend.control.load.meter import packed
from vhost_backend.control.load.strategy import DEFAULT, Move, Place, Tenant, Tuning, propose
from vhost_backend.control.load.watching import LoadWatch
from vhost_backend.control.moves import Moves
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.vm_port import Host
from vhost_backend.control.vm_side import VmSide
from virtio_proto.control.api import GpuInfo, LoadInfo, MoveInfo

LONG_AGO_NS: Final = 1 << 62


class LoadCommands:
    """A group of verbs over the watch, the strategy and the host's moves."""

    def __init__(
        self, interface: Interface, host: Host, watch: LoadWatch, moves: Moves, tuning: Tuning = DEFAULT
    ) -> None:
        self._interface = interface
        self._host = host
        self._watch = watch
        self._moves = moves
        self._tuning = tuning

    def handlers(self) -> Mapping[str, Handler]:
        return {"load": self._load, "balance": self._balance}

    # ---- load ------------------------------------------------------------------------------------

    async def _load(self, caller: Caller, fields: Fields) -> LoadInfo:
        """Of what the selector chooses. The first question has the watch begin: until it has looked twice all is 0."""
        chosen = fields.selector()
        fields.done()
        self._watch.ask()
        sides = self._interface.chosen(caller.peer, chosen)
        gpus = await self._host.gpus()
        now_ns = self._interface.clock_ns()
        elements = {side.name: self._watch.meter(side.name).elements(now_ns) for side in sides}
        demand = {name: sum(parts.values()) for name, parts in elements.items()}
        in_all = {gpu["gpu"]: _demand_on(gpu, sides, demand) for gpu in gpus}
        return {
            "time_ns": now_ns,
            "host": _part(sum(in_all.values()), sum(gpu["pes"] for gpu in gpus)),
            "gpus": {gpu["gpu"]: _part(in_all[gpu["gpu"]], gpu["pes"]) for gpu in gpus},
            "vms": {side.name: _part(demand[side.name], side.vm.channels.num_pes) for side in sides},
            "pes": {side.name: packed(elements[side.name], side.vm.channels.num_pes) for side in sides},
        }

    # ---- balance ---------------------------------------------------------------------------------

    async def _balance(self, caller: Caller, fields: Fields) -> dict[str, list[MoveInfo]]:
        """What the whole system's load asks for; with ``apply`` it is begun.

        Only for those who see the whole host: what moves one VM is what others do.
        """
        apply = fields.flag("apply")
        fields.done()
        if caller.peer.vms is not None:
            raise RefusedError("denied", f"balance is about all VMs of the host; {caller.peer.name} sees some of them")
        self._watch.ask()
        gpus = await self._host.gpus()
        places = tuple(Place(gpu["gpu"], gpu["kind"], gpu["pes"], gpu["memory_bytes"]) for gpu in gpus)
        tenants = tuple(self._tenant(side) for side in self._interface.sides.values() if side.vm.channels.ready)
        return {"moves": [self._told(move, apply=apply) for move in propose(places, tenants, self._tuning)]}

    def _tenant(self, side: VmSide) -> Tenant:
        facts, now_ns = side.vm.facts(), self._interface.clock_ns()
        last = [move for move in self._moves.of(lambda vm: vm == side.name) if move["state"] == "done"]
        moved_ns = last[-1]["ended_ns"] if last else None
        return Tenant(
            vm=side.name,
            gpu=facts.gpu,
            pes=side.vm.channels.num_pes,
            most_pes=facts.pes_quota or side.vm.channels.num_pes,
            memory_bytes=facts.memory_quota_bytes,
            demand=self._watch.meter(side.name).sustained(now_ns),
            movable=facts.state == "ready" and side.confined_to is None and not facts.quiesced,
            rested_ns=LONG_AGO_NS if moved_ns is None else now_ns - moved_ns,
        )

    def _told(self, move: Move, *, apply: bool) -> MoveInfo:
        """What is answered about a proposal; `apply` begins it, unless something has changed meanwhile."""
        number = None
        if apply:
            gpu = None if move.kind == "resize" else move.target
            number = self._moves.begin(self._interface.sides[move.vm], gpu, range(move.pes))["migration"]
        source, target = f"{move.source}, {self._pes(move.vm)} PEs", f"{move.target}, {move.pes} PEs"
        return {"vm": move.vm, "source": source, "target": target, "reason": move.reason, "migration": number}

    def _pes(self, vm: str) -> int:
        return self._interface.sides[vm].vm.channels.num_pes


def _demand_on(gpu: GpuInfo, sides: Iterable[VmSide], demand: Mapping[str, float]) -> float:
    return sum(demand[side.name] for side in sides if gpu["gpu"] in side.vm.facts().gpu_names)


def _part(demand: float, pes: int) -> float:
    """0..1, also where VMs together have more elements than there are."""
    return min(1.0, demand / pes) if pes else 0.0
