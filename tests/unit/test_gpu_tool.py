"""``make gpu`` (``tools/gpu``): bounded stages that do not depend on one another, and a summary of what went
wrong, also when the run is stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.limits import HANGS_AFTER_S
from tools.gpu import __main__ as program
from tools.gpu import devices, look, outcomes, packages, stages
from tools.gpu.job import Job
from tools.gpu.stages import Plan, Verdict

HANGING_TESTS = """
import os, signal, threading
def test_good(): pass
def test_bad(): assert 1 == 2, "numbers differ"
def test_hangs():
    os.kill(int(os.environ["TO_SIGNAL"]), signal.SIGTERM)
    threading.Event().wait()
def test_never_begins(): pass
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, driver=None, quick=True, more_tests=False, until=time.monotonic() + HANGS_AFTER_S)  # noqa: TID251  an argument of the job's


def breaks(_job: Job) -> Verdict:
    raise OSError("no such device")


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *argv: str) -> int:
    """Runs the program with three stages: a good one, one that fails and one that raises."""
    plans = {
        "breaks": Plan(breaks, 1),
        "fails": Plan(lambda _job: (False, ["7 of 9"]), 1),
        "works": Plan(lambda _job: (True, ["all 9"]), 1),
    }
    monkeypatch.setattr(program, "STAGES", plans)
    return program.main([*argv, "--out", str(tmp_path / "out")])


def summary(out: Path) -> list[str]:
    return [line.strip() for line in (out / "summary.txt").read_text().splitlines()]


def test_failed_stage_stops_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path) == 1
    lines = summary(tmp_path / "out")
    assert [line.split(" (")[0] for line in lines[::2]] == ["FAILED breaks", "FAILED fails", "ok     works"]
    assert lines[1::2] == ["OSError: no such device", "7 of 9", "all 9"]


def test_only_the_named_stages_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, "works") == 0
    assert len(summary(tmp_path / "out")) == 2


def test_without_a_gpu_no_other_stage_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plans = {"look": Plan(lambda _job: (False, ["no GPU: {}"]), 1), "works": Plan(lambda _job: (True, []), 1)}
    monkeypatch.setattr(program, "STAGES", plans)
    assert program.main(["--out", str(tmp_path)]) == 1
    assert summary(tmp_path)[1:] == ["no GPU: {}", "not begun: works"]


def test_unknown_stage_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path, "walks")
    assert "walks is no stage; there are: breaks, fails, works" in capsys.readouterr().err


def test_output_folder_that_cannot_be_made_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path)
    assert f"--out {tmp_path}/out: File exists; allowed: a folder" in capsys.readouterr().err


def test_results_of_an_earlier_run_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "stand.jsonl").write_text("{}\n")
    run(monkeypatch, tmp_path)
    assert not (tmp_path / "out" / "stand.jsonl").exists()


# ---- time --------------------------------------------------------------------------------------


def test_a_stage_has_its_share_of_the_time_left(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [job.until - 100] * 3 + [job.until - 90] * 3
    monkeypatch.setattr("tools.gpu.job.time", SimpleNamespace(monotonic=lambda: moments.pop(0)))
    job.begin("one", 0.25)
    assert job.stage_left() == pytest.approx(25)
    job.begin("last", 1.0)  # the last stage gets the time that the first did not use
    assert job.stage_left() == pytest.approx(90)


@pytest.mark.parametrize("argument", ["-1", "nan", "inf", "1e400", "soon"])
def test_invalid_time_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main([f"--seconds={argument}"])
    assert f"{argument!r} is no time; allowed: seconds, 0 or more" in capsys.readouterr().err


def test_more_seconds_give_more_to_every_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shares: list[float] = []

    def notes(job: Job) -> Verdict:
        shares.append(job.stage_left())
        return True, []

    monkeypatch.setattr(program, "STAGES", {name: Plan(notes, weight) for name, weight in (("a", 1), ("b", 3))})
    for seconds in ("1000", "4000"):
        program.main(["--out", str(tmp_path), "--seconds", seconds])
    assert 100 < shares[0] <= 250 < shares[1] <= 1000
    assert 750 < shares[2] <= 1000 < shares[3] <= 4000


def test_when_time_is_up_no_stage_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, "--seconds", "0") == 1
    assert summary(tmp_path / "out") == ["not begun: breaks fails works"]


