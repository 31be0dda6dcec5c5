"""Clocks of a GPU in benchmark rows: brought up before the measurement, read at both ends, kept and reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.cuda.gpu import Gpu, find
from bench.cuda.ramp import LONG_S, SHORT_S, ramp_seconds
from bench.lab import Lab
from bench.registry import Outcome, Row
from bench.results import ClockRecord, Result, outcome, rows_of, table, write_json
from bench.runner import run_rows
from tests.fakes import cuda_driver, nvml_library
from tests.fakes.cuda_driver import FakeDriver
from tests.protocol.worker_rig import needs_walls
from vhost_backend.engines.cuda.nvml import GpuClocks, Nvml
from vhost_backend.errors import EngineError

IDLE, FULL = "345 1593 8", "1980 3201 0"
Subject = Callable[[], float]


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    return find(cuda_driver.build())


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A management library whose GPU runs at full clocks."""
    monkeypatch.setenv("VGC_FAKE_CLOCKS", FULL)
    return nvml_library.build(tmp_path)


def row_of(subject: Subject) -> Row:
    """A row with two figures of the same comparison."""

    def measure(lab: Lab) -> Iterator[Outcome]:
        (samples,) = lab.cuda.alternate(2, subject)
        yield outcome("first", samples, "us", "lower")
        yield outcome("second", samples, "us", "lower")

    return Row(("first", "second"), measure)


def run(gpu: Gpu, nvml: Path, *rows: Row) -> list[Result]:
    with Lab(driver=gpu.driver, nvml=nvml, smoke=True) as lab:
        results, skipped = run_rows(lab, rows, [], lambda _text: None)
    assert skipped == []
    return results


def slow_down() -> float:
    """A subject under which a GPU lowers its clocks."""
    os.environ["VGC_FAKE_CLOCKS"] = "1400 3201 0"
    return 1.0


# ---- reading -----------------------------------------------------------------------------------


