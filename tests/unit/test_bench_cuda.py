"""The CUDA rows on the fake driver: both sides compute, wrong results are detected, and rows run end to end."""

from __future__ import annotations

import json
import os
import re
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
from bench.native.loops import ffi, lib
from bench.provenance import Provenance, save
from bench.registry import ROWS, Row, select
from bench.results import Result, Skipped, SkipRow
from bench.rows import cuda_sharing, load
from bench.runner import run_rows
from bench.workloads import Workload
from tests.fakes import cuda_driver
from tests.fakes.cuda_driver import FakeDriver
from tests.protocol.worker_rig import needs_walls
from tests.unit.cpu_rig import Rig, rig
from vhost_backend.engines.cuda import toolchain, toolkits
from vhost_backend.engines.cuda.driver import ENVIRONMENT

SMALL: dict[str, Callable[[], Workload]] = {
    "saxpy": partial(workloads.saxpy, 1024 + 256),
    "matmul_tiled": partial(workloads.matmul_tiled, 48),
    "reduce": partial(workloads.reduce, 10_007, 4),
    "stencil": partial(work.stencil, 67),
    "nbody": partial(work.nbody, 512),
    "busy": partial(work.busy, 5, 50),
}
ROWS_TO_RUN = [
    "cuda_null_launch_us_*",
    "cuda_launch_200us_us_p50",
    "cuda_copy_in_1m*",
    "cuda_compile_cached_ms",
    "cuda_saxpy_256m*",
    "cuda_4_vms_busy*",
]
SECOND = "GPU-8f6e2a10-0000-4000-8000-0123456789ab"


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
    """A cubin compiled as for the rows; skips the test without a compiler."""
    try:
        return cubin_of(made.text("cu").encode(), gpu)
    except SkipRow as reason:
        pytest.skip(str(reason))


def gpu_called(uuid: str, driver: Path) -> Gpu:
    return Gpu(0, uuid, "", "sm_90", 1, 1, 1, 1, driver, "13.0")


# ---- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_kernel_agrees_with_numpy_on_the_cpu_engine(cpu: Rig, name: str) -> None:
    """The kernels that run on a GPU are checked here on the CPU engine."""
    made = SMALL[name]()
    cpu.load(made.text("cu"))
    arguments = [cpu.array(a.shape, a.dtype, a) if isinstance(a, np.ndarray) else a for a in made.arguments]
    cpu.launch(made.name, made.grid, made.block, *arguments)
    made.verify(np.asarray(arguments[made.result]), "the CPU engine")


@pytest.mark.parametrize("name", SMALL)
def test_native_side_checks_its_result(native: NativeGpu, gpu: Gpu, name: str) -> None:
    made = SMALL[name]()
    theirs = Native(native, made, cubin(made, gpu))  # raises when it is wrong
    assert theirs.whole() > 0
    assert theirs.per_second(3) > 0
    theirs.prove()


def test_result_that_was_never_written_is_detected(native: NativeGpu, gpu: Gpu) -> None:
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


def test_memfd_is_registered_and_copied_from_and_to(native: NativeGpu, gpu: Gpu) -> None:
    fake = FakeDriver(gpu.driver)
    fake.clear()
    sent, got, address = native.registered(10_000), native.registered(10_000), native.alloc(10_000)
    sent[:], got[:] = np.arange(10_000) % 251, 0
    native.round_trips(Program().copy_in(address, sent).copy_out(address, got))
    assert np.array_equal(sent, got)
    assert fake.number("host_allocations") == 2
    native.free_all()
    assert fake.alive().keys().isdisjoint({"host_allocations", "device_allocations"})
    assert fake.misuses() == []


def test_kept_memory_outlives_the_end_of_a_row(native: NativeGpu) -> None:
    with native.keeping():
        kept, address = native.pinned(64), native.alloc(64)
    native.alloc(64)
    native.free_all()
    native.round_trips(Program().copy_in(address, kept))  # would be refused if it were freed


def test_device_is_opened_by_its_uuid(tmp_path: Path) -> None:
    library = cuda_driver.with_settings(tmp_path, f"devices 2\n1.uuid {SECOND}\n")
    with NativeGpu(gpu_called(SECOND, library)):
        assert "(1)" in FakeDriver(library).calls("cuDevicePrimaryCtxRetain")[0]
    with pytest.raises(SkipRow, match=r"GPU-[0-9a-f-]* is not among the 2 devices that the driver shows"):
        NativeGpu(gpu_called(SECOND.replace("8", "9"), library))


