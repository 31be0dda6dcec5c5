"""Rows of VMs that share the host's cores: errors of their shares, fairness, and what a VM notices of its neighbours."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.cuda.work import on_device
from bench.greed import Job, compiling, computing, copying, faulting, greedy, rates, sized
from bench.host_vms import MIB, HostVm, running
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.rows.compile import large
from bench.stats import Subject, alternate
from bench.vgcd import OurDevice
from bench.workloads import Workload

Times = npt.NDArray[np.float64]

WEIGHTS: Final = {"1_of_2": 100, "1_of_4": 300, "1_of_8": 700}
"""Weight of the second VM beside that of the first, 100; by the share that the first has then."""
ERROR: Final = "cpu_quota_pe_error_percent"
ERROR_GOAL: Final = Goal("value", "<", 3.0)
JAIN: Final = "fairness_jain"
JAIN_GOAL: Final = Goal("value", ">=", 0.99)
CROWDS: Final = (2, 4, 8)
LAUNCH_MS: Final = 5.0
"""Time of a greedy VM's launch on one element."""


def _seconds(lab: Lab) -> float:
    """Time of one measurement."""
    return lab.samples(4, 2)


@contextmanager
def _greedy_vms(lab: Lab, name: str, vms: Sequence[HostVm]) -> Iterator[list[Job]]:
    """VMs of one daemon, each with a job of equal launches of a kernel that only computes."""
    with ExitStack() as stack:
        ours = stack.enter_context(running(lab.own_folder(name), vms))
        made = sized(ours[0], vms[0].pes, LAUNCH_MS)
        yield [stack.enter_context(computing(one, made)) for one in ours]


def percent_off(measured: float, given: float) -> float:
    """Error of a share, in percent of what was given."""
    return abs(measured / given - 1) * 100


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness of what each got of what it was given: 1 if all got the same part, else less."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


# ---- shares --------------------------------------------------------------------------------------


@row(ERROR, f"{ERROR}_elements", *(f"{ERROR}_weight_{name}" for name in WEIGHTS))
def errors(lab: Lab) -> Iterator[Outcome]:
    """Error of a VM's part of the throughput against its part of the cores: of one VM with half of the elements beside
    another with all, each at work alone; and of two VMs at work together, by their weights.
    """
    found: dict[str, float] = {}
    cores = lab.threads
    if cores < 2:
        raise SkipRow("needs two cores")
    for name, samples, against in (_elements(lab, cores), *(_weights(lab, cores, split) for split in WEIGHTS)):
        found[name] = samples.median
        yield outcome(f"{ERROR}_{name}", samples, "%", "lower", against=against, goal=ERROR_GOAL)
    yield outcome(ERROR, max(found.values()), "%", "lower", against="(the worst of the splits)", goal=ERROR_GOAL)


def _elements(lab: Lab, cores: int) -> tuple[str, Samples, str]:
    some = cores // 2
    vms = (HostVm("some", some), HostVm("all", cores))
    with _greedy_vms(lab, "elements", vms) as (part, whole):

        def off() -> float:
            (of_part,), (of_whole,) = rates([part], _seconds(lab)), rates([whole], _seconds(lab))
            return percent_off(of_part / of_whole, some / cores)

        return "elements", _rounds(lab, off), f"(one VM at work at a time; {some} of {cores} elements)"


def _weights(lab: Lab, cores: int, split: str) -> tuple[str, Samples, str]:
    vms = (HostVm("light", cores, 100), HostVm("heavy", cores, WEIGHTS[split]))
    total = sum(vm.weight for vm in vms)
    with _greedy_vms(lab, f"weight_{split}", vms) as jobs:

        def off() -> float:
            per_second = rates(jobs, _seconds(lab))
            shares = zip(per_second, vms, strict=True)
            return max(percent_off(one / sum(per_second), vm.weight / total) for one, vm in shares)

        return f"weight_{split}", _rounds(lab, off), f"(two VMs at once, {cores} elements each; the worse of the two)"


def _rounds(lab: Lab, subject: Subject) -> Samples:
    (samples,) = alternate(lab.samples(5, 3), subject)
    if isinstance(samples, SkipRow):
        raise samples
    return samples


# ---- fairness ------------------------------------------------------------------------------------


def _register_fairness(name: str, weights: Sequence[int], told: str) -> None:
    @row(f"{JAIN}_{name}")
    def measure(lab: Lab) -> Iterator[Outcome]:
        """Jain's index of what greedy VMs get of the cores, each relative to its weight."""
        vms = [HostVm(f"vm{number}", lab.threads, weight) for number, weight in enumerate(weights)]
        with _greedy_vms(lab, name, vms) as jobs:

            def index() -> float:
                return jain([one / vm.weight for one, vm in zip(rates(jobs, _seconds(lab)), vms, strict=True)])

            samples = _rounds(lab, index)
        yield outcome(f"{JAIN}_{name}", samples, "", "higher", against=f"({told})", goal=JAIN_GOAL)


for _count in CROWDS:
    _register_fairness(f"{_count}_vms", [100] * _count, "equal weights")
    _unequal = [100 * (1 + number % 4) for number in range(_count)]
    _register_fairness(f"{_count}_vms_weighted", _unequal, f"weights {', '.join(map(str, _unequal))}")


# ---- neighbours ----------------------------------------------------------------------------------

NOISE: Final = "noisy_neighbour"
NOISE_BESIDE_OWN: Final = f"{NOISE}_own_cores"
NOISE_GOAL: Final = Goal("value", "<", 7.0)
NEIGHBOURS: Final = 3
_COPY_BYTES: Final = 16 * MIB
_QUIET_MS: Final = 10.0
"""Time of a launch of the VM whose neighbours are noisy."""
_WARM_UP: Final = 20
"""Launches before those that are measured, while neighbours begin."""

