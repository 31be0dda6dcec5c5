"""``tools/gpu.py``: bounded stages that do not depend on one another, and a summary that says what went wrong."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tools import gpu


@pytest.fixture
def job(tmp_path: Path) -> gpu.Job:
    return gpu.Job(tmp_path, driver=None, quick=True, more_tests=False, until=time.monotonic() + 60)


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *argv: str) -> int:
    """The program with three stages: a good one, one that fails and one that breaks."""

    def breaks(_job: gpu.Job) -> tuple[bool, list[str]]:
        raise OSError("no such device")

    stages = {"breaks": breaks, "fails": lambda _job: (False, ["7 of 9"]), "works": lambda _job: (True, ["all 9"])}
    monkeypatch.setattr(gpu, "STAGES", stages)
    return gpu.main([*argv, "--out", str(tmp_path / "out")])


def test_failed_stage_stops_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path) == 1
    lines = (tmp_path / "out" / "summary.txt").read_text().splitlines()
    assert [line.split(" (")[0] for line in lines[::2]] == ["FAILED breaks", "FAILED fails", "ok     works"]
    assert [line.strip() for line in lines[1::2]] == ["OSError: no such device", "7 of 9", "all 9"]


def test_only_the_named_stages_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, "works") == 0


def test_where_there_is_no_gpu_nothing_else_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stages = {"look": lambda _job: (False, ["no GPU: {}"]), "works": lambda _job: (True, ["all 9"])}
    monkeypatch.setattr(gpu, "STAGES", stages)
    assert gpu.main(["--out", str(tmp_path)]) == 1
    assert [line.strip() for line in (tmp_path / "summary.txt").read_text().splitlines()[1:]] == ["no GPU: {}"]


def test_unknown_stage_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path, "walks")
    assert "walks is no stage; there are: breaks, fails, works" in capsys.readouterr().err


def test_program_that_runs_too_long_is_ended_and_its_words_kept(job: gpu.Job) -> None:
    script = "import time; print('begun', flush=True); time.sleep(600)"
    code, text = gpu._run(job, "log", [sys.executable, "-c", script], 2)
    assert (code, text.strip()) == (None, "begun")


def test_output_goes_to_a_log_of_its_own(job: gpu.Job) -> None:
    code, text = gpu._run(job, "log", [sys.executable, "-c", "print('word'); raise SystemExit(3)"], 30)
    assert (code, text) == (3, "word\n")
    assert (job.out / "log").read_text() == "word\n"


def test_figures_are_kept_under_the_name_of_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "REPOSITORY", tmp_path)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "bench" / "results")
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"name": "row", "hardware": "NVIDIA H200, 132 SMs, 143771 MiB"}], indent=2))
    assert gpu._keep(results) == Path("bench/results/h200.json")
    assert (tmp_path / "bench" / "results" / "h200.json").read_text() == results.read_text()


def test_missing_packages_are_named_as_pip_knows_them(monkeypatch: pytest.MonkeyPatch, job: gpu.Job) -> None:
    monkeypatch.setattr(gpu, "PACKAGES", {"no_such_module": "some-package", "no.such.module": "another"})
    monkeypatch.setattr(gpu, "_driver_facts", lambda _job: ["GPU: {}"])
    good, facts = gpu.look(job)
    assert not good
    assert any("missing Python packages: some-package another" in fact for fact in facts)


def test_stages_share_the_time(job: gpu.Job) -> None:
    assert job.left(5) == 5
    assert 5 < job.left() <= 60
    late = gpu.Job(job.out, driver=None, quick=True, more_tests=False, until=time.monotonic() - 1)
    assert late.left(5) == 1
