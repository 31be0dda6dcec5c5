"""Load strategy: proposes migrations, with reasons, from the load and the memory of all GPUs of a host.

The *demand* of a VM is the number of processing elements that it keeps busy; the *load* of a GPU is the demand of its
VMs divided by its number of processing elements. There are two kinds of proposals:

- *spread*: from the most loaded GPU to the least loaded GPU of the same kind;
- *resize*: on the software GPU, whose processing elements are threads on the host's processors: more of them for a VM
  that keeps all of its own busy while processors idle, fewer for VMs that use few of theirs while others wait.

A migration is proposed only if the VM fits and the highest load falls by `Tuning.gain` or more. So the next proposal
does not undo it while demands stay the same, and noise causes no migration. A migrated VM rests for `Tuning.rest_ns`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["spread", "resize"]


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU, or the software GPU."""

    gpu: str
    kind: str
    """VMs migrate only between places of one kind."""
    pes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A VM at its present place."""

    vm: str
    gpu: str
    pes: int
    most_pes: int
    """Quota of processing elements."""
    memory_bytes: int
    """Quota of memory, which the target of a migration must have free."""
    demand: float | None
    """Average number of busy processing elements; None: unknown, so the VM is not migrated."""
    movable: bool = True
    """True if the VM may migrate: its engine can, and it is ready, not confined, not quiesced."""
    rested_ns: int = 1 << 62
    """Time since the VM's last migration."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed migration."""

    vm: str
    kind: Kind
    source: str
    target: str
    pes: int
    """Number of processing elements that the VM gets at the target."""
    reason: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds from which on a migration is worth its pause."""

    spread: float = 0.25
    """Least difference between the loads of two GPUs."""
    gain: float = 0.10
    """Least decrease of the higher load."""
    busy: float = 0.90
    """Busy part of its processing elements from which on a VM is short of them."""
    idle: float = 0.40
    """Busy part of its processing elements below which a VM has too many, if other VMs are short."""
    rest_ns: int = 30_000_000_000
    """Least time between two migrations of a VM."""


DEFAULT: Final = Tuning()


def loads(places: Iterable[Place], tenants: Iterable[Tenant]) -> dict[str, float]:
    """Loads by place: demand per processing element. Above 1, VMs wait for each other."""
    demand = {place.gpu: 0.0 for place in places}
    for tenant in tenants:
        if tenant.gpu in demand:
            demand[tenant.gpu] += tenant.demand or 0.0
    return {place.gpu: demand[place.gpu] / place.pes for place in places}


def propose(places: Iterable[Place], tenants: Iterable[Tenant], tuning: Tuning = DEFAULT) -> tuple[Proposal, ...]:
    """Proposes migrations, at most one for each VM and each GPU. The caller may carry out any part of them."""
    places, tenants = tuple(places), tuple(tenants)
    proposals: list[Proposal] = []
    touched: set[str] = set()
    for kind in sorted({place.kind for place in places}):
        alike = [place for place in places if place.kind == kind]
        while (proposal := _spread(alike, tenants, touched, tuning)) is not None:
            proposals.append(proposal)
            touched |= {proposal.source, proposal.target}
            tenants = _after(tenants, proposal)
    migrating = {proposal.vm for proposal in proposals}
    for place in places:
        if place.kind == "cpu" and place.gpu not in touched:
            proposals += _resize(place, [t for t in tenants if t.gpu == place.gpu and t.vm not in migrating], tuning)
    return tuple(proposals)


def _after(tenants: tuple[Tenant, ...], proposal: Proposal) -> tuple[Tenant, ...]:
    """Tenants at their places after a proposed migration."""
    return tuple(
        replace(item, gpu=proposal.target, pes=proposal.pes, rested_ns=0) if item.vm == proposal.vm else item
        for item in tenants
    )


def _may_migrate(tenant: Tenant, tuning: Tuning) -> bool:
    return tenant.movable and tenant.demand is not None and tenant.rested_ns >= tuning.rest_ns


# ---- between GPUs --------------------------------------------------------------------------------


def _spread(places: list[Place], tenants: tuple[Tenant, ...], touched: set[str], tuning: Tuning) -> Proposal | None:
    """Proposes the migration that lowers the highest load most; None if no migration is worth its pause."""
    free = [place for place in places if place.gpu not in touched]
    if len(free) < 2:
        return None
    load = loads(free, tenants)
    high = max(free, key=lambda place: (load[place.gpu], place.gpu))
    low = min(free, key=lambda place: (load[place.gpu], place.gpu))
    if load[high.gpu] - load[low.gpu] < tuning.spread:
        return None
    best: tuple[float, str, Tenant] | None = None
    for tenant in tenants:
        if tenant.gpu != high.gpu or not _may_migrate(tenant, tuning) or not _fits(tenant, low, tenants):
            continue
        demand = tenant.demand or 0.0
        after = max(load[high.gpu] - demand / high.pes, load[low.gpu] + demand / low.pes)
        if load[high.gpu] - after >= tuning.gain and (best is None or (after, tenant.vm) < best[:2]):
            best = (after, tenant.vm, tenant)
    if best is None:
        return None
    after, vm, tenant = best
    reason = f"GPU {high.gpu} has a load of {load[high.gpu]:.2f} and {low.gpu} of {load[low.gpu]:.2f}; then at most {after:.2f}"
    return Proposal(vm, "spread", high.gpu, low.gpu, min(tenant.pes, low.pes), reason)


def _fits(tenant: Tenant, place: Place, tenants: Iterable[Tenant]) -> bool:
    """True if `place` has memory for the VM's whole quota, and as many processing elements as the VM has now."""
    taken = sum(item.memory_bytes for item in tenants if item.gpu == place.gpu)
    return tenant.memory_bytes <= place.memory_bytes - taken and tenant.pes <= place.pes


