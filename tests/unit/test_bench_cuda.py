"""The CUDA rows on the fake driver: both sides compute, wrong results are found out, and rows run from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench import workloads
from bench.__main__ import main
from bench.cuda import work
from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu, find
from bench.cuda.native import NativeError, NativeGpu, Program
from bench.cuda.work import Native
from bench.lab import Lab
from bench.provenance import Provenance, save
from bench.registry import ROWS, Row, select
from bench.results import Result, Skipped, SkipRow
from bench.rows import load
from bench.runner import run_rows
from bench.workloads import Workload
from tests.fakes import cuda_driver
from tests.protocol.worker_rig import needs_walls
from tests.unit.cpu_rig import Rig, rig

SMALL: dict[str, Callable[[], Workload]] = {
    "saxpy": partial(workloads.saxpy, 1024 + 256),
    "matmul_tiled": partial(workloads.matmul_tiled, 48),
    "reduce": partial(workloads.reduce, 10_007, 4),
    "stencil": partial(work.stencil, 67),
    "nbody": partial(work.nbody, 512),
    "busy": partial(work.busy, 5, 50),
}
ROWS_TO_RUN = ("cuda_null_launch_us_*", "cuda_copy_in_64k_gbps", "cuda_saxpy_64m*", "cuda_8_vms_busy_per_s")


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    return find(cuda_driver.build())


@pytest.fixture
def native(gpu: Gpu) -> Iterator[NativeGpu]:
    with NativeGpu(gpu) as made:
        yield made


@pytest.fixture(scope="module")
def cpu() -> Iterator[Rig]:
    with rig() as made:
        yield made


def cubin(made: Workload, gpu: Gpu) -> bytes:
    """Compiled as for the rows; skips the test where there is no compiler."""
    try:
        return cubin_of(made.text("cu").encode(), gpu)
    except SkipRow as reason:
        pytest.skip(str(reason))


# ---- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_kernel_agrees_with_numpy_on_the_cpu_engine(cpu: Rig, name: str) -> None:
    """What runs on a GPU is checked here without one."""
    made = SMALL[name]()
    cpu.load(made.text("cu"))
    arguments = [cpu.array(a.shape, a.dtype, a) if isinstance(a, np.ndarray) else a for a in made.arguments]
    cpu.launch(made.name, made.grid, made.block, *arguments)
    made.verify(np.asarray(arguments[made.result]), "the CPU engine")


@pytest.mark.parametrize("name", SMALL)
def test_native_side_proves_its_result(native: NativeGpu, gpu: Gpu, name: str) -> None:
    made = SMALL[name]()
    theirs = Native(native, made, cubin(made, gpu))  # raises when it is wrong
    assert theirs.whole() > 0
    assert theirs.per_second(3) > 0
    theirs.prove()


def test_result_that_nobody_wrote_is_found(native: NativeGpu, gpu: Gpu) -> None:
    made = SMALL["stencil"]()
    nothing = Workload("empty", "empty", "", (1,), (1,), (made.arguments[2],), 0, made.expected)
    with pytest.raises(ArithmeticError, match="empty by the native side is off by"):
        Native(native, nothing, cubin(nothing, gpu))


# ---- the native side ---------------------------------------------------------------------------


def test_copies_bring_back_what_was_sent(native: NativeGpu) -> None:
    sent, got, address = native.pinned(1000), native.pinned(1000), native.alloc(1000)
    sent[:], got[:] = np.arange(1000) % 251, 0
    times = native.round_trips(Program().copy_in(address, sent).copy_out(address, got), 3)
    assert len(times) == 3
    assert np.array_equal(sent, got)


def test_refused_call_is_named_with_its_error(native: NativeGpu, gpu: Gpu) -> None:
    with pytest.raises(NativeError, match=r"cuModuleGetFunction: CUDA_ERROR_NOT_FOUND \(500\)"):
        native.function(cubin(SMALL["saxpy"](), gpu), "no_such_kernel")


def test_missing_driver_is_a_reason_to_skip(tmp_path: Path) -> None:
    missing = tmp_path / "libcuda.so.1"
    with pytest.raises(SkipRow, match="no GPU: "):
        find(missing)
    absent = Gpu(0, "", "", "sm_90", 1, 1, 1, 1, missing, "13.0")
    with pytest.raises(SkipRow, match=r"the native side cannot open the GPU: .*No such file"):
        NativeGpu(absent)


# ---- rows --------------------------------------------------------------------------------------


@needs_walls
def test_rows_run_on_small_sizes(gpu: Gpu) -> None:
    load()
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, ROWS_TO_RUN), ROWS_TO_RUN, lambda _text: None)
    assert skipped == []
    assert {result.name for result in results} == {
        "cuda_null_launch_us_p50",
        "cuda_null_launch_us_p99",
        "cuda_copy_in_64k_gbps",
        "cuda_saxpy_64m_per_s",
        "cuda_saxpy_64m_end_to_end_per_s",
        "cuda_8_vms_busy_per_s",
    }
    assert all(result.value > 0 and result.baseline is not None and result.baseline > 0 for result in results)


def test_rows_of_the_control_system_run_on_small_sizes(gpu: Gpu) -> None:
    load()
    wanted = ("cuda_hook_*", "cuda_records_*", "cuda_channels_*")
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert skipped == []
    found = {result.name: result for result in results}
    assert set(found) >= {"cuda_hook_unbound_percent", "cuda_hook_block_percent", "cuda_channels_open_close_s"}
    assert found["cuda_channels_open_close_s"].value > 0
    assert found["cuda_hook_unbound_percent"].unit == "%"
    assert "cuda_records_per_s" in found  # 0: the fake runs no hooks


@needs_walls
def test_row_that_breaks_its_device_does_not_spoil_the_next(gpu: Gpu) -> None:
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        first = lab.cuda.vm
        broken = first.device.load('extern "C" __global__ void trap() { __trap(); }')
        launch = first.device.launch(first.device.function(broken, "trap"), (1,), (1,))
        with pytest.raises(Exception, match=r"FAULT"):
            first.device.run(launch)
        second = lab.cuda.vm
        assert second is not first
        assert second.device.num_pes == gpu.num_pes


def test_every_cuda_figure_says_why_it_is_not_there(tmp_path: Path) -> None:
    load()
    with Lab(quick=True, driver=tmp_path / "libcuda.so.1") as lab:
        wanted = ["cuda_*", "quota_*"]
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert results == []
    assert len({row.reason for row in skipped}) == 1
    assert skipped[0].reason.startswith("no GPU: ")


def test_no_row_begins_when_time_is_up() -> None:
    rows = [Row(("never",), lambda _lab: [Result("never", 1.0, "us", "lower")])]
    with Lab() as lab:
        results, skipped = run_rows(lab, rows, [], lambda _text: None, until=0.0)
    assert (results, skipped) == ([], [Skipped("never", "no time was left for it")])


# ---- kept results ------------------------------------------------------------------------------


def test_kept_entries_say_where_they_come_from(tmp_path: Path) -> None:
    where_from = Provenance("A GPU, 8 SMs, 1024 MiB", "580.1 (CUDA 13.0)", "2026-11-21", "abc")
    path = save(tmp_path / "results" / "a.json", [Result("fast", 0.5, "us", "lower", 2.0)], where_from)
    (entry,) = json.loads(path.read_text())
    assert entry == {
        "name": "fast",
        "value": 0.5,
        "unit": "us",
        "baseline": 2.0,
        "ratio": 0.25,
        "better": "lower",
        "hardware": "A GPU, 8 SMs, 1024 MiB",
        "driver": "580.1 (CUDA 13.0)",
        "date": "2026-11-21",
        "commit": "abc",
    }


def test_figures_of_small_sizes_are_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cuda_*", "--smoke", "--save", str(tmp_path / "kept.json")]) == 2
    assert "mean nothing" in capsys.readouterr().err
    assert not (tmp_path / "kept.json").exists()


def test_figures_are_kept_of_gpus_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "libcuda.so.1")
    assert main(["cuda_*", "--driver", missing, "--save", str(tmp_path / "kept.json")]) == 2
    assert "bench: --save: no GPU: " in capsys.readouterr().err


def test_what_was_measured_is_kept_with_the_gpu(gpu: Gpu, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    options = ["--driver", str(gpu.driver), "--quick", "--limit", "-1", "--save", str(kept), "--out", str(tmp_path)]
    assert main(["cuda_compile_cached_ms", *options]) == 0
    assert json.loads(kept.read_text()) == []
    assert "no time was left" in (tmp_path / "skipped.json").read_text()