def test_program_that_runs_too_long_is_ended_and_its_output_kept(job: Job) -> None:
    job.begin("stage", 1.0)
    for limit_s in (0.5, 5, 50):  # until the time suffices for a shell to start
        code, text = job.run("log", ["sh", "-c", "echo begun; exec sleep 600"], limit_s)
        assert code is None
        if text:
            break
    assert text == "begun\n"
    assert job.overran == {"stage"}


def test_program_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    monkeypatch.setattr("tools.gpu.job.INTERRUPT_S", 0.1)
    monkeypatch.setattr("tools.gpu.job.TERMINATE_S", 0.1)
    assert job.run("log", ["sh", "-c", "trap '' INT TERM; exec sleep 600"], 0.5)[0] is None


def test_output_goes_to_a_log_of_its_own(job: Job) -> None:
    code, text = job.run("log", [sys.executable, "-c", "print('word'); raise SystemExit(3)"])
    assert (code, text) == (3, "word\n")
    assert (job.out / "log").read_text() == "word\n"


# ---- being stopped -----------------------------------------------------------------------------

STOPPED_RUN = """
import os, sys
from tools.gpu import __main__ as program, stages
from tools.gpu.stages import Plan
os.environ["TO_SIGNAL"] = str(os.getpid())
def tests(job):
    return stages._pytest(job, "tests", [sys.argv[1]])
program.STAGES = {"tests": Plan(tests, 1), "rows": Plan(lambda job: (True, []), 1)}
sys.exit(program.main(["--out", sys.argv[2]]))
"""


def test_stopped_run_keeps_the_outcomes_of_its_tests(tmp_path: Path) -> None:
    """The third of four tests stops the run, and would never end by itself."""
    tests, out = tmp_path / "test_some.py", tmp_path / "out"
    tests.write_text(f"import pytest\npytestmark = pytest.mark.gpu\n{HANGING_TESTS}")
    argv = [sys.executable, "-c", STOPPED_RUN, str(tests), str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    lines = summary(out)
    assert done.returncode == 1, done.stderr
    assert lines[0].startswith("FAILED tests")
    assert lines[1].startswith("1 passed, 1 failed, 1 running (of 4 tests")
    assert "was stopped by SIGTERM" in lines[2]
    assert "test_hangs" in lines[2]
    assert "numbers differ" in lines[3]
    assert lines[4:] == ["stopped by SIGTERM", "not begun: rows"]
    assert lines[0] in done.stdout


def test_killed_run_keeps_the_stages_that_ended(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from tools.gpu import __main__ as program\n"
        "from tools.gpu.stages import Plan\n"
        "kill = lambda job: os.kill(os.getpid(), signal.SIGKILL)\n"
        "program.STAGES = {'one': Plan(lambda job: (True, ['fact']), 1), 'two': Plan(kill, 1)}\n"
        f"program.main(['--out', {str(tmp_path)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == -signal.SIGKILL
    assert [line.split(" (")[0] for line in summary(tmp_path)] == ["ok     one", "fact", "running: two"]


# ---- findings of stages ------------------------------------------------------------------------


def test_outcomes_include_skips_and_errors_outside_of_tests(tmp_path: Path) -> None:
    tests, noted = tmp_path / "test_some.py", tmp_path / "noted"
    tests.write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError('no context')\n"
        "def test_error(broken): pass\n"
        "def test_skipped(): pytest.skip('no tool')\n"
        "def test_good(): pass\n"
    )
    argv = [sys.executable, "-m", "pytest", str(tests), "-p", "tools.gpu.outcomes", "-c", os.devnull]
    subprocess.run(
        argv, env=os.environ | {outcomes.FILE: str(noted)}, capture_output=True, check=False, timeout=HANGS_AFTER_S
    )
    found = outcomes.read(noted)
    assert [test.outcome for test in found.tests] == ["error", "skipped", "passed"]
    assert "no context" in found.tests[0].reason
    assert "no tool" in found.tests[1].reason


def test_line_truncated_by_a_kill_is_left_out(tmp_path: Path) -> None:
    whole = json.dumps({"test": "t", "outcome": "passed", "seconds": 1, "reason": ""})
    (tmp_path / "noted").write_text(f"{whole}\n{whole[:20]}")
    assert [test.outcome for test in outcomes.read(tmp_path / "noted").tests] == ["passed"]


def test_figures_are_kept_under_the_name_of_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stages, "REPOSITORY", tmp_path)
    monkeypatch.setattr(stages, "RESULTS", tmp_path / "bench" / "results")
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"name": "row", "hardware": "NVIDIA H200, 132 SMs, 143771 MiB"}], indent=2))
    assert stages._keep(results) == Path("bench/results/h200.json")
    assert (tmp_path / "bench" / "results" / "h200.json").read_text() == results.read_text()


