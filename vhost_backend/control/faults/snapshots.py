"""Snapshots: what the processing elements of the chosen VMs do at one moment, as nearly as possible.

All VMs are asked at once. Processing elements that do not answer by the deadline are listed as silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ChannelError, ElementState
from virtio_proto.control.api import PeState, SnapshotInfo
from virtio_proto.control.selector import Selector

SPARE_S: Final = 0.25
"""Time added to the deadline for the answer's way through the worker."""


@dataclass(frozen=True, slots=True)
class VmSnapshot:
    """Snapshot of one VM. `states` is empty if its worker did not answer."""

    side: VmSide
    pes: tuple[int, ...]
    states: tuple[ElementState, ...]


async def look(sides: Iterable[VmSide], selector: Selector, deadline_ms: int) -> list[VmSnapshot]:
    """Takes snapshots of the chosen processing elements of all VMs at once."""
    return await asyncio.gather(*(_look_at(side, selector, deadline_ms) for side in sides))


async def _look_at(side: VmSide, selector: Selector, deadline_ms: int) -> VmSnapshot:
    pes = selector.pes_of(side.vm.channels.num_pes)
    states: Sequence[ElementState] = ()
    try:
        async with asyncio.timeout(deadline_ms / 1000 + SPARE_S):
            states = await side.vm.channels.snapshot(deadline_ms)
    except (ChannelError, TimeoutError):
        states = ()
    chosen = frozenset(pes)
    return VmSnapshot(side, pes, tuple(state for state in states if state.pe in chosen))


def assemble(parts: Iterable[VmSnapshot], now_ns: int, is_hung: Callable[[VmSide, ElementState], bool]) -> SnapshotInfo:
    """Combines snapshots of VMs into one; `is_hung` judges each processing element."""
    pes: list[PeState] = []
    silent: list[str] = []
    wanted = 0
    for part in parts:
        wanted += len(part.pes) or 1
        seen = {state.pe for state in part.states}
        silent += [f"{part.side.name}/{pe}" for pe in part.pes if pe not in seen] or _without_worker(part)
        gpu = part.side.vm.facts().gpu
        pes += [_info(gpu, part.side.name, state, hung=is_hung(part.side, state)) for state in part.states]
    times = [pe["at_ns"] for pe in pes]
    return {
        "time_ns": min(times, default=now_ns),
        "skew_ns": max(times, default=0) - min(times, default=0),
        "coverage": len(pes) / wanted if wanted else 1.0,
        "silent": silent,
        "pes": pes,
    }


def _without_worker(part: VmSnapshot) -> list[str]:
    return [] if part.pes else [f"{part.side.name}/*"]


def _info(gpu: str, vm: str, state: ElementState, *, hung: bool) -> PeState:
    return {
        "gpu": gpu,
        "vm": vm,
        "pe": state.pe,
        "kernel": state.kernel,
        "launch": state.launch,
        "block": state.block,
        "warps": state.warps,
        "since_ns": state.since_ns,
        "last_record_ns": state.last_record_ns,
        "at_ns": state.at_ns,
        "hung": hung,
    }
