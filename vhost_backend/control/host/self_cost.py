"""Cost of the control system itself: the daemon's processor time and memory, the processing elements' time for records."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vhost_backend.control.host.loop_delay import LoopDelay
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import MAX_COUNT
from virtio_proto.control.api import SelfInfo

_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class _Reading:
    """Values of all counters at one moment."""

    at_ns: int = 0
    cpu_ns: int = 0
    records: dict[str, int] = field(default_factory=dict)
    cost_ns: dict[str, int] = field(default_factory=dict)


class SelfCost:
    """Computes rates between the present and the last but one reading, so over at least a second."""

    def __init__(
        self, sides: Iterable[VmSide], budget_percent: float, clock_ns: Callable[[], int], loop: LoopDelay
    ) -> None:
        self._sides = sides
        self._budget_percent = budget_percent
        self._clock_ns = clock_ns
        self._loop = loop
        self._before = self._now = self._read()

    def info(self, visible: Iterable[VmSide]) -> SelfInfo:
        """Cost for a peer that sees the VMs `visible`; processor time and memory are those of the whole daemon."""
        now = self._read()
        if now.at_ns - self._now.at_ns >= 1_000_000_000:
            self._before, self._now = self._now, now
        before = self._before
        elapsed_ns = max(1, now.at_ns - before.at_ns)
        visible = list(visible)
        names = [side.name for side in visible]
        records = sum(_rise(before.records, now.records, name) for name in names)
        return {
            "time_ns": self._clock_ns(),
            "loop_delay_ns": self._loop.longest_ns(),
            "link_pauses": [pauses for side in visible for pauses in side.vm.facts().pauses],
            "cpu_percent": round(100 * (now.cpu_ns - before.cpu_ns) / elapsed_ns, 3),
            "memory_bytes": int(_STATM.read_text().split()[1]) * resource.getpagesize(),
            "channels": sum(len(side.table) for side in visible),
            "records_per_s": records * 1e9 / elapsed_ns,
            "lost": min(MAX_COUNT, sum(channel.counts.lost for side in visible for channel in side.table)),
            "budget_percent": self._budget_percent,
            "cost_percent": {
                side.name: 100
                * _rise(before.cost_ns, now.cost_ns, side.name)
                / (elapsed_ns * max(1, side.vm.channels.num_pes))
                for side in visible
            },
        }

    def _read(self) -> _Reading:
        times = os.times()
        return _Reading(
            at_ns=self._clock_ns(),
            cpu_ns=int((times.user + times.system) * 1e9),
            records={side.name: side.records_seen for side in self._sides},
            cost_ns={side.name: side.cost_seen_ns for side in self._sides},
        )


def _rise(before: Mapping[str, int], now: Mapping[str, int], vm: str) -> int:
    """Rise of a VM's counter, which begins at 0 with its side of the control system."""
    return now[vm] - min(before.get(vm, 0), now[vm])