def test_missing_packages_are_named_as_pip_knows_them(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    monkeypatch.setattr(packages, "PACKAGES", {"no_such_module": "some-package", "no.such.module": "another"})
    monkeypatch.setattr(look, "_probe", lambda _job: {"found": True, "line": "GPU: {}"})
    good, facts = look.look(job)
    assert not good
    assert any("missing Python packages: some-package another" in fact for fact in facts)
    assert (job.out / "facts" / "userns").exists()


def test_missing_programs_are_kept_with_the_packages(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    monkeypatch.setattr(look, "PROGRAMS", ("sh", "no-such-compiler"))
    monkeypatch.setattr(packages, "PACKAGES", {})
    monkeypatch.setattr(look, "_probe", lambda _job: {"found": True, "line": "GPU: {}"})
    good, facts = look.look(job)
    assert not good
    assert "missing program: no-such-compiler" in facts
    assert json.loads((job.out / "look.json").read_text())["missing"] == ["no-such-compiler"]


def test_output_of_the_driver_around_the_probes_answer_is_ignored(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    answer = json.dumps({"devices": [{"name": "H200"}], "problem": None})
    monkeypatch.setattr(job.__class__, "run", lambda *_arguments: (0, f"warning: {{}}\n{answer}\n3\n"))
    _, facts = look.look(job)
    assert facts[-1].startswith("GPU (probed in ")
    assert "H200" in facts[-1]


def test_folder_that_workers_cannot_read_is_named(monkeypatch: pytest.MonkeyPatch, job: Job, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir(mode=0o700)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(look, "_probe", lambda _job: {"found": True, "line": "GPU: {}"})
    good, facts = look.look(job)
    assert not good
    assert f"closed to workers, which run as a different user: {tmp_path}/site (chmod o+rx)" in facts
    (tmp_path / "site").chmod(0o755)
    assert not any("closed to workers" in fact for fact in look.look(job)[1])


def test_failed_probe_is_reported_and_ends_nothing(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    monkeypatch.setattr(job.__class__, "run", lambda *_arguments: (1, "Traceback: no such library"))
    good, facts = look.look(job)
    assert not good
    assert not look.has_no_gpu(facts)
    assert "the probe for GPUs ended with 1: Traceback: no such library" in facts[-1]


def test_only_nodes_of_gpus_are_held_open(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    with devices.held_open(tmp_path) as told:
        assert open_in(tmp_path) == {"nvidia0", "nvidia12"}
        assert told == [f"held open: {tmp_path}/nvidia0", f"held open: {tmp_path}/nvidia12"]
    assert not open_in(tmp_path)


def open_in(folder: Path) -> set[str]:
    """Names of a folder's files that this process has open."""
    links = {link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    return {path.name for path in links if path.parent == folder}


def test_node_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").mkdir()
    with devices.held_open(tmp_path) as told:
        assert told == [f"cannot hold {tmp_path}/nvidia0 open: Is a directory"]


def test_every_file_of_tests_is_in_the_plan_of_the_first_run_once() -> None:
    planned = [*stages.stand_files(), *stages.other_files(), stages.CONTRACT]
    assert sorted(planned) == sorted(f"tests/gpu/{path.name}" for path in stages.TESTS.glob("test_*.py"))
