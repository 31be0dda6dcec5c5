"""The fuzzing campaign: how it divides its time, what it reads in outputs, and what it says about a crash."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tools import fuzz
from tools.fuzz import FAST, PYTHON, SANITIZED, Outcome, Run, Target

LIBFUZZER = """\
INFO: seed corpus: files: 12 min: 1b max: 9b total: 60b rss: 30Mb
#13	INITED cov: 50 ft: 60 corp: 7/60b exec/s: 0 rss: 31Mb
#4096	pulse  cov: 52 ft: 70 corp: 11/90b lim: 4 exec/s: 2048 rss: 40Mb
"""
STATISTICS = "Done 5000 runs in 2 second(s)\nstat::number_of_executed_units: 5000\nstat::peak_rss_mb: 40\n"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path)
    monkeypatch.setattr(fuzz, "build", lambda _runs: None)
    return tmp_path


def play(monkeypatch: pytest.MonkeyPatch, scripts: dict[str, str]) -> None:
    """Has each target be a shell script."""
    monkeypatch.setattr(fuzz, "TARGETS", tuple(Target(name, 1, (PYTHON,)) for name in scripts))
    monkeypatch.setattr(fuzz, "command_of", lambda run: ["sh", "-c", scripts[run.target]])


def test_time_is_divided_by_weight_and_build() -> None:
    runs = fuzz.planned([Target("a", 3), Target("b", 1, (PYTHON,))], 400)

    assert runs == [Run("a", FAST, 210), Run("a", SANITIZED, 90), Run("b", PYTHON, 100)]


def test_every_target_runs_even_if_time_is_short() -> None:
    assert {run.seconds for run in fuzz.planned(fuzz.TARGETS, 0.5)} == {1}


def test_runs_and_corpus_are_those_of_the_statistics() -> None:
    assert fuzz.runs_in(LIBFUZZER + STATISTICS) == 5000
    assert fuzz.corpus_in(LIBFUZZER + STATISTICS) == 11


def test_runs_of_a_target_that_died_are_those_of_its_last_progress() -> None:
    assert fuzz.runs_in(LIBFUZZER) == 4096
    assert fuzz.runs_in("") == fuzz.corpus_in("") == 0


def test_table_has_rates_and_sums() -> None:
    outcomes = [
        Outcome(Run("vring", FAST, 2), 3000, 2.0, 7, failed=False),
        Outcome(Run("pci", SANITIZED, 1), 500, 1.0, 1, failed=True),
    ]

    assert [line.split() for line in fuzz.table_of(outcomes).splitlines()] == [
        ["target", "build", "seconds", "runs", "runs/s", "corpus", "crashes"],
        ["vring", "fast", "2", "3,000", "1,500", "7", "0"],
        ["pci", "sanitized", "1", "500", "500", "1", "1"],
        ["all", "3", "3,500", "1,167", "1"],
    ]


def test_a_crash_fails_the_campaign_and_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = "echo 'ERROR: bad: it broke'; echo 'Test unit written to /x/crash-bad-1'; exit 77"
    play(monkeypatch, {"bad": bad, "good": f"printf '%s' '{STATISTICS}'"})

    assert fuzz.main(["--hours", "0.001"]) == 1

    said = capsys.readouterr().out
    assert "bad, python: ERROR: bad: it broke; output: " in said
    assert f"repeat with: {shlex.join([*fuzz.python_command('bad'), '/x/crash-bad-1'])}\n" in said
    rows = [line.split() for line in said.splitlines()]
    assert [row[3:] for row in rows if row[:2] == ["bad", "python"]] == [["0", "0", "0", "1"]]
    assert [row[3] for row in rows if row[:2] == ["good", "python"] and len(row) > 3] == ["5,000"]


def test_a_campaign_without_crashes_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, {"good": f"printf '%s' '{STATISTICS}'"})

    assert fuzz.main([]) == 0


def test_each_job_has_the_time_of_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    planned_s: list[float] = []
    play(monkeypatch, {"one": "true", "other": "true"})
    plan = fuzz.planned

    def noted(targets: Iterable[Target], seconds: float) -> list[Run]:
        planned_s.append(seconds)
        return plan(targets, seconds)

    monkeypatch.setattr(fuzz, "planned", noted)

    assert fuzz.main(["--hours", "0.5", "--jobs", "3"]) == 0
    assert planned_s == [5400]


def test_targets_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("left", "right"):
        os.mkfifo(tmp_path / name)
    meet = {
        "one": f"echo > {tmp_path / 'left'}; read _ < {tmp_path / 'right'}",
        "other": f"read _ < {tmp_path / 'left'}; echo > {tmp_path / 'right'}",
    }
    play(monkeypatch, meet)

    assert fuzz.main(["--jobs", "2"]) == 0


@pytest.mark.parametrize("argument", ["0", "-1", "1025"])
def test_number_of_jobs_is_bounded(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        fuzz.main([f"--jobs={argument}"])
    assert refused.value.code == 2
    assert "allowed: 1 to 1024" in capsys.readouterr().err


def test_a_target_that_hangs_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def hangs(*_arguments: object, **_options: object) -> subprocess.CompletedProcess[bytes]:
        raise subprocess.TimeoutExpired("fuzzer", 1)

    play(monkeypatch, {"slow": ""})
    monkeypatch.setattr("tools.fuzz.subprocess.run", hangs)

    assert fuzz.main([]) == 1
    assert "ERROR: hangs" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["0", "-1", "nan", "1e9", "soon"])
def test_time_that_is_none_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        fuzz.main([f"--hours={argument}"])
    assert refused.value.code == 2
    assert "--hours" in capsys.readouterr().err


def test_unknown_target_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fuzz.main(["rings"])
    assert "no target is called rings; allowed: vring, dataplane, " in capsys.readouterr().err


def test_programs_in_c_are_built_and_run_from_their_corpora(folder: Path) -> None:
    run = Run("vring", FAST, 5)
    command = fuzz.command_of(run)

    assert fuzz.built_by_make([run, Run("disk_cache", PYTHON, 1)]) == [folder / "fast_vring"]
    assert fuzz.built_by_make([Run("image", FAST, 1)]) == [folder / "fast_image", folder / "seeds-image"]
    assert command[0] == str(folder / "fast_vring")
    assert command[-2:] == [str(folder / "found-vring"), str(fuzz.SOURCES / "corpus" / "vring")]
    assert "-max_total_time=5" in command
