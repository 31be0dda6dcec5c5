"""Where work should move: the whole system's load and what fits where in, moves with their reasons out.

The *demand* of a VM is how many elements it keeps busy; the *load* of a place is the demand of its VMs by its elements.
There are two kinds of moves:

- *spread*: from the most loaded GPU to the least loaded one of the same kind;
- *resize*: on the software GPU, whose elements are threads on the host's processors: to more elements for a VM that
  keeps all of its busy while processors idle, to fewer for VMs that are given more than they use while others wait.

A move is proposed only if it fits, and only if it makes things better by more than `Tuning.gain`: so what it does is never
undone by the next proposal as long as demands stay, and noise moves nothing. What was moved rests for a while.
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
    """Work moves between places of one kind."""
    pes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A VM where it is now."""

    vm: str
    gpu: str
    pes: int
    most_pes: int
    """Its quota."""
    memory_bytes: int
    """Its quota: a place must have so much for it."""
    demand: float | None
    """Elements that it has kept busy for a while; None: not known, so it stays."""
    movable: bool = True
    """Ready, not confined, not being moved."""
    rested_ns: int = 1 << 62
    """Since its last move."""


@dataclass(frozen=True, slots=True)
class Move:
    """One proposal."""

    vm: str
    kind: Kind
    source: str
    target: str
    pes: int
    """How many elements it gets there."""
    reason: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """When moving pays."""

    spread: float = 0.25
    """Difference of two loads from which on work is moved."""
    gain: float = 0.10
    """By so much the higher one of the two must fall."""
    busy: float = 0.90
    """Of its elements, from which on a VM is short of them."""
    idle: float = 0.40
    """Of its elements, below which a VM has too many, once others are short."""
    rest_ns: int = 30_000_000_000


DEFAULT: Final = Tuning()


def loads(places: Iterable[Place], tenants: Iterable[Tenant]) -> dict[str, float]:
    """By place: demand per element. Above 1: VMs wait for each other."""
    demand = {place.gpu: 0.0 for place in places}
    for tenant in tenants:
        if tenant.gpu in demand:
            demand[tenant.gpu] += tenant.demand or 0.0
    return {place.gpu: demand[place.gpu] / place.pes for place in places}


def propose(places: Iterable[Place], tenants: Iterable[Tenant], tuning: Tuning = DEFAULT) -> tuple[Move, ...]:
    """What to move now; no VM and no place twice. Doing less of it, or nothing, is as good a start for the next time."""
    places, tenants = tuple(places), tuple(tenants)
    moves: list[Move] = []
    touched: set[str] = set()
    for kind in sorted({place.kind for place in places}):
        alike = [place for place in places if place.kind == kind]
        while (move := _spread(alike, tenants, touched, tuning)) is not None:
            moves.append(move)
            touched |= {move.source, move.target}
            tenants = _after(tenants, move)
    moved = {move.vm for move in moves}
    for place in places:
        if place.kind == "cpu" and place.gpu not in touched:
            moves += _resize(place, [t for t in tenants if t.gpu == place.gpu and t.vm not in moved], tuning)
    return tuple(moves)


def _after(tenants: tuple[Tenant, ...], move: Move) -> tuple[Tenant, ...]:
    """As it is once a move is done."""
    return tuple(
        replace(item, gpu=move.target, pes=move.pes, rested_ns=0) if item.vm == move.vm else item for item in tenants
    )


def _may_move(tenant: Tenant, tuning: Tuning) -> bool:
    return tenant.movable and tenant.demand is not None and tenant.rested_ns >= tuning.rest_ns


# ---- between GPUs --------------------------------------------------------------------------------


def _spread(places: list[Place], tenants: tuple[Tenant, ...], touched: set[str], tuning: Tuning) -> Move | None:
    """The move that lowers the highest load most."""
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
        if tenant.gpu != high.gpu or not _may_move(tenant, tuning) or not _fits(tenant, low, tenants):
            continue
        demand = tenant.demand or 0.0
        after = max(load[high.gpu] - demand / high.pes, load[low.gpu] + demand / low.pes)
        if load[high.gpu] - after >= tuning.gain and (best is None or (after, tenant.vm) < best[:2]):
            best = (after, tenant.vm, tenant)
    if best is None:
        return None
    after, vm, tenant = best
    reason = f"GPU {high.gpu} has a load of {load[high.gpu]:.2f} and {low.gpu} of {load[low.gpu]:.2f}; then at most {after:.2f}"
    return Move(vm, "spread", high.gpu, low.gpu, min(tenant.pes, low.pes), reason)


def _fits(tenant: Tenant, place: Place, tenants: Iterable[Tenant]) -> bool:
    """Is there memory for all that it may ever use, and are there elements as it has now?"""
    taken = sum(item.memory_bytes for item in tenants if item.gpu == place.gpu)
    return tenant.memory_bytes <= place.memory_bytes - taken and tenant.pes <= place.pes


# ---- on the software GPU -------------------------------------------------------------------------


def _resize(place: Place, tenants: list[Tenant], tuning: Tuning) -> list[Move]:
    """Elements for VMs that are short of them, as long as processors idle or others have too many."""
    idle = place.pes - sum(item.demand or 0.0 for item in tenants)
    short = [item for item in tenants if _may_move(item, tuning) and _is_short(item, tuning)]
    short.sort(key=lambda item: (-(item.demand or 0.0) / item.pes, item.vm))
    for tenant in short:
        extra = min(tenant.most_pes - tenant.pes, tenant.pes, math.floor(idle))
        if extra >= 1:
            reason = (
                f"it keeps {tenant.demand or 0.0:.1f} of {tenant.pes} elements busy, and {idle:.1f} of the host's idle"
            )
            return [_resized(tenant, tenant.pes + extra, reason)]
    if not short and _demand(tenants) <= place.pes * tuning.busy:
        return []
    return _shrink(place, tenants, tuning)


def _shrink(place: Place, tenants: list[Tenant], tuning: Tuning) -> list[Move]:
    """One VM that is given far more than it uses, while all together are given more than there is."""
    given = sum(item.pes for item in tenants)
    wasteful = [
        item
        for item in tenants
        if _may_move(item, tuning) and item.pes > 1 and (item.demand or 0.0) < tuning.idle * item.pes
    ]
    if given <= place.pes or not wasteful:
        return []
    tenant = max(wasteful, key=lambda item: (item.pes - (item.demand or 0.0), item.vm))
    pes = max(1, math.ceil((tenant.demand or 0.0) / ((tuning.busy + tuning.idle) / 2)))
    if pes >= tenant.pes:
        return []
    reason = (
        f"{given} elements are given where there are {place.pes}, "
        f"and it keeps {tenant.demand or 0.0:.1f} of {tenant.pes} busy"
    )
    return [_resized(tenant, pes, reason)]


def _is_short(tenant: Tenant, tuning: Tuning) -> bool:
    return tenant.pes < tenant.most_pes and (tenant.demand or 0.0) >= tuning.busy * tenant.pes


def _demand(tenants: Iterable[Tenant]) -> float:
    return sum(item.demand or 0.0 for item in tenants)


def _resized(tenant: Tenant, pes: int, reason: str) -> Move:
    return Move(tenant.vm, "resize", tenant.gpu, tenant.gpu, pes, reason)
