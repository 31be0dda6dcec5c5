"""The verdict of a first run on hardware: ten lines, and each assumption confirmed, refuted or undecided."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tools.common import REPOSITORY
from tools.gpu import assumptions, evidence
from tools.gpu.assumptions import State
from tools.gpu.evidence import Evidence
from tools.gpu.stages import FIRST, Stage
from tools.gpu.verdict import ten_lines

LOOK: Final = {
    "missing": [],
    "probe": {"seconds": 3.2, "driver_version": "13.0", "devices": [{"name": "NVIDIA H200", "num_pes": 132}]},
    "nodes": {"nvidia0": "0666", "nvidiactl": "0666", "nvidia-uvm": "0666"},
    "held": ["held open: /dev/nvidia0"],
    "fake": False,
}
CLOCK: Final = {
    "hooks": True,
    "offset_us": 12.0,
    "error_us": 15.0,
    "drift_us_per_s": 0.4,
    "step_ns": 32,
    "largest_sm": 131,
    "num_sms": 132,
}
TESTS: Final = {
    "tests/gpu/test_walls.py::test_everything[real_gpu]": "passed",
    "tests/gpu/test_faults.py::test_failure_is_told[real_gpu-hang]": "passed",
    "tests/gpu/test_faults.py::test_failure_is_told[real_gpu-fails]": "passed",
    "tests/gpu/test_features.py::test_cooperative_groups[real_gpu]": "passed",
    "tests/gpu/test_shares.py::test_share_is_whole_groups_and_reported[real_gpu]": "passed",
    "tests/gpu/test_shares.py::test_memory_share_holds[real_gpu]": "passed",
    "tests/gpu/test_zeroed.py::test_next_vm_sees_zeros[real_gpu-pool]": "passed",
    "tests/gpu/test_textures.py::test_arrays_take_no_more_than_is_charged": "passed",
    "tests/gpu/test_textures.py::test_views_show_layers_and_levels[real_gpu]": "passed",
    "tests/gpu/test_control.py::test_records_have_the_hosts_times": "passed",
    "tests/gpu/test_control.py::test_a_kernel_with_a_larger_stack_starts_beside_a_running_one": "passed",
    "tests/gpu/test_control.py::test_channels_are_opened_beside_more_busy_streams_than_connections": "passed",
}
ROWS: Final = """\
row                       value  unit   baseline  ratio  noise  goal                 against
cuda_copy_in_16m_gbps     54.1   GB/s       55.0   0.98     1%  ratio >= 0.95  met   cuMemcpyAsync
cuda_copy_out_16m_gbps    54.1   GB/s       55.0   0.98     1%  ratio >= 0.95  met   cuMemcpyAsync
skipped (no time was left): cuda_records_per_s, cuda_snapshot_all_ms
"""


def run_left(
    out: Path,
    *,
    look: dict[str, Any] | None = None,
    clock: dict[str, Any] | None = None,
    tests: dict[str, str] | None = None,
    rows: str = ROWS,
) -> Evidence:
    """Results of a run in which everything went well, except for the changes."""
    (out / evidence.LOOK).write_text(json.dumps(LOOK | (look or {})))
    (out / evidence.CLOCK).write_text(json.dumps(CLOCK | (clock or {})))
    (out / evidence.ROWS).write_text(rows)
    noted = [
        {"test": name, "outcome": outcome, "seconds": 1.0, "reason": "" if outcome == "passed" else "it said so"}
        for name, outcome in (TESTS | (tests or {})).items()
    ]
    (out / "stand.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in noted))
    return evidence.read(out, stages=("look", "build"))


def states(found: Evidence) -> dict[State, list[int]]:
    judged = assumptions.judged(found)
    return {state: [one.number for one, told in judged if told.state is state] for state in State}


def why(found: Evidence, number: int) -> str:
    return next(told.why for one, told in assumptions.judged(found) if one.number == number)


def test_every_assumption_has_its_number_once() -> None:
    assert [one.number for one in assumptions.ASSUMPTIONS] == list(range(1, 19))


def test_good_run_decides_all_assumptions_that_it_tested(tmp_path: Path) -> None:
    assert states(run_left(tmp_path)) == {
        State.HELD: list(range(1, 19)),
        State.FELL: [],
        State.OPEN: [],
    }


def test_run_that_left_nothing_decides_nothing(tmp_path: Path) -> None:
    assert states(evidence.read(tmp_path))[State.OPEN] == list(range(1, 19))


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (1, {"look": {"missing": ["cryptography"]}}, "missing: cryptography"),
        (2, {"clock": {"hooks": False}}, "a program compiled with hooks has none"),
        (2, {"tests": {"tests/gpu/test_features.py::test_cooperative_groups[real_gpu]": "error"}}, "it said so"),
        (3, {"rows": ROWS.replace("met", "MISSED", 1)}, "missed: cuda_copy_in_16m_gbps"),
        (5, {"look": {"held": ["cannot hold /dev/nvidia0 open: Permission denied"]}}, "Permission denied"),
        (6, {"tests": {"tests/gpu/test_control.py::test_records_have_the_hosts_times": "failed"}}, "it said so"),
        (6, {"clock": {"drift_us_per_s": -300.0}}, "drift -300.00 us/s"),
        (9, {"tests": {"tests/gpu/test_walls.py::test_everything[real_gpu]": "failed"}}, "it said so"),
        (10, {"look": {"nodes": {"nvidia0": "0660", "nvidiactl": "0666"}}}, "nvidia0 0660"),
        (11, {"tests": {"tests/gpu/test_faults.py::test_failure_is_told[real_gpu-hang]": "failed"}}, "it said so"),
        (12, {"tests": {"tests/gpu/test_faults.py::test_failure_is_told[real_gpu-fails]": "failed"}}, "it said so"),
        (14, {"clock": {"largest_sm": 165}}, "largest %smid 165 of 132"),
        (16, {"tests": {"tests/gpu/test_zeroed.py::test_next_vm_sees_zeros[real_gpu-pool]": "failed"}}, "it said so"),
    ],
)
def test_assumption_is_refuted_by_its_deciding_result(
    tmp_path: Path, number: int, change: dict[str, Any], told: str
) -> None:
    found = run_left(tmp_path, **change)
    assert states(found)[State.FELL] == [number]
    assert told in why(found, number)


def test_timer_may_be_off_by_decades_and_numbers_of_sms_may_have_gaps(tmp_path: Path) -> None:
    found = run_left(tmp_path, clock={"offset_us": -1.5e15, "largest_sm": 143})
    assert {6, 14} <= set(states(found)[State.HELD])


def test_deciding_tests_exist(tmp_path: Path) -> None:
    """A renamed test would leave its assumption undecided for ever."""
    collect = [
        sys.executable,
        "-m",
        "pytest",
        "tests/gpu",
        "--collect-only",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(collect, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = [line for line in done.stdout.splitlines() if "::" in line]
    found = run_left(tmp_path, tests=dict.fromkeys(names, "passed"))
    there = tuple(test for test in found.tests if test.test in names)
    assert states(replace(found, tests=there))[State.HELD] == list(range(1, 19))


def test_stage_without_enough_time_is_reported(tmp_path: Path) -> None:
    run_left(tmp_path)
    assert why(evidence.read(tmp_path, overran=("rest",), stages=("look",)), 4) == "ran out of time: rest"


def test_test_in_which_the_run_ended_decides_nothing(tmp_path: Path) -> None:
    found = run_left(tmp_path, tests={"tests/gpu/test_walls.py::test_everything[real_gpu]": "running"})
    assert 9 in states(found)[State.OPEN]


def test_fake_driver_decides_nothing_about_hardware(tmp_path: Path) -> None:
    found = run_left(tmp_path, look={"fake": True}, clock={"offset_us": 1e9, "largest_sm": 500})
    assert states(found) == {State.HELD: [1, 2, 4], State.FELL: [], State.OPEN: [3, *range(5, 19)]}


def test_a_verdict_has_ten_lines(tmp_path: Path) -> None:
    done = [Stage("look", good=True, seconds=1), Stage("stand", good=False, seconds=2)]
    failing = {"tests/gpu/test_walls.py::test_everything[real_gpu]": "failed"}
    lines = ten_lines(run_left(tmp_path, tests=failing), done, list(FIRST), ["NVRM: Xid 31"])
    assert len(lines) == 10
    assert lines[0].startswith("machine: NVIDIA H200, 132 SMs, CUDA 13.0")
    assert lines[1] == (
        "stages: ok look; FAILED stand; not begun build clock rest contract rows;"
        " kernel log: 1 lines of GPU errors (Xid)"
    )
    assert lines[2] == "stood up: faults 2/2, features 1/1, shares 2/2, zeroed 1/1, textures 2/2, control 3/3"
    assert lines[3] == "did not: walls 0/1 (test_everything[real_gpu])"
    assert lines[5] == "rows: 2 measured, 2 skipped; missed: none"
    assert lines[8].startswith("fell: 9 the strict walls let the driver work (1 of 1 failed:")
    assert lines[9].startswith("not decided: none (")


def test_an_empty_verdict_has_ten_lines_without_claims(tmp_path: Path) -> None:
    lines = ten_lines(evidence.read(tmp_path), [], list(FIRST), [])
    assert len(lines) == 10
    assert lines[0].startswith("machine: not looked at, commit ")
    assert lines[6] == "clock not read: no reading; hooks not tried"


def test_machine_without_a_gpu_is_reported_with_the_reason(tmp_path: Path) -> None:
    probe: dict[str, Any] = {
        "devices": [],
        "driver_version": None,
        "problem": "libcuda.so.1 not found: install NVIDIA's driver",
    }
    found = run_left(tmp_path, look={"probe": probe})
    told = ten_lines(found, [], list(FIRST), [])[0]
    assert told.startswith("machine: no GPU found (libcuda.so.1 not found: install NVIDIA's driver), CUDA None")


def test_unfinished_stage_is_not_reported_as_failed(tmp_path: Path) -> None:
    """A run that is killed leaves the lines that were written when its stage began."""
    tests = {
        "tests/gpu/test_walls.py::test_everything[real_gpu]": "running",
        "tests/gpu/test_shares.py::test_share_is_whole_groups_and_reported[real_gpu]": "skipped",
    }
    done = [Stage("look", good=True, seconds=1)]
    lines = ten_lines(run_left(tmp_path, tests=tests), done, ["look", "stand", "rest"], [], running="stand")
    assert lines[1].startswith("stages: ok look; running stand; not begun rest;")
    assert lines[3] == (
        "did not: walls 0/1 (test_everything[real_gpu] running),"
        " shares 1/2 (test_share_is_whole_groups_and_reported[real_gpu] skipped)"
    )