def test_library_reports_clocks_of_the_gpu_with_a_uuid(nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Nvml(str(nvml)) as library:
        assert library.clocks("GPU-0") == GpuClocks(1980, 3201, 0)
        monkeypatch.setenv("VGC_FAKE_CLOCKS", IDLE)
        assert library.clocks("GPU-0") == GpuClocks(345, 1593, 8)


def test_failed_reading_of_clocks_names_the_call(nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_FAKE_CLOCKS", "none")
    with Nvml(str(nvml)) as library:
        with pytest.raises(EngineError, match=r"nvmlDeviceGetHandleByUUID: .* \(6\)"):
            library.clocks("MIG-0")
        with pytest.raises(EngineError, match=r"nvmlDeviceGetClockInfo: .* \(3\)"):
            library.clocks("GPU-0")


# ---- a row's record ----------------------------------------------------------------------------


def test_result_has_the_clocks_of_its_rows_begin_and_end(gpu: Gpu, nvml: Path) -> None:
    first, second = run(gpu, nvml, row_of(slow_down))
    assert first.clocks == second.clocks == ClockRecord(GpuClocks(1980, 3201, 0), GpuClocks(1400, 3201, 0))


def test_each_row_has_a_record_of_its_own(gpu: Gpu, nvml: Path) -> None:
    again = Row(("first", "second"), row_of(lambda: 1.0).measure)
    *_, last = run(gpu, nvml, row_of(slow_down), again)
    assert last.clocks == ClockRecord(GpuClocks(1400, 3201, 0), GpuClocks(1400, 3201, 0))


def test_clocks_that_cannot_be_read_are_recorded_as_unknown(gpu: Gpu, tmp_path: Path) -> None:
    first, _ = run(gpu, tmp_path / "libnvidia-ml.so.1", row_of(lambda: 1.0))
    assert first.clocks is not None
    assert (first.clocks.before, first.clocks.after) == (None, None)
    assert "libnvidia-ml.so.1 cannot be used" in first.clocks.unknown
    assert "clocks unknown: " in table([first])


def test_row_that_needs_no_gpu_has_no_clocks(gpu: Gpu, nvml: Path) -> None:
    plain = Row(("plain",), lambda _lab: [Result("plain", 1.0, "us", "lower")])
    _, _, last = run(gpu, nvml, row_of(lambda: 1.0), plain)
    assert last.clocks is None
    assert "clocks" not in rows_of([last])[0]


def test_kept_figures_have_their_clocks(gpu: Gpu, nvml: Path, tmp_path: Path) -> None:
    results = run(gpu, nvml, row_of(slow_down))
    entry = json.loads(write_json(tmp_path / "out", results, []).read_text())[0]
    assert entry["clocks"] == {
        "before": {"sm_mhz": 1980, "mem_mhz": 3201, "pstate": 0},
        "after": {"sm_mhz": 1400, "mem_mhz": 3201, "pstate": 0},
    }


@needs_walls
def test_command_line_can_name_the_management_library(gpu: Gpu, nvml: Path, tmp_path: Path) -> None:
    options = ["--driver", str(gpu.driver), "--nvml", str(nvml), "--quick", "--smoke", "--out", str(tmp_path)]
    assert main(["cuda_compile_cached_ms", *options]) == 0
    (entry,) = json.loads((tmp_path / "results.json").read_text())
    assert entry["clocks"]["before"] == entry["clocks"]["after"] == {"sm_mhz": 1980, "mem_mhz": 3201, "pstate": 0}


# ---- bringing them up --------------------------------------------------------------------------


def test_gpu_is_busy_before_the_first_measured_call(gpu: Gpu, nvml: Path) -> None:
    fake = FakeDriver(gpu.driver)
    launches: list[int] = []

    def subject() -> float:
        launches.append(fake.count("cuLaunchKernel"))
        return 1.0

    before = fake.count("cuLaunchKernel")
    run(gpu, nvml, row_of(subject))
    assert launches[0] >= before + 16
    assert len(set(launches)) == 1  # not while it is measured


def test_kernels_that_bring_clocks_up_are_kept_between_rows(gpu: Gpu, nvml: Path) -> None:
    fake = FakeDriver(gpu.driver)
    fake.clear()
    with Lab(driver=gpu.driver, nvml=nvml, smoke=True) as lab:
        for _ in range(2):
            lab.cuda.alternate(1, lambda: 1.0)
            lab.cuda.native.free_all()
    assert fake.misuses() == []
    assert fake.alive() == {}


def test_gpu_that_has_rested_is_brought_up_for_longer() -> None:
    assert ramp_seconds(rested_s=0.2) == SHORT_S
    assert ramp_seconds(rested_s=5.0) == ramp_seconds(rested_s=float("inf")) == LONG_S


def test_row_without_a_native_side_records_that_clocks_were_not_brought_up(
    gpu: Gpu, nvml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gpu, "library", property(lambda _gpu: "/no/such/library"))
    first, _ = run(gpu, nvml, row_of(lambda: 1.0))
    assert first.clocks is not None
    assert first.clocks.doubt.startswith("clocks not brought up: the native side cannot open the GPU")


# ---- the report --------------------------------------------------------------------------------


def record(before: str, after: str) -> ClockRecord:
    first, last = (GpuClocks(*map(int, text.split())) for text in (before, after))
    return ClockRecord(first, last)


@pytest.mark.parametrize("after", ["1400 3201 0", "1980 1593 0"])
def test_clocks_that_moved_by_more_than_a_tenth_are_reported(after: str) -> None:
    moved = record(FULL, after)
    figures = [Result(name, 1.0, "us", "lower", clocks=moved) for name in ("a", "b")]
    line = table(figures).splitlines()[-1]
    assert line == f"clocks moved from {moved.before} to {moved.after}: a, b"


@pytest.mark.parametrize("after", [FULL, "1900 3100 0", "1980 3201 2"])
def test_clocks_that_stayed_are_not_reported(after: str) -> None:
    figure = Result("a", 1.0, "us", "lower", clocks=record(FULL, after))
    assert len(table([figure]).splitlines()) == 3
