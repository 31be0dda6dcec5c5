"""Loads from busy times: of elements over the last second, of VMs also over so long that a move is worth its pause."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NS_PER_S: Final = 1_000_000_000
SHOWN_NS: Final = NS_PER_S
"""What is shown is of so long."""
SUSTAINED_NS: Final = 10 * NS_PER_S
"""What moves are decided by is of so long, and of at least half of it."""
STALE_NS: Final = 3 * NS_PER_S
"""An element that has not been heard of for so long does nothing, as far as is known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Busy time of a VM's elements, each since its worker began."""

    time_ns: int
    busy_ns: Mapping[int, int]


class VmMeter:
    """One VM: its samples of the last `SUSTAINED_NS`."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def note(self, sample: Sample) -> None:
        """What comes is of now; times that do not rise, and elements that begin anew, begin anew."""
        if self._samples and sample.time_ns <= self._samples[-1].time_ns:
            return
        if self._samples and _has_begun_anew(self._samples[-1], sample):
            self._samples.clear()
        self._samples.append(sample)
        while len(self._samples) > 2 and self._samples[1].time_ns <= sample.time_ns - SUSTAINED_NS:
            self._samples.popleft()

    def elements(self, now_ns: int) -> dict[int, float]:
        """By element: busy part of the last second or so, 0..1."""
        return self._over(SHOWN_NS, now_ns)

    def sustained(self, now_ns: int) -> float | None:
        """How many elements it has kept busy for a while; None: it has not been watched for so long."""
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
    """The youngest sample that covers the window, or the oldest there is."""
    return item is oldest or last.time_ns - item.time_ns >= window_ns


def _has_begun_anew(before: Sample, after: Sample) -> bool:
    return before.busy_ns.keys() != after.busy_ns.keys() or any(
        busy_ns < before.busy_ns[pe] for pe, busy_ns in after.busy_ns.items()
    )


def packed(elements: Mapping[int, float], num_pes: int) -> bytes:
    """A byte per element, in 1/255, as `LoadInfo` has it."""
    return bytes(round(255 * elements.get(pe, 0.0)) for pe in range(num_pes))
