"""Rows of the cost of an idle VM for the host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from bench import vgcd
from bench.lab import Lab
from bench.processes import Resident, cpu_ns, resident
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.vgcd import OurDevice

SETTLE_S: Final = 0.5
"""Time after the last request in which all bounded spinning ends."""


def idle_percent(ours: OurDevice, seconds: float) -> float:
    """CPU time of the daemon and its descendants while the guest is idle, in percent of one CPU."""
    time.sleep(SETTLE_S)
    before, start = cpu_ns(ours.pids), time.monotonic_ns()
    time.sleep(seconds)
    return (cpu_ns(ours.pids) - before) / (time.monotonic_ns() - start) * 100


def parts(memory: Resident) -> str:
    """Formats the parts of resident memory."""
    return f"(its own {memory.anon:.1f}, files {memory.file:.1f}, shared {memory.shared:.1f} MiB)"


@row("idle_cpu_percent", "worker_rss_mib", "daemon_rss_mib")
def footprint(lab: Lab) -> Iterator[Outcome]:
    """Idle CPU time and resident memory of all processes of a new daemon with one VM on the CPU engine, after a few
    requests.
    """
    with vgcd.running(lab.own_folder("footprint"), "cpu", lab.threads) as ours:
        ours.null_requests(8)
        share = idle_percent(ours, lab.samples(10, 3))
        worker, daemon = resident(ours.worker_pids), resident([ours.daemon_pid])
    yield outcome("idle_cpu_percent", share, "%", "lower", goal=Goal("value", "<", 0.5))
    goal = Goal("value", "<", 40)
    yield outcome("worker_rss_mib", worker.total, "MiB", "lower", against=parts(worker), goal=goal)
    yield outcome("daemon_rss_mib", daemon.total, "MiB", "lower", against=parts(daemon))