def test_driver_starts_in_the_environment_of_workers(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    seen: list[dict[str, str]] = []

    class Spy:
        """The native functions, of which opening notes the environment and fails."""

        VGCB_GPU_WHY = lib.VGCB_GPU_WHY

        @staticmethod
        def vgcb_gpu_open(*_arguments: object) -> object:
            seen.append(dict(os.environ))
            return ffi.NULL

    for name in ENVIRONMENT:
        monkeypatch.setenv(name, "something else")
    monkeypatch.setattr("bench.cuda.native.lib", Spy)
    with pytest.raises(SkipRow):
        NativeGpu(gpu)
    assert {name: seen[0][name] for name in ENVIRONMENT} == ENVIRONMENT


def test_refused_call_is_named_with_its_error(native: NativeGpu, gpu: Gpu) -> None:
    with pytest.raises(NativeError, match=r"cuModuleGetFunction: CUDA_ERROR_NOT_FOUND \(500\)"):
        native.function(cubin(SMALL["saxpy"](), gpu), "no_such_kernel")


def test_missing_driver_is_a_reason_to_skip(tmp_path: Path) -> None:
    missing = tmp_path / "libcuda.so.1"
    with pytest.raises(SkipRow, match="no GPU: "):
        find(missing)
    with pytest.raises(SkipRow, match=r"the native side cannot open the GPU: .*No such file"):
        NativeGpu(gpu_called("", missing))


# ---- rows --------------------------------------------------------------------------------------


@needs_walls
def test_rows_run_on_small_sizes(gpu: Gpu) -> None:
    load()
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, ROWS_TO_RUN), ROWS_TO_RUN, lambda _text: None)
    assert skipped == []
    found = {result.name: result for result in results}
    assert set(found) == {
        "cuda_null_launch_us_p50",
        "cuda_null_launch_us_p99",
        "cuda_launch_200us_us_p50",
        "cuda_copy_in_1m_gbps",
        "cuda_copy_in_1m_beside_registered",
        "cuda_compile_cached_ms",
        "cuda_saxpy_256m_per_s",
        "cuda_saxpy_256m_end_to_end_per_s",
        "cuda_4_vms_busy_per_s",
        "cuda_4_vms_busy_cpus",
    }
    assert all(result.value > 0 and result.baseline is not None and result.baseline > 0 for result in results)
    assert all(result.clocks is not None for result in results)
    assert [name for name, result in found.items() if result.quoted] == [
        "cuda_saxpy_256m_per_s",
        "cuda_saxpy_256m_end_to_end_per_s",
    ]
    assert found["cuda_copy_in_1m_gbps"].value == found["cuda_copy_in_1m_beside_registered"].value
    assert found["cuda_copy_in_1m_gbps"].goal is not None
    assert found["cuda_copy_in_1m_beside_registered"].goal is None
    assert re.search(r"\(drivers .*, daemon .*, workers .*\)", found["cuda_4_vms_busy_cpus"].against)


@needs_walls
def test_partition_has_a_goal_and_turns_have_no_goal(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(cuda_sharing, "SPLITS", {"1_of_2": 1 / 2})
    wanted = [f"{cuda_sharing.PARTITION}_1_of_2", f"{cuda_sharing.TURNS}_1_of_2"]
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert skipped == []
    alone, together = results
    assert alone.goal is not None
    assert "(one VM at work at a time; given: 64 of 132)" in alone.against
    assert together.goal is None
    assert "(two VMs at once, turns and partition; given: 64+64 of 132)" in together.against


@needs_walls
def test_rows_of_weighted_vms_run_on_small_sizes(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(cuda_sharing, "GATED", {"1_3": (100, 300)})
    wanted = [f"{cuda_sharing.GATE}_1_3", "cuda_gate_idle_neighbour_us_p50"]
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert skipped == []
    assert [result.name for result in results] == wanted
    assert results[0].against == "(VMs at work at once, by weights 100:300)"


@needs_walls
def test_memory_of_a_worker_on_a_gpu_is_its_own(gpu: Gpu) -> None:
    load()
    wanted = ["cuda_worker_rss_mib"]
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert skipped == []
    (result,) = results
    assert result.against.startswith(f"(its own {result.value:.1f}, files ")


@needs_walls
def test_rows_of_mapped_memory_run_on_small_sizes(gpu: Gpu) -> None:
    """Both VMs, with pool and with mappings, with sandboxed workers."""
    load()
    wanted = ("cuda_mapped_*",)
    with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
        results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    assert skipped == []
    assert len(results) == 1 + 3 + 6 + 1
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


def test_row_about_hooks_fails_where_hooks_cannot_be_made(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the row would compare plain programs, and report no cost."""
    load()
    monkeypatch.setattr(toolkits, "assembler", lambda _kit: None)
    toolchain._source_tool.cache_clear()
    wanted = ("cuda_hook_*",)
    try:
        with Lab(quick=True, driver=gpu.driver, smoke=True) as lab:
            results, skipped = run_rows(lab, select(ROWS, wanted), wanted, lambda _text: None)
    finally:
        toolchain._source_tool.cache_clear()
    assert results == []
    assert skipped
    assert all("compiled with hooks=on: CUDA 13." in row.reason for row in skipped)
    assert all(" has no ptxas of 13." in row.reason for row in skipped)


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


def test_every_skipped_cuda_figure_has_a_reason(tmp_path: Path) -> None:
    load()
    with Lab(quick=True, driver=tmp_path / "libcuda.so.1") as lab:
        wanted = ["cuda_*", "quota_*"]
        rows = [row for row in select(ROWS, wanted) if not row.names[0].startswith("cuda_driver_")]  # need no GPU
        results, skipped = run_rows(lab, rows, wanted, lambda _text: None)
    assert results == []
    assert len({row.reason for row in skipped}) == 1
    assert skipped[0].reason.startswith("no GPU: ")


def test_no_row_begins_when_time_is_up() -> None:
    rows = [Row(("never",), lambda _lab: [Result("never", 1.0, "us", "lower")])]
    with Lab() as lab:
        results, skipped = run_rows(lab, rows, [], lambda _text: None, until=0.0)
    assert (results, skipped) == ([], [Skipped("never", "no time was left")])


# ---- kept results ------------------------------------------------------------------------------


def test_kept_entries_name_their_origin(tmp_path: Path) -> None:
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


def test_only_figures_of_gpus_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "libcuda.so.1")
    assert main(["cuda_*", "--driver", missing, "--save", str(tmp_path / "kept.json")]) == 2
    assert "bench: --save: no GPU: " in capsys.readouterr().err


def test_figures_are_kept_with_the_name_of_the_gpu(gpu: Gpu, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    options = ["--driver", str(gpu.driver), "--quick", "--limit", "-1", "--save", str(kept), "--out", str(tmp_path)]
    assert main(["cuda_compile_cached_ms", *options]) == 0
    assert json.loads(kept.read_text()) == []
    assert "no time was left" in (tmp_path / "skipped.json").read_text()
