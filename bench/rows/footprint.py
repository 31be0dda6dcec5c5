"""What a VM costs the host while its guest does nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench import vgcd
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.vgcd import OurDevice

SETTLE_S: Final = 0.5
"""After the last request: everybody's bounded spinning is over by then."""


def idle_percent(ours: OurDevice, seconds: float) -> float:
    """CPU time of the daemon and all that it started while the guest is silent, in percent of one CPU."""
    time.sleep(SETTLE_S)
    before, start = _cpu_ns(ours.pids), time.monotonic_ns()
    time.sleep(seconds)
    return (_cpu_ns(ours.pids) - before) / (time.monotonic_ns() - start) * 100


def _cpu_ns(pids: Iterable[int]) -> int:
    """CPU time of all threads of the processes so far."""
    tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def rss_mib(pid: int) -> float:
    """Resident memory, pages of the shared region included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} shows no VmRSS")


@row("idle_cpu_percent", "worker_rss_mib", "daemon_rss_mib")
def footprint(lab: Lab) -> Iterator[Outcome]:
    """A fresh daemon with one VM on the CPU engine, after a few requests: CPU time of all its processes while the
    guest is silent, and their resident memory.
    """
    with vgcd.running(lab.own_folder("footprint"), "cpu", lab.threads) as ours:
        ours.null_requests(8)
        share = idle_percent(ours, lab.samples(10, 3))
        worker, daemon = sum(map(rss_mib, ours.worker_pids)), rss_mib(ours.daemon_pid)
    yield outcome("idle_cpu_percent", share, "%", "lower", goal=Goal("value", "<", 0.5))
    yield outcome("worker_rss_mib", worker, "MiB", "lower", goal=Goal("value", "<", 40))
    yield outcome("daemon_rss_mib", daemon, "MiB", "lower")
