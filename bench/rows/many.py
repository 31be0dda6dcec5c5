"""Rows of one daemon with many VMs: their start, memory, cost while idle, and a null request of one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from bench import frontend
from bench.greed import DEPTH, computing, greedy, rates, sized
from bench.host_vms import HostVm, connected, daemon, running
from bench.lab import Lab
from bench.processes import proportional_mib
from bench.registry import Outcome, row
from bench.results import Goal, SkipRow, outcome
from bench.rows.footprint import idle_percent
from bench.stats import Subject, alternate
from bench.vgcd import OurDevice
from tests.limits import ANSWERS_WITHIN_S
from tests.processes import launchers
from tests.waiting import until
from virtio_proto.schema import Health, Opcode

COUNTS: Final = (1, 16, 64, 256)
"""Numbers of VMs. The last one is left out of quick runs."""
LAUNCH_MS: Final = 1.0
IN_FLIGHT: Final = 128
"""Launches in each stream of all VMs together, that the last of many VMs does not wait for too long."""
IDLE_GOAL: Final = Goal("value", "<", 1.0)
IDLE_GOAL_AT: Final = 64
UNTIL_THEY_REST_S: Final = 3.0
"""Time after which the daemon leaves workers alone that do nothing."""
LONE: Final = "a lone VM"
_REST_NS: Final = 1_000_000


def start_ms(sockets: list[Path]) -> list[float]:
    """Times from the first connection until each VM is ready, when all frontends connect at once, as soon as the daemon
    serves them all; their workers have not ended yet when this returns.
    """
    until(lambda: all(path.exists() for path in sockets))
    with ExitStack() as stack:
        begin = time.perf_counter()
        frontends = [stack.enter_context(frontend.connect(path, ANSWERS_WITHIN_S)) for path in sockets]
        for one in frontends:
            one.negotiate()
        times = []
        for one in frontends:
            one.wait_for_config(lambda space: space.health == Health.READY)
            times.append((time.perf_counter() - begin) * 1e3)
        return times


def has_no_worker(daemon_pid: int) -> bool:
    """True if all workers of the daemon have ended."""
    try:
        return not launchers(daemon_pid)
    except (FileNotFoundError, ProcessLookupError):  # one has just ended
        return False


def null_us(ours: OurDevice, count: int) -> Subject:
    """Subject of the median time of a null request, each after 1 ms of rest, the driver sleeping."""
    request = ours.device.prepare(Opcode.NOP)

    def measure() -> float:
        times = ours.driver.sleeping(request.native, count, _REST_NS)
        request.check()
        return float(np.median(times)) / 1e3

    return measure


def _register(count: int) -> None:
    name = f"vms_{count}"
    working = [f"{name}_working_per_s", *([f"{name}_working_null_us_p50"] if count > 1 else [])]

    @row(f"{name}_start_ms", f"{name}_pss_mib_each", f"{name}_idle_cpu_percent", f"{name}_null_us_p50", *working)
    def measure(lab: Lab) -> Iterator[Outcome]:
        """One daemon with so many VMs on the CPU engine, each of which may use all cores: all started at once, idle, and
        all but one at work.
        """
        if count == COUNTS[-1] and lab.quick:
            raise SkipRow(f"{count} VMs are left out of quick runs")
        folder = lab.own_folder(name)
        vms = [HostVm(f"vm{number}", lab.threads) for number in range(count)]
        with ExitStack() as stack:
            pid = stack.enter_context(daemon(folder, vms))
            started = start_ms([vm.socket(folder) for vm in vms])
            yield outcome(
                f"{name}_start_ms", max(started), "ms", "lower", float(np.median(started)), against="the median VM"
            )
            until(lambda: has_no_worker(pid))
            ours = connected(stack, folder, vms, pid)
            pss = proportional_mib(ours[0].worker_pids) / count
            yield outcome(f"{name}_pss_mib_each", pss, "MiB", "lower")
            time.sleep(UNTIL_THEY_REST_S)
            goal = IDLE_GOAL if count == IDLE_GOAL_AT else None
            idle = idle_percent(ours[0], lab.samples(10, 3))
            yield outcome(f"{name}_idle_cpu_percent", idle, "%", "lower", goal=goal)
            yield from _requests(lab, name, stack, ours)


def _requests(lab: Lab, name: str, stack: ExitStack, ours: list[OurDevice]) -> Iterator[Outcome]:
    """Null requests of the first VM, and throughput of all together, beside those of a VM with a daemon of its own."""
    (lone,) = stack.enter_context(running(lab.own_folder("lone"), [HostVm("lone", lab.threads)]))
    nulls = lab.samples(200, 100)
    alone, among = null_us(lone, nulls), null_us(ours[0], nulls)
    theirs, own = alternate(lab.samples(9, 3), alone, among)
    yield outcome(f"{name}_null_us_p50", own, "us", "lower", theirs, against=f"{LONE}, both idle")
    made = sized(lone, lab.threads, LAUNCH_MS)
    depth = max(1, min(DEPTH, IN_FLIGHT // len(ours)))
    (by_lone, *jobs) = (stack.enter_context(computing(one, made, depth)) for one in (lone, *ours))
    seconds = lab.samples(4, 2) + len(ours) / 32
    theirs, own = alternate(
        lab.samples(3, 2), lambda: sum(rates([by_lone], seconds)), lambda: sum(rates(jobs, seconds))
    )
    yield outcome(f"{name}_working_per_s", own, "1/s", "higher", theirs, against=f"{LONE} at work")
    if len(ours) > 1:
        with greedy(jobs[1:]):
            (beside,) = alternate(lab.samples(5, 2), among)
        (theirs,) = alternate(lab.samples(5, 2), alone)
        yield outcome(f"{name}_working_null_us_p50", beside, "us", "lower", theirs, against=f"{LONE}, all idle")


for _count in COUNTS:
    _register(_count)
