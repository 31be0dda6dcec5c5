"""Assumptions of the engine about real GPUs, and the judgement of a run on each: held, fell, or not decided.

Written before the engine had run on a GPU; the numbers are those of the desk check that listed them.
``python3 -m tools.gpu.assumptions DIR`` judges the folder of an earlier run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tools.gpu import evidence
from tools.gpu.evidence import Evidence

DRIFT_TOLERANCE_US_PER_S: Final = 100
"""``VGC_CLOCK_DRIFT`` of vgc_engine.h: the largest drift between the two clocks that the engine assumes."""

FEW: Final = 3


class State(Enum):
    """Judgement on an assumption."""

    HELD = "held"
    FELL = "fell"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement on one assumption, with the reason."""

    state: State
    why: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assumption as a sentence, and the function that judges it; not `hardware`: the fake driver can decide it, too."""

    number: int
    text: str
    judge: Callable[[Evidence], Judgement]
    hardware: bool = True


def by_tests(*patterns: str) -> Callable[[Evidence], Judgement]:
    """Judges by the tests whose names match: one failed test makes the assumption fall."""

    def judge(found: Evidence) -> Judgement:
        chosen = found.matching(*patterns)
        wrong = [test for test in chosen if test.went_wrong]
        if wrong:
            reasons = "; ".join(f"{test.test.rpartition('::')[2]}: {test.reason}" for test in wrong[:FEW])
            return Judgement(State.FELL, f"{len(wrong)} of {len(chosen)} failed: {reasons}")
        passed = [test for test in chosen if test.outcome == "passed"]
        if passed and len(passed) == len(chosen):
            return Judgement(State.HELD, f"{len(passed)} passed")
        return Judgement(State.OPEN, f"{len(passed)} of {len(chosen)} ran" if chosen else "no test of it ran")

    return judge


def by_rows(*names: str) -> Callable[[Evidence], Judgement]:
    """Judges by the goals of these rows."""

    def judge(found: Evidence) -> Judgement:
        missed = [name for name in names if found.rows.verdicts.get(name) == "MISSED"]
        met = [name for name in names if found.rows.verdicts.get(name) == "met"]
        if missed:
            return Judgement(State.FELL, f"missed: {', '.join(missed)}")
        if len(met) == len(names):
            return Judgement(State.HELD, f"{len(met)} rows met their goals")
        return Judgement(State.OPEN, "its rows were not measured")

    return judge


def _packages(found: Evidence) -> Judgement:
    if "missing" not in found.look:
        return Judgement(State.OPEN, "nobody looked")
    missing = found.look["missing"]
    return Judgement(State.FELL, f"missing: {' '.join(missing)}") if missing else Judgement(State.HELD, "all there")


def _hooks(found: Evidence) -> Judgement:
    if "hooks" not in found.clock:
        return Judgement(State.OPEN, "no program was compiled with hooks")
    if found.clock["hooks"]:
        return Judgement(State.HELD, "a program compiled here has its hooks")
    return Judgement(State.FELL, found.clock.get("hooks_error", "a program compiled with hooks has none"))


def _toolkit(found: Evidence) -> Judgement:
    """Judges by the hooks, which need ptxas, and by cooperative groups, which need CCCL's headers."""
    hooks, features = _hooks(found), by_tests("*test_features.py*cooperative*")(found)
    if State.FELL in (hooks.state, features.state) or not found.on_hardware:
        return features if features.state is State.FELL else hooks
    return features if features.state is State.OPEN else hooks


def _stages(found: Evidence) -> Judgement:
    if found.overran:
        return Judgement(State.FELL, f"ran out of time: {', '.join(found.overran)}")
    if not found.stages:
        return Judgement(State.OPEN, "no stage came to its end")
    return Judgement(State.HELD, f"none of {len(found.stages)} stages ran out of time")


def _held_open(found: Evidence) -> Judgement:
    held = found.look.get("held", [])
    failed = [line for line in held if not line.startswith("held")]
    seconds = found.look.get("probe", {}).get("seconds")
    if failed:
        return Judgement(State.FELL, failed[0])
    return Judgement(State.HELD, f"{'; '.join(held)}; probed in {seconds} s") if held else _nothing("no node to hold")


def _nothing(why: str) -> Judgement:
    return Judgement(State.OPEN, why)


