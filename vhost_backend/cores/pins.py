"""Processing elements that always have work, each on a processor of its own.

Where as many threads as there are processors always have work, the kernel moves them all the same, whenever another thread
wakes beside one of them: two wait for each other then while a processor does nothing, and the weights of control groups,
which count for each processor by itself, give a VM more or less than its share. Threads that wait for work are better off
on any processor that is free when the work comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from vhost_backend.cores import threads

_BUSY: Final = 0.95
_STILL_BUSY: Final = 0.75
"""Parts of the time in which a thread ran or waited for a processor, from which on it counts as busy, and as still busy."""


class Pins:
    """Threads of one process that run processing elements. Each gets a processor while they are busy and as many as these."""

    def __init__(
        self,
        pid: int,
        elements: Iterable[int],
        cores: Callable[[], frozenset[int]],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`cores`: processors on which the threads `elements` of process `pid` run, at any time."""
        self._pid = pid
        self._elements = sorted(elements)
        self._cores = cores
        self._now_ns = now_ns
        self._seen: dict[int, tuple[int, int]] = {}
        """When each thread was looked at, and its wanted time then (ns)."""
        self._are_set = False

    @property
    def are_set(self) -> bool:
        """True while each busy thread has a processor of its own."""
        return self._are_set

    def look(self) -> None:
        """Looks which threads were busy since the last look, and gives them processors, or takes these back.

        :raise OSError: the process is gone, or this one may not do it.
        """
        cores = self._cores()
        if not self._are_set and not 1 < len(cores) <= len(self._elements):
            return
        busy = self._busy()
        if len(busy) == len(cores) > 1:
            if not self._are_set:
                self._are_set = True
                for thread, core in zip(busy, sorted(cores), strict=True):
                    threads.put(self._pid, thread, {core})
        else:
            self.take_out()

    def take_out(self) -> None:
        """Lets the threads run on all of their processors again.

        :raise OSError: this process may not do it.
        """
        if self._are_set:
            self._are_set = False
            for thread in self._elements:
                threads.put(self._pid, thread, self._cores())

    def _busy(self) -> list[int]:
        part = _STILL_BUSY if self._are_set else _BUSY
        before, self._seen = self._seen, {}
        busy = []
        for thread in self._elements:
            now_ns, times = self._now_ns(), threads.times(self._pid, thread)
            if times is None:
                continue  # it has ended, or this kernel does not say
            wanted_ns = times.ran_ns + times.waited_ns
            self._seen[thread] = now_ns, wanted_ns
            then_ns, had_ns = before.get(thread, (now_ns, wanted_ns))
            if now_ns > then_ns and wanted_ns - had_ns >= part * (now_ns - then_ns):
                busy.append(thread)
        return busy
