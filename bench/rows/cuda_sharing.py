"""Rows of several VMs on one GPU: their throughput together, and the error of each VM's share of the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from bench import workloads
from bench.cuda import work
from bench.cuda.cpu_time import MYSELF, CpuMeter
from bench.cuda.crowd import Crowd, crowd
from bench.cuda.vms import Vm
from bench.cuda.work import Native
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, outcome
from bench.rows.cores import jain
from bench.rows.cuda import null_times
from bench.stats import Subject
from bench.workloads import Workload

SPLITS: Final = {"1_of_8": 1 / 8, "1_of_4": 1 / 4, "1_of_2": 1 / 2}
"""Share of the first VM; a second VM has the rest."""

GOAL: Final = Goal("value", "<", 3.0)
ROOM_MIB: Final = 200
SAXPY_ROOM_MIB: Final = 800
SMOKE_ROOM_MIB: Final = 16
NATIVE: Final = "one native process"
ALONE: Final = "the only VM of a daemon"


def _busy(lab: Lab) -> Workload:
    """Makes about two milliseconds of work for a whole GPU, in so many blocks that an incomplete last wave is short."""
    return work.busy(lab.cuda.gpu.num_pes * lab.cuda.size(2048, 1), lab.cuda.size(1000, 50))


def _saxpy(lab: Lab) -> Workload:
    """Makes saxpy with 256 MiB per array, which fits no cache of a GPU."""
    return workloads.saxpy(lab.cuda.size(1 << 26, 1 << 12))


def _room(lab: Lab, full: int = ROOM_MIB) -> int:
    return lab.cuda.size(full, SMOKE_ROOM_MIB)


def _seconds(lab: Lab) -> float:
    """Time of one measurement."""
    return lab.cuda.size(lab.samples(10, 5) / 10, 0.1)


# ---- several VMs -------------------------------------------------------------------------------


def _together(vms: Crowd, lab: Lab) -> CpuMeter:
    """Subject of launches per second of all VMs together, and the CPU time of all processes involved."""
    ours = vms.members[0].ours
    groups = {"drivers": MYSELF, "daemon": [ours.daemon_pid], "workers": ours.worker_pids}
    return CpuMeter(lambda: sum(vms.per_second(_seconds(lab))), groups)


def _beside_native(lab: Lab, name: str, made: Workload, plans: Sequence[Vm], room_mib: int) -> Iterator[Outcome]:
    """Measures launches per second of all VMs together, and busy CPUs, beside one native process."""
    theirs = Native(lab.cuda.native, made, lab.cuda.cubin(made.source))
    count = max(2, int(_seconds(lab) * 1e9 / theirs.compute()))
    natively = CpuMeter(lambda: theirs.per_second(count), {"one thread": MYSELF})
    with crowd(lab.cuda, plans, made, room_mib) as vms:
        through_us = _together(vms, lab)
        native, own = lab.cuda.alternate(lab.samples(5, 3), natively, through_us)
    lab.cuda.native.free_all()
    yield outcome(f"{name}_per_s", own, "1/s", "higher", native, against=NATIVE)
    against = f"{NATIVE} ({', '.join(f'{part} {cpus:.2f}' for part, cpus in through_us.parts.items())})"
    yield outcome(f"{name}_cpus", through_us.cpus, "CPUs", "lower", natively.cpus, against=against)


def _register_busy(count: int) -> None:
    name = f"cuda_{count}_vms_busy"

    @row(f"{name}_per_s", f"{name}_cpus")
    def measure(lab: Lab) -> Iterator[Outcome]:
        """LAUNCH of a kernel that only computes; each VM may use the whole GPU."""
        plans = [lab.cuda.small_plan(f"vm{number}") for number in range(count)]
        return _beside_native(lab, name, _busy(lab), plans, _room(lab))


for _count in (4, 8):
    _register_busy(_count)


@row("cuda_8_vms_saxpy_256m_per_s", "cuda_8_vms_saxpy_256m_cpus")
def eight_saxpy(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of a memory-bound kernel by eight VMs."""
    plans = [lab.cuda.small_plan(f"vm{number}", region_mib=SAXPY_ROOM_MIB + 56) for number in range(8)]
    yield from _beside_native(lab, "cuda_8_vms_saxpy_256m", _saxpy(lab), plans, _room(lab, SAXPY_ROOM_MIB))


