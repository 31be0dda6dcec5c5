"""Load meters of VMs: loads of processing elements over the last second, and a VM's demand over a longer time.

Migrations are decided by the longer average, as each costs its VM a pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NS_PER_S: Final = 1_000_000_000
SHOWN_NS: Final = NS_PER_S
"""Averaging window of the displayed load."""
SUSTAINED_NS: Final = 10 * NS_PER_S
"""Averaging window of the load that migrations are decided by; at least half of it must have been measured."""
STALE_NS: Final = 3 * NS_PER_S
"""Age of the last sample from which on processing elements count as idle."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Busy times of a VM's processing elements since its worker's start."""

    time_ns: int
    busy_ns: Mapping[int, int]


class VmMeter:
    """Samples of a VM during the last `SUSTAINED_NS`, and the loads that they give."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def note(self, sample: Sample) -> None:
        """Adds a sample. Samples of another set of processing elements, or with less busy time, come from a new worker and
        replace all earlier ones; a sample that is not newer than the last is ignored.
        """
        if self._samples and sample.time_ns <= self._samples[-1].time_ns:
            return
        if self._samples and _is_of_new_worker(self._samples[-1], sample):
            self._samples.clear()
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].time_ns <= sample.time_ns - SUSTAINED_NS:
            self._samples.popleft()

    def elements(self, now_ns: int) -> dict[int, float]:
        """Busy part, 0..1, of each processing element during the last `SHOWN_NS`."""
        return self._over(SHOWN_NS, now_ns)

    def sustained(self, now_ns: int) -> float | None:
        """Average number of busy processing elements during the last `SUSTAINED_NS`; None: sampled for less than half of it."""
        if not self._samples or self._samples[-1].time_ns - self._samples[0].time_ns < SUSTAINED_NS // 2:
            return None
        return sum(self._over(SUSTAINED_NS, now_ns).values())

    def _over(self, window_ns: int, now_ns: int) -> dict[int, float]:
        if len(self._samples) < 2 or now_ns - self._samples[-1].time_ns > STALE_NS:
            return {}
        last = self._samples[-1]
        first = next(
            item for item in reversed(self._samples) if _is_far_enough(item, last, window_ns, self._samples[0])
        )
        elapsed_ns = last.time_ns - first.time_ns
        return {
            pe: min(1.0, max(0, busy_ns - first.busy_ns.get(pe, 0)) / elapsed_ns)
            for pe, busy_ns in last.busy_ns.items()
        }


def _is_far_enough(item: Sample, last: Sample, window_ns: int, oldest: Sample) -> bool:
    """True if `item` lies at the begin of the window or before it, or is the oldest sample."""
    return item is oldest or last.time_ns - item.time_ns >= window_ns


def _is_of_new_worker(before: Sample, after: Sample) -> bool:
    return before.busy_ns.keys() != after.busy_ns.keys() or any(
        busy_ns < before.busy_ns[pe] for pe, busy_ns in after.busy_ns.items()
    )


def packed(elements: Mapping[int, float], num_pes: int) -> bytes:
    """Packs loads for `LoadInfo`: a byte per processing element, in 1/255."""
    return bytes(round(255 * elements.get(pe, 0.0)) for pe in range(num_pes))
