"""Weights of VMs, corrected while VMs compete for processors by what each has got of them (`vhost_backend.cores.shares`)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from vhost_backend.cores import threads
from vhost_backend.cores.shares import Debts, Use
from vhost_backend.quarters import Weight

PERIOD_S: Final = 0.1
"""Time between two looks at VMs that have work."""
_COST: Final = 0.01
"""Most of a processor that the looks take: they become rarer where there are many VMs."""
_AWAKE_S: Final = 1.0
"""Time for which a VM counts as one that has work after its worker was seen to do something."""


@dataclass(frozen=True, slots=True, eq=False)
class Competitor:
    """A worker whose processing elements share processors with those of other VMs."""

    pid: int
    elements: Iterable[int]
    """Threads of its elements."""
    cpu_ns: Callable[[], int | None]
    """CPU time of all threads that it has or had; None: it is gone."""
    weight: Weight
    correct: Callable[[float], None]
    """Multiplies the weight that the kernel is given, in place of the factor before."""


@dataclass(frozen=True, slots=True)
class _Seen:
    cpu_ns: int
    waited_ns: int


class FairShares:
    """Looks after the workers of one daemon, as long as at least two of them have work."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._awake: dict[Competitor, float] = {}
        """Time until which each counts as one that has work."""
        self._seen: dict[Competitor, _Seen] = {}
        """What each has had, at the last look."""
        self._seen_s = 0.0
        self._debts: Debts[Competitor] = Debts()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def joined(self, one: Competitor) -> Iterator[None]:
        """Has a worker compete, until the block ends."""
        try:
            yield
        finally:
            self._awake.pop(one, None)
            self._seen.pop(one, None)
            self._correct(one, 1.0)

    def wake(self, one: Competitor) -> None:
        """Notes that a worker does something."""
        self._awake[one] = self._now_s() + _AWAKE_S
        if self._timer is None and len(self._awake) > 1:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._on_time)

    def _on_time(self) -> None:
        begin_s, self._timer = self._now_s(), None
        self.look()
        if len(self._awake) > 1:
            wait_s = max(PERIOD_S, (self._now_s() - begin_s) / _COST)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_time)

    def look(self) -> None:
        """Looks what workers that have work have got since the last look, and corrects their weights."""
        before, before_s, now_s = self._seen, self._seen_s, self._now_s()
        self._awake = {one: until_s for one, until_s in self._awake.items() if until_s > now_s}
        found = {one: _seen(one) for one in self._awake} if len(self._awake) > 1 else {}
        self._seen = {one: seen for one, seen in found.items() if seen is not None}
        self._seen_s = now_s
        uses = {one: _use(one, before[one], seen) for one, seen in self._seen.items() if one in before}
        factors = self._debts.settle(uses if len(uses) > 1 else {}, now_s - before_s)
        for one in before:
            self._correct(one, factors.get(one, 1.0))

    @staticmethod
    def _correct(one: Competitor, factor: float) -> None:
        with contextlib.suppress(OSError):  # its group is gone, or the host does not allow it
            one.correct(factor)


def _seen(one: Competitor) -> _Seen | None:
    """What a worker has had; None: it is gone."""
    cpu_ns = one.cpu_ns()
    if cpu_ns is None:
        return None
    times = (threads.times(one.pid, thread) for thread in one.elements)
    return _Seen(cpu_ns, sum(each.waited_ns for each in times if each is not None))


def _use(one: Competitor, before: _Seen, now: _Seen) -> Use:
    used_s = (now.cpu_ns - before.cpu_ns) / 1e9
    waited_s = max(0, now.waited_ns - before.waited_ns) / 1e9
    return Use(one.weight.value, used_s, used_s + waited_s, is_alone=one.weight.companions == 0)
