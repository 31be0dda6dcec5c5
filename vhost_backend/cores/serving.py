"""Threads that serve a VM with processors to itself: they use the shared ones, too, unless others work there.

The elements of such a VM wait for nobody. Those of its threads that take requests and answer them run best on another
processor, as long as one is free. Where others work, a request would wait for them, for milliseconds at a time, as the kernel
gives a group little weight on a processor where it does little: there they are better off beside their own elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from vhost_backend.cores import threads

_CROWDED: Final = 0.02
_LONG_NS: Final = 100_000
"""Part of the time for which the threads wait for processors, together, and time for which they wait each time, from which on the
shared ones count as crowded. Threads that hand work to each other wait as often, but for microseconds.
"""
_STAY_NS: Final = 30 * 10**9
"""Time after which they try the shared ones again."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Clocks of all threads, added up."""

    now_ns: int
    waited_ns: int
    turns: int

    def is_crowded(self, before: _Seen) -> bool:
        """True if they have waited much, and long at a time, since then."""
        waited_ns = self.waited_ns - before.waited_ns
        turns = self.turns - before.turns
        return waited_ns > _CROWDED * (self.now_ns - before.now_ns) and waited_ns > _LONG_NS * turns


class Serving:
    """Serving threads of one process, kept to the processors that their VM has to itself while the shared ones are crowded."""

    def __init__(
        self,
        pid: int,
        servers: Iterable[int],
        mine: Callable[[], frozenset[int]],
        all_of_them: Callable[[], frozenset[int]],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`servers`: threads of process `pid`. `mine`: processors that the VM has to itself at any time, if it has some;
        `all_of_them`: these and the shared ones.
        """
        self._pid = pid
        self._servers = sorted(servers)
        self._mine = mine
        self._all = all_of_them
        self._now_ns = now_ns
        self._seen: _Seen | None = None
        self._stay_until_ns: int | None = None

    @property
    def are_kept(self) -> bool:
        """True while the threads run on their VM's own processors alone."""
        return self._stay_until_ns is not None

    def look(self) -> None:
        """Looks how long the threads have waited since the last look, and moves them.

        :raise OSError: this process may not do it.
        """
        before, self._seen = self._seen, None
        if not self._mine():
            return
        now_ns = self._now_ns()
        if self._stay_until_ns is not None:
            if now_ns >= self._stay_until_ns:
                self._stay_until_ns = None
                self._put(self._all())
            return
        self._seen = self._now(now_ns)
        if before is not None and self._seen.is_crowded(before):
            self._stay_until_ns = now_ns + _STAY_NS
            self._put(self._mine())

    def moved(self) -> None:
        """Takes note that the threads were moved to all processors that they may use.

        :raise OSError: this process may not do it.
        """
        mine = self._mine()
        if not mine:
            self._stay_until_ns = None
        elif self.are_kept:
            self._put(mine)

    def _now(self, now_ns: int) -> _Seen:
        found = (threads.times(self._pid, thread) for thread in self._servers)
        known = [times for times in found if times is not None]
        return _Seen(now_ns, sum(times.waited_ns for times in known), sum(times.turns for times in known))

    def _put(self, cores: frozenset[int]) -> None:
        for thread in self._servers:
            threads.put(self._pid, thread, cores)