# ---- on the software GPU -------------------------------------------------------------------------


def _resize(place: Place, tenants: list[Tenant], tuning: Tuning) -> list[Proposal]:
    """Proposes more processing elements for a VM that is short of them if processors idle, else fewer for another VM."""
    idle = place.pes - sum(item.demand or 0.0 for item in tenants)
    short = [item for item in tenants if _may_migrate(item, tuning) and _is_short(item, tuning)]
    short.sort(key=lambda item: (-(item.demand or 0.0) / item.pes, item.vm))
    for tenant in short:
        extra = min(tenant.most_pes - tenant.pes, tenant.pes, math.floor(idle))
        if extra >= 1:
            reason = f"the VM keeps {tenant.demand or 0.0:.1f} of its {tenant.pes} PEs busy, and {idle:.1f} of the host's idle"
            return [_resized(tenant, tenant.pes + extra, reason)]
    if not short and _demand(tenants) <= place.pes * tuning.busy:
        return []
    return _shrink(place, tenants, tuning)


def _shrink(place: Place, tenants: list[Tenant], tuning: Tuning) -> list[Proposal]:
    """Proposes fewer processing elements for the VM that wastes most, if VMs together have more than the host."""
    given = sum(item.pes for item in tenants)
    wasteful = [
        item
        for item in tenants
        if _may_migrate(item, tuning) and item.pes > 1 and (item.demand or 0.0) < tuning.idle * item.pes
    ]
    if given <= place.pes or not wasteful:
        return []
    tenant = max(wasteful, key=lambda item: (item.pes - (item.demand or 0.0), item.vm))
    pes = max(1, math.ceil((tenant.demand or 0.0) / ((tuning.busy + tuning.idle) / 2)))
    if pes >= tenant.pes:
        return []
    reason = (
        f"the VMs have {given} PEs together where the host has {place.pes}, "
        f"and this VM keeps {tenant.demand or 0.0:.1f} of its {tenant.pes} busy"
    )
    return [_resized(tenant, pes, reason)]


def _is_short(tenant: Tenant, tuning: Tuning) -> bool:
    return tenant.pes < tenant.most_pes and (tenant.demand or 0.0) >= tuning.busy * tenant.pes


def _demand(tenants: Iterable[Tenant]) -> float:
    return sum(item.demand or 0.0 for item in tenants)


def _resized(tenant: Tenant, pes: int, reason: str) -> Proposal:
    return Proposal(tenant.vm, "resize", tenant.gpu, tenant.gpu, pes, reason)
