"""Weights of VMs, corrected while VMs compete for processors by what each has got of them (`vhost_backend.cores.shares`)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vhost_backend.cores import threads
from vhost_backend.cores.loans import Claim, Loans
from vhost_backend.cores.pool import CorePool, Place
from vhost_backend.cores.shares import Debts, Standing, Use
from vhost_backend.quarters import Weight

PERIOD_S: Final = 0.1
"""Time between two looks at VMs that have work."""
_COST: Final = 0.01
"""Most of a processor that reading clocks takes: looks become rarer where there are many VMs."""
_MOVING_COST: Final = 0.02
"""Most of a processor that moving threads of all VMs takes, when processors are lent: loans begin more rarely then."""
_RETURNS_S: Final = 10.0
"""Time for which a VM whose worker has ended still counts: it may get a new one."""
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
    place: Place
    count: Callable[[], int]
    """Number of elements that the VM may use."""


@dataclass(frozen=True, slots=True)
class _Seen:
    cpu_ns: int
    waited_ns: int


class FairShares:
    """Looks after the workers of one daemon, as long as there are at least two, and one of them has work."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._vms: dict[int, tuple[Weight, float]] = {}
        """Weights of VMs that compete, each with the time until which it does."""
        self._awake: dict[Competitor, float] = {}
        """Time until which each counts as one that has work."""
        self._seen: dict[Competitor, _Seen] = {}
        """Clocks of each, at the last look."""
        self._seen_s = 0.0
        self._debts: Debts[Competitor] = Debts()
        self._loans: Loans[Competitor] = Loans()
        self._timer: asyncio.TimerHandle | None = None
        self._reading_s = 0.0
        """Time that reading the clocks took at the last look."""
        self._lends_from_s = 0.0
        """Time before which no loan begins."""

    @contextlib.contextmanager
    def joined(self, one: Competitor) -> Iterator[None]:
        """Has a worker compete, until the block ends."""
        self._forget(self._now_s())
        self._vms[id(one.weight)] = one.weight, math.inf
        try:
            yield
        finally:
            self._vms[id(one.weight)] = one.weight, self._now_s() + _RETURNS_S
            self._awake.pop(one, None)
            self._seen.pop(one, None)
            self._correct(one, 1.0)
            if one.place.lent:
                one.place.pool.lend({})  # others get theirs again at the next look

    def wake(self, one: Competitor) -> None:
        """Notes that a worker does something."""
        self._awake[one] = self._now_s() + _AWAKE_S
        if self._timer is None and self._is_of_use:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.look()
        if self._is_of_use:
            wait_s = max(PERIOD_S, self._reading_s / _COST)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_time)

    def look(self) -> None:
        """Looks what workers that have work have got since the last look, and corrects their weights."""
        before, before_s, now_s = self._seen, self._seen_s, self._now_s()
        self._forget(now_s)
        self._awake = {one: until_s for one, until_s in self._awake.items() if until_s > now_s}
        found = {one: _seen(one) for one in self._awake} if self._is_of_use else {}
        self._seen = {one: seen for one, seen in found.items() if seen is not None}
        self._seen_s = now_s
        self._reading_s = self._now_s() - now_s
        uses = {one: _use(one, before[one], seen) for one, seen in self._seen.items() if one in before}
        elapsed_s = now_s - before_s
        standings = self._debts.settle(uses, elapsed_s)
        for one in before:
            self._correct(one, standings[one].factor if one in standings else 1.0)
        claims = {one: self._claim(one, uses[one], standing, elapsed_s) for one, standing in standings.items()}
        for pool in {one.place.pool for one in before}:
            self._lend(pool, claims)

    def _forget(self, now_s: float) -> None:
        """Forgets VMs that no longer compete."""
        self._vms = {key: (weight, until_s) for key, (weight, until_s) in self._vms.items() if until_s > now_s}

    def _lend(self, pool: CorePool, claims: Mapping[Competitor, Claim]) -> None:
        begin_s = self._now_s()
        loans = self._loans.look(claims, pool.competed, may_begin=begin_s >= self._lends_from_s)
        if pool.lend({one.place: one.count() for one in loans}):
            end_s = self._now_s()
            self._lends_from_s = end_s + (end_s - begin_s) / _MOVING_COST

    @property
    def _is_of_use(self) -> bool:
        """True if a worker has work, and there are others that might have some."""
        return bool(self._awake) and len(self._vms) > 1

    def _claim(self, one: Competitor, use: Use, standing: Standing, elapsed_s: float) -> Claim:
        sure = use.weight / sum(weight.value for weight, _until_s in self._vms.values()) * one.place.pool.competed
        entitled = standing.entitled_s / elapsed_s if use.is_alone else 0.0
        return Claim(one.count(), use.wanted_s / elapsed_s, entitled, sure)

    @staticmethod
    def _correct(one: Competitor, factor: float) -> None:
        with contextlib.suppress(OSError):  # its group is gone, or the host does not allow it
            one.correct(factor)


def _seen(one: Competitor) -> _Seen | None:
    """Clocks of a worker; None: it is gone."""
    cpu_ns = one.cpu_ns()
    if cpu_ns is None:
        return None
    times = (threads.times(one.pid, thread) for thread in one.elements)
    return _Seen(cpu_ns, sum(each.waited_ns for each in times if each is not None))


def _use(one: Competitor, before: _Seen, now: _Seen) -> Use:
    used_s = (now.cpu_ns - before.cpu_ns) / 1e9
    waited_s = max(0, now.waited_ns - before.waited_ns) / 1e9
    return Use(one.weight.value, used_s, used_s + waited_s, is_alone=one.weight.companions == 0)