@row("cuda_8_vms_split_busy_per_s", "cuda_8_vms_split_busy_cpus")
def eight_split(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of a kernel that only computes by eight VMs, each with an eighth of the processing elements."""
    plans = [lab.cuda.small_plan(f"vm{number}", _share_of(lab, 1 / 8)) for number in range(8)]
    yield from _beside_native(lab, "cuda_8_vms_split_busy", _busy(lab), plans, _room(lab))


# ---- shares ------------------------------------------------------------------------------------


def _share_of(lab: Lab, share: float) -> int:
    """Number of processing elements that the GPU can give for this share, at least one group of them."""
    gpu = lab.cuda.gpu
    return max(1, int(gpu.num_pes * share / gpu.pe_granularity)) * gpu.pe_granularity


def _percent_off(measured: float, given: float) -> float:
    return abs(measured / given - 1) * 100


def _worst_off(vms: Crowd, rates: list[float]) -> float:
    """Largest error of a VM's share of the throughput, in percent of its share of the elements."""
    pes = [member.num_pes for member in vms.members]
    shares = zip(rates, pes, strict=True)
    return max(_percent_off(rate / sum(rates), given / sum(pes)) for rate, given in shares)


def _splits_of(prefix: str, names: Iterable[str] = SPLITS) -> list[str]:
    return [f"{prefix}_{name}" for name in names]


PARTITION: Final = "quota_pe_partition_error_percent"
TURNS: Final = "quota_pe_turns_error_percent"


@row(PARTITION, *_splits_of(PARTITION))
def error_alone(lab: Lab) -> Iterator[Outcome]:
    """Error of the partition, which the quota promises: throughput of one VM with a part of the processing elements,
    relative to that of a VM with all of them, against its share of the elements.
    """
    errors: dict[str, Samples] = {}
    whole = lab.cuda.small_plan("whole")
    for name, share in SPLITS.items():
        part = lab.cuda.small_plan("part", _share_of(lab, share))
        with (
            crowd(lab.cuda, [whole], _busy(lab), _room(lab)) as all_of_it,
            crowd(lab.cuda, [part], _busy(lab), _room(lab)) as some,
        ):
            given, of = some.members[0].num_pes, all_of_it.members[0].num_pes
            errors[name] = _rounds(lab, partial(_off_alone, some, all_of_it, _seconds(lab)))
        line = f"(one VM at work at a time; given: {given} of {of})"
        yield outcome(f"{PARTITION}_{name}", errors[name], "%", "lower", against=line, goal=GOAL)
    line = "(one VM at work at a time; the worst of the splits)"
    yield outcome(PARTITION, _worst(errors), "%", "lower", against=line, goal=GOAL)


@row(TURNS, *_splits_of(TURNS))
def error_together(lab: Lab) -> Iterator[Outcome]:
    """Error with two VMs at work: share of the throughput against share of the processing elements, of the worse VM.
    Partition times turns: VMs of equal weight get equal times of the GPU.
    """
    errors: dict[str, Samples] = {}
    for name, share in SPLITS.items():
        plans = [lab.cuda.small_plan("a", _share_of(lab, share)), lab.cuda.small_plan("b", _share_of(lab, 1 - share))]
        with crowd(lab.cuda, plans, _busy(lab), _room(lab)) as vms:
            given = "+".join(str(member.num_pes) for member in vms.members)
            errors[name] = _rounds(lab, partial(_off_together, vms, _seconds(lab)))
        line = f"(two VMs at once, turns and partition; given: {given} of {lab.cuda.gpu.num_pes})"
        yield outcome(f"{TURNS}_{name}", errors[name], "%", "lower", against=line)
    line = "(two VMs at once, turns and partition; the worst of the splits)"
    yield outcome(TURNS, _worst(errors), "%", "lower", against=line)


def _off_alone(some: Crowd, all_of_it: Crowd, seconds: float) -> float:
    given, of = some.members[0].num_pes, all_of_it.members[0].num_pes
    return _percent_off(some.per_second(seconds)[0] / all_of_it.per_second(seconds)[0], given / of)


def _off_together(vms: Crowd, seconds: float) -> float:
    return _worst_off(vms, vms.per_second(seconds))


def _rounds(lab: Lab, subject: Subject) -> Samples:
    (samples,) = lab.cuda.alternate(lab.samples(5, 3), subject)
    assert isinstance(samples, Samples)
    return samples


def _worst(errors: dict[str, Samples]) -> float:
    return max(error.median for error in errors.values())


# ---- weights -----------------------------------------------------------------------------------

GATE: Final = "cuda_gate_jain"
GATED: Final = {"1_1": (100, 100), "1_3": (100, 300), "1_2_4": (100, 200, 400)}
"""Weights of VMs that are at work together, each with the whole GPU."""

GATE_GOAL: Final = Goal("value", ">=", 0.99)


@row(GATE, *_splits_of(GATE, GATED))
def fairness(lab: Lab) -> Iterator[Outcome]:
    """Jain's index of the launches per second of VMs at work together, each relative to its weight; the worst of all."""
    found: dict[str, Samples] = {}
    for name, weights in GATED.items():
        plans = [replace(lab.cuda.small_plan(f"vm{number}"), weight=weight) for number, weight in enumerate(weights)]
        with crowd(lab.cuda, plans, _busy(lab), _room(lab)) as vms:
            found[name] = _rounds(lab, partial(_fairness, vms, weights, _seconds(lab)))
        line = f"(VMs at work at once, by weights {':'.join(map(str, weights))})"
        yield outcome(f"{GATE}_{name}", found[name], "", "higher", against=line, goal=GATE_GOAL)
    worst = min(index.median for index in found.values())
    yield outcome(GATE, worst, "", "higher", against="(the worst of these weights)", goal=GATE_GOAL)


def _fairness(vms: Crowd, weights: Sequence[int], seconds: float) -> float:
    return jain([rate / weight for rate, weight in zip(vms.per_second(seconds), weights, strict=True)])


@row("cuda_gate_idle_neighbour_us_p50", "cuda_gate_idle_neighbour_us_p99")
def idle_neighbour(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of an empty kernel, spinning, of a VM whose GPU another VM could use at any time, beside one alone."""
    count = lab.cuda.size(lab.samples(5_000, 2_000), 64)
    plans = [lab.cuda.small_plan(name) for name in ("busy", "idle")]
    with lab.cuda.vms(plans) as (beside, _idle), lab.cuda.vms([lab.cuda.small_plan("alone")]) as (single,):
        ours, theirs = null_times(beside, count), null_times(single, count)
        alone, own = lab.cuda.alternate(lab.samples(15, 7), theirs, ours)
    yield outcome("cuda_gate_idle_neighbour_us_p50", own, "us", "lower", alone, against=ALONE)
    yield outcome("cuda_gate_idle_neighbour_us_p99", ours.p99, "us", "lower", theirs.p99, against=ALONE)
