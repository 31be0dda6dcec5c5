"""Several VMs that do equal work at one time, and the throughput of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from bench.cuda.lab import MIB, CudaLab
from bench.cuda.vms import Vm
from bench.cuda.work import OnDevice, on_device
from bench.device import Prepared
from bench.driver import clock_ns
from bench.vgcd import OurDevice
from bench.workloads import Workload

DEPTH: Final = 4
"""Launches in flight per VM: enough that the GPU never waits for a VM."""

LONGEST_S: Final = 2
"""Longest measurement that is repeated if no launch ended in it, as happens on a busy machine; later, that is the
result."""

WARM_UP_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """VM with its work, and launches that can be in flight at once."""

    ours: OurDevice
    work: OnDevice
    launches: Prepared
    num_pes: int
    """Number of processing elements that the VM has."""

    def per_second(self, from_ns: int, until_ns: int) -> float:
        """Measures the launches per second that end between two times."""
        rate = self.ours.driver.throughput(self.launches.native, from_ns, until_ns)
        self.launches.check()
        return rate


class Crowd:
    """VMs that work at one time; made by :func:`crowd`."""

    def __init__(self, members: Sequence[Member], pool: ThreadPoolExecutor) -> None:
        self.members = members
        self._pool = pool

    def per_second(self, seconds: float) -> list[float]:
        """Measures launches per second of each VM, all working at one time; repeated for longer if none ended."""
        from_ns = clock_ns() + WARM_UP_NS
        until_ns = from_ns + int(seconds * 1e9)
        running = [self._pool.submit(member.per_second, from_ns, until_ns) for member in self.members]
        rates = [one.result() for one in running]
        return rates if any(rates) or seconds > LONGEST_S else self.per_second(4 * seconds)


@contextmanager
def crowd(lab: CudaLab, plans: Sequence[Vm], made: Workload, room_mib: int) -> Iterator[Crowd]:
    """Runs a daemon with these VMs, each with `made` prepared; verifies results at the beginning and at the end.

    :param room_mib: part of every VM's region for the arrays of the work.
    :raise ArithmeticError: a result is wrong.
    """
    with ExitStack() as stack:
        members = []
        for ours in stack.enter_context(lab.vms(plans)):
            room = (ours.driver.take(room_mib * MIB), room_mib * MIB)
            on = stack.enter_context(on_device(ours.device, made, room))
            members.append(Member(ours, on, on.launches(DEPTH), ours.device.num_pes))
        yield Crowd(members, stack.enter_context(ThreadPoolExecutor(len(members))))
        for member in members:
            member.work.prove()
