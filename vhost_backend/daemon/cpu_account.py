"""Account of a worker's CPU time, kept by the daemon: how much of it requests of the guest explain.

Guest code can leave threads behind that compute after their launch has ended. The kernel's clock counts their time, and
the in-flight memory says whether a request can have caused it. A worker can forge what it writes there, so a claim to
work explains no more than the processors of the VM's share, and a request that does not finish explains nothing for long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vhost_backend.daemon.inflight import Requests
from vhost_backend.daemon.worker_clock import WorkerClock
from vhost_backend.worker_protocol.budgets import STRAY_BURST_S, STRAY_SHARE, TimeBudget

HELPERS: Final = 3
"""Threads of a worker that may be busy beside its processing elements: the data plane, the main thread, control."""


@dataclass(slots=True)
class CpuTime:
    """CPU time of all workers that served a VM."""

    used_ns: int = 0
    stray_ns: int = 0
    """Part of `used_ns` that no request of the guest explains."""


class CpuAccount:
    """Adds one worker's CPU time to `total`, and says when it has used too much that no request explains."""

    def __init__(
        self,
        clock: WorkerClock,
        total: CpuTime,
        requests: Callable[[], Requests],
        *,
        num_pes: int | None,
        patience_s: float,
        now_s: Callable[[], float],
        counted_ns: int = 0,
    ) -> None:
        """`num_pes`: processing elements that are threads of the worker; None: nothing of the guest's runs on its
        processors, and all time counts as explained. `patience_s`: time for which a request explains CPU time while
        no request begins or ends and no long copy moves on. `now_s`: the daemon's clock. `counted_ns`: CPU time of the
        worker that `total` has already, as an earlier daemon has counted it.
        """
        self._clock = clock
        self._total = total
        self._requests = requests
        self._num_pes = num_pes
        self._patience_s = patience_s
        self._now_s = now_s
        self._budget = TimeBudget(STRAY_SHARE, STRAY_BURST_S, now_s)
        self._stray_ns = 0
        self._cpu_ns = clock.cpu_ns() or 0
        self._at_s = self._moved_s = now_s()
        self._seen = requests()
        total.used_ns += max(0, self._cpu_ns - counted_ns)

    @property
    def counted_ns(self) -> int:
        """CPU time of the worker that has been counted."""
        return self._cpu_ns

    def have_patience(self, patience_s: float) -> None:
        """Lets requests explain CPU time for longer than before."""
        self._patience_s = max(self._patience_s, patience_s)

    def count(self, *, is_busy: bool = False) -> None:
        """Counts the CPU time since the last count. `is_busy`: the worker did something that the daemon has asked for."""
        cpu_ns = self._clock.cpu_ns()
        if cpu_ns is None:
            return
        now_s = self._now_s()
        elapsed_s, self._at_s = now_s - self._at_s, now_s
        used_ns, self._cpu_ns = cpu_ns - self._cpu_ns, cpu_ns
        self._total.used_ns += used_ns
        if self._num_pes is None:
            return
        has_worked = self._has_worked(now_s) or is_busy
        explained_ns = int((self._num_pes + HELPERS) * elapsed_s * 1e9) if has_worked else 0
        stray_ns = max(0, used_ns - explained_ns)
        self._stray_ns += stray_ns
        self._total.stray_ns += stray_ns
        self._budget.spend(stray_ns / 1e9)

    def fault(self) -> str:
        """Returns the reason why the worker is faulty; "" if it is not."""
        if not self._budget.wait_s():
            return ""
        return f"used {self._stray_ns / 1e9:.1f} s of CPU time that no request of its guest explains"

    def _has_worked(self, now_s: float) -> bool:
        """True if a request began, ended or was in flight since the last count, as the in-flight memory says."""
        before, self._seen = self._seen, self._requests()
        if self._seen.mark != before.mark:
            self._moved_s = now_s
            return True
        return self._seen.any_in_flight and now_s - self._moved_s <= self._patience_s