_KINDS: Final = ("compute", "compile", "copy", "fault")


def _noises(noise: str, kind: str = "") -> tuple[str, str]:
    name = f"{noise}_{kind}" if kind else noise
    return f"{name}_percent", f"{name}_p99_percent"


_TOLD: Final = {
    "compute": "compute",
    "compile": "only compile",
    "copy": "only copy",
    "fault": "only fault, which replaces their workers",
}


@contextmanager
def _job(kind: str, ours: OurDevice) -> Iterator[Job]:
    if kind == "compute":
        with computing(ours, sized(ours, ours.device.num_pes, LAUNCH_MS)) as job:
            yield job
    elif kind == "compile":
        yield compiling(ours, lambda: large(1))
    elif kind == "copy":
        yield copying(ours, _COPY_BYTES)
    else:
        yield faulting(ours)


@contextmanager
def _launching(ours: OurDevice, made: Workload) -> Iterator[Callable[[int], Times]]:
    """Measures so many launches (ns), each sent when the one before it is done, by a driver that sleeps."""
    room = (ours.driver.take(MIB), MIB)
    with on_device(ours.device, made, room) as work:

        def launch(count: int) -> Times:
            return np.array([ours.device.run(work.launch) for _ in range(count)])

        yield launch
        work.prove()


def _slower(
    lab: Lab, launch: Callable[[int], Times], jobs: Sequence[Job], cores: Collection[int] = ()
) -> tuple[Samples, Samples]:
    """Percent by which launches take longer beside greedy neighbours than beside idle ones: on average, and the 99th
    percentile. `cores`: those of the neighbours' drivers, if not all.
    """
    means, tails = [], []
    count = lab.samples(400, 100)
    launch(_WARM_UP)
    for _ in range(lab.samples(5, 3)):
        idle = launch(count)
        with greedy(jobs, cores):
            launch(_WARM_UP)
            beside = launch(count)
        means.append((float(np.mean(beside) / np.mean(idle)) - 1) * 100)
        tails.append((float(np.percentile(beside, 99) / np.percentile(idle, 99)) - 1) * 100)
    return Samples(tuple(means)), Samples(tuple(tails))


def _beside_noise(lab: Lab, noise: str, quiet: HostVm, told: str, cores: Collection[int] = ()) -> Iterator[Outcome]:
    """Rows of a VM's launches beside each kind of noise. `cores`: those of the neighbours' drivers, if not all."""
    worst = (0.0, 0.0)
    for kind in _KINDS:
        loud = [HostVm(f"loud{number}", lab.threads, region_mib=128, memory_mib=64) for number in range(NEIGHBOURS)]
        with ExitStack() as stack:
            ours = stack.enter_context(running(lab.own_folder(f"{noise}-{kind}"), [quiet, *loud]))
            made = sized(ours[0], quiet.pes, _QUIET_MS * quiet.pes)
            work = stack.enter_context(_launching(ours[0], made))
            jobs = [stack.enter_context(_job(kind, one)) for one in ours[1:]]
            mean, tail = _slower(lab, work, jobs, cores)
        worst = (max(worst[0], mean.median), max(worst[1], tail.median))
        against = f"({quiet.pes} of {lab.threads} elements, {told}; {NEIGHBOURS} neighbours {_TOLD[kind]})"
        names = _noises(noise, kind)
        yield outcome(names[0], mean, "%", "lower", against=against)
        yield outcome(names[1], tail, "%", "lower", against=against, goal=NOISE_GOAL)
    names = _noises(noise)
    yield outcome(names[0], worst[0], "%", "lower", against="(the worst of the kinds)")
    yield outcome(names[1], worst[1], "%", "lower", against="(the worst of the kinds)", goal=NOISE_GOAL)


def _quarter(lab: Lab) -> int:
    """A quarter of the cores, one at least."""
    if lab.threads < 2:
        raise SkipRow("needs two cores")
    return max(1, lab.threads // 4)


@row(*_noises(NOISE), *(name for kind in _KINDS for name in _noises(NOISE, kind)))
def noisy_neighbours(lab: Lab) -> Iterator[Outcome]:
    """How much longer launches of a VM take, on average and at the 99th percentile, when its neighbours are greedy than
    when they are idle. The VM has a quarter of the cores, one at least, and a weight that entitles it to as many. The
    neighbours' drivers, which are no VMs' processes, keep off the last ones, which it may get lent.
    """
    pes = _quarter(lab)
    quiet = HostVm("quiet", pes, max(1, 100 * NEIGHBOURS * pes // (lab.threads - pes)))
    there = sorted(os.sched_getaffinity(0))
    yield from _beside_noise(lab, NOISE, quiet, f"weight {quiet.weight}", there[:-pes])


@row(*_noises(NOISE_BESIDE_OWN), *(name for kind in _KINDS for name in _noises(NOISE_BESIDE_OWN, kind)))
def noisy_neighbours_of_own_cores(lab: Lab) -> Iterator[Outcome]:
    """How much longer launches of a VM take that has a quarter of the cores for its own. The neighbours' drivers, which are
    no VMs' processes, keep off them, too.
    """
    there = sorted(os.sched_getaffinity(0))
    own = there[-_quarter(lab) :]
    quiet = HostVm("quiet", len(own), cores=",".join(map(str, own)))
    yield from _beside_noise(lab, NOISE_BESIDE_OWN, quiet, "cores of its own", there[: -len(own)])