def _clock(found: Evidence) -> Judgement:
    """Judges by the timer's drift. Its offset does not matter, because the engine reads it."""
    tests = by_tests("*test_control.py*records_have_the_hosts_times*")(found)
    if "offset_us" not in found.clock:
        why = found.clock.get("skipped", "the clock was not read")
        return tests if tests.state is State.FELL else _nothing(why)
    facts = evidence.clock_facts(found.clock)[0]
    if abs(found.clock["drift_us_per_s"]) > DRIFT_TOLERANCE_US_PER_S:
        return Judgement(State.FELL, facts)
    return Judgement(tests.state, f"{facts}; {tests.why}")


def _nodes(found: Evidence) -> Judgement:
    """Judges by the modes of the device nodes that a worker opens, which are all except those of the driver's tools."""
    nodes = found.look.get("nodes", {})
    needed = {name: mode for name, mode in nodes.items() if not name.startswith(("nvidia-caps", "nvidia-modeset"))}
    closed = [f"{name} {mode}" for name, mode in needed.items() if mode != "0666"]
    if closed:
        return Judgement(State.FELL, f"not open to all: {', '.join(closed)}")
    return Judgement(State.HELD, f"{len(needed)} nodes are 0666") if needed else _nothing("there are no /dev/nvidia*")


def _sm_numbers(found: Evidence) -> Judgement:
    if "largest_sm" not in found.clock:
        return _nothing("no kernel reported its SM")
    why = f"largest %smid {found.clock['largest_sm']} of {found.clock['num_sms']} SMs"
    from vhost_backend.engines.cuda.device import rows_for  # its packages are installed if a kernel could be run

    has_room = found.clock["largest_sm"] < rows_for(found.clock["num_sms"])
    return Judgement(State.HELD if has_room else State.FELL, why)


ASSUMPTIONS: Final = (
    Assumption(1, "every package and program that is needed is there", _packages, hardware=False),
    Assumption(2, "the toolkit is whole: ptxas for the hooks, CCCL's headers", _toolkit, hardware=False),
    Assumption(
        3,
        "naps of the data plane end on time, and cost large copies nothing",
        by_rows("cuda_copy_in_16m_gbps", "cuda_copy_out_16m_gbps"),
    ),
    Assumption(4, "each stage ends within its share of the time", _stages, hardware=False),
    Assumption(5, "the GPU stays up between processes", _held_open),
    Assumption(6, "records have the host's times, and the GPU's timer drifts little", _clock),
    Assumption(7, "a kernel with a larger stack does not wait for others", by_tests("*stack*", "*local_memory*")),
    Assumption(
        8, "the control stream passes busy streams", by_tests("*test_control.py*streams*", "*control*many_streams*")
    ),
    Assumption(9, "the strict walls let the driver work", by_tests("*test_walls.py*", "*behind_the_walls*strict*")),
    Assumption(10, "an unprivileged worker may open the nodes", _nodes),
    Assumption(
        11, "a hanging kernel's process ends in time", by_tests("*test_faults.py*hang*", "*test_faults.py*again*")
    ),
    Assumption(12, "a failed assertion is told with file and line", by_tests("*test_faults.py*fails*")),
    Assumption(
        13, "a share is the SMs that it says", by_tests("*test_shares.py*share_is_whole*", "*test_shares.py*stay_on*")
    ),
    Assumption(14, "there is room for the numbers of all SMs", _sm_numbers),
    Assumption(
        15, "a share of memory is what the pool allows", by_tests("*test_shares.py*memory_share*", "*quota_holds*")
    ),
    Assumption(16, "a VM's new memory is zero before its first use", by_tests("*test_zeroed.py*")),
    Assumption(17, "arrays take no more than their charge", by_tests("*test_textures.py*charged*")),
    Assumption(18, "views of textures are made as they should be", by_tests("*test_textures.py*view*")),
)


def judged(found: Evidence) -> list[tuple[Assumption, Judgement]]:
    """Judges all assumptions; on the fake driver those about hardware stay open."""
    fake = Judgement(State.OPEN, "not on hardware")
    return [(one, one.judge(found) if found.on_hardware or not one.hardware else fake) for one in ASSUMPTIONS]


def lines(found: Evidence) -> list[str]:
    """Formats a line for each assumption."""
    return [
        f"{one.number:2} {judgement.state.value:11} {one.text}: {judgement.why}"[:400]
        for one, judgement in judged(found)
    ]


if __name__ == "__main__":
    print("\n".join(lines(evidence.read(Path(sys.argv[1])))))
