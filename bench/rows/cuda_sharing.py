"""Several VMs on one GPU: what they reach together, and whether each gets the share of the GPU that it was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench import workloads
from bench.cuda import work
from bench.cuda.crowd import Crowd, crowd
from bench.cuda.work import Native
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, outcome
from bench.stats import alternate
from bench.workloads import Workload

NUM_VMS: Final = 8
SPLITS: Final = {"1_of_8": 1 / 8, "1_of_4": 1 / 4, "1_of_2": 1 / 2}
"""The first VM's share; a second one has the rest."""

GOAL: Final = Goal("value", "<", 3.0)
ROOM_MIB: Final = 200
SMOKE_ROOM_MIB: Final = 16


def _busy(lab: Lab) -> Workload:
    """About two milliseconds of a whole GPU; so many blocks that the last, incomplete wave of them does not show."""
    return work.busy(lab.cuda.gpu.num_pes * lab.cuda.size(2048, 1), lab.cuda.size(1000, 50))


def _saxpy(lab: Lab) -> Workload:
    """64 MiB per array."""
    return workloads.saxpy(lab.cuda.size(1 << 24, 1 << 12))


def _room(lab: Lab) -> int:
    return lab.cuda.size(ROOM_MIB, SMOKE_ROOM_MIB)


def _seconds(lab: Lab) -> float:
    """How long a figure is taken over."""
    return lab.cuda.size(lab.samples(10, 5) / 10, 0.1)


# ---- eight VMs ---------------------------------------------------------------------------------


def _beside_native(lab: Lab, name: str, made: Workload, pes: int) -> Iterator[Outcome]:
    """What eight VMs with `pes` processing elements each reach together, beside one native process."""
    theirs = Native(lab.cuda.native, made, lab.cuda.cubin(made.source))
    count = max(2, int(_seconds(lab) * 1e9 / theirs.compute()))
    plans = [lab.cuda.small_plan(f"vm{number}", pes) for number in range(NUM_VMS)]
    with crowd(lab.cuda, plans, made, _room(lab)) as vms:
        native, own = alternate(
            lab.samples(5, 3),
            lambda: theirs.per_second(count),
            lambda: sum(vms.per_second(_seconds(lab))),
        )
    lab.cuda.native.free_all()
    yield outcome(name, own, "1/s", "higher", native, against="one native process")


@row("cuda_8_vms_busy_per_s")
def eight_busy(lab: Lab) -> Iterator[Outcome]:
    """Launches per second, all VMs together, of a kernel that only computes; each VM may use the whole GPU."""
    yield from _beside_native(lab, "cuda_8_vms_busy_per_s", _busy(lab), lab.cuda.gpu.num_pes)


@row("cuda_8_vms_saxpy_per_s")
def eight_saxpy(lab: Lab) -> Iterator[Outcome]:
    """The same with a kernel that is bound by memory."""
    yield from _beside_native(lab, "cuda_8_vms_saxpy_per_s", _saxpy(lab), lab.cuda.gpu.num_pes)


@row("cuda_8_vms_split_busy_per_s")
def eight_split(lab: Lab) -> Iterator[Outcome]:
    """The same with an eighth of the processing elements for each."""
    share = _share_of(lab, 1 / NUM_VMS)
    yield from _beside_native(lab, "cuda_8_vms_split_busy_per_s", _busy(lab), share)


# ---- shares ------------------------------------------------------------------------------------


def _share_of(lab: Lab, share: float) -> int:
    """As many processing elements as the GPU can give of this share, at least one group of them."""
    gpu = lab.cuda.gpu
    return max(1, int(gpu.num_pes * share / gpu.pe_granularity)) * gpu.pe_granularity


def _percent_off(measured: float, given: float) -> float:
    return abs(measured / given - 1) * 100


def _worst_off(vms: Crowd, rates: list[float]) -> float:
    """By how much the VM that is furthest from its share of what all reach is off."""
    pes = [member.num_pes for member in vms.members]
    shares = zip(rates, pes, strict=True)
    return max(_percent_off(rate / sum(rates), given / sum(pes)) for rate, given in shares)


def _splits(prefix: str) -> list[str]:
    return [f"{prefix}_{name}" for name in SPLITS]


@row("quota_pe_error_percent", *_splits("quota_pe_error_percent"))
def error_together(lab: Lab) -> Iterator[Outcome]:
    """Two VMs at work at once: share of the throughput against share of the processing elements given, the worse of
    the two VMs.
    """
    errors: dict[str, Samples] = {}
    for name, share in SPLITS.items():
        plans = [lab.cuda.small_plan("a", _share_of(lab, share)), lab.cuda.small_plan("b", _share_of(lab, 1 - share))]
        with crowd(lab.cuda, plans, _busy(lab), _room(lab)) as vms:
            given = "+".join(str(member.num_pes) for member in vms.members)
            rounds = [_worst_off(vms, vms.per_second(_seconds(lab))) for _ in range(lab.samples(5, 3))]
        errors[name] = Samples(tuple(rounds))
        line = f"(given: {given} of {lab.cuda.gpu.num_pes})"
        yield outcome(f"quota_pe_error_percent_{name}", errors[name], "%", "lower", against=line, goal=GOAL)
    worst = max(error.median for error in errors.values())
    yield outcome("quota_pe_error_percent", worst, "%", "lower", against="(the worst of the splits)", goal=GOAL)


@row("quota_pe_alone_error_percent", *_splits("quota_pe_alone_error_percent"))
def error_alone(lab: Lab) -> Iterator[Outcome]:
    """One VM at work with a part of the processing elements: its throughput as a share of a VM's that has all of them,
    against its share of them.
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
            rounds = [
                _percent_off(some.per_second(_seconds(lab))[0] / all_of_it.per_second(_seconds(lab))[0], given / of)
                for _ in range(lab.samples(5, 3))
            ]
        errors[name] = Samples(tuple(rounds))
        line = f"(given: {given} of {of})"
        yield outcome(f"quota_pe_alone_error_percent_{name}", errors[name], "%", "lower", against=line, goal=GOAL)
    worst = max(error.median for error in errors.values())
    yield outcome("quota_pe_alone_error_percent", worst, "%", "lower", against="(the worst of the splits)", goal=GOAL)
