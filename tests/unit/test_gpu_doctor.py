"""Report of `vgcd doctor` about GPUs: on a host with the fake driver, and with faults."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import cuda_driver
from vhost_backend.daemon.engines import compiler_problem
from vhost_backend.daemon.gpus import Survey
from vhost_backend.doctor import gpu as gpu_doctor
from vhost_backend.doctor import host as doctor
from vhost_backend.doctor.finding import Finding, describe
from vhost_backend.doctor.gpu import Places
from vhost_backend.engines.cuda import driver
from vhost_backend.engines.cuda.libraries import Library
from vhost_backend.engines.cuda.toolkits import Piece
from vhost_backend.errors import EngineError
from vhost_backend.sandbox.terms import SandboxError


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., Places]:
    """A host with the fake driver, set up by `fake`, and no device nodes."""

    def make(fake: str = "", compiler: str | None = None) -> Places:
        driver = cuda_driver.with_settings(tmp_path, fake)
        return Places(str(driver), tmp_path / "dev", tmp_path / "proc", tmp_path / "mps", lambda *_: compiler)

    return make


def found(places: Places, name: str) -> list[Finding]:
    findings = list(gpu_doctor.examine(places))
    assert all(finding.optional for finding in findings), "a host without a GPU lacks nothing"
    return [finding for finding in findings if finding.name == name]


def test_gpu_is_described_with_its_possible_quotas(host: Callable[..., Places]) -> None:
    (gpu,) = found(host("0.name NVIDIA H200\n"), "GPU 0")
    assert describe(gpu) == (
        "ok       GPU 0: NVIDIA H200, sm_90, 132 processing elements (quotas of 8 and more, in steps of 8), "
        "1024 MiB, GPU-10101010-1010-1010-1010-101010101010"
    )


def test_driver_is_named_with_its_file(host: Callable[..., Places]) -> None:
    places = host()
    (driver,) = found(places, "NVIDIA driver")
    assert (driver.ok, driver.text) == (True, f"CUDA 13.0 ({places.driver})")


def test_missing_driver_is_explained_and_ends_the_checks(tmp_path: Path) -> None:
    findings = list(gpu_doctor.examine(Places(str(tmp_path / "libcuda.so.1"), dev=tmp_path)))
    assert [(finding.name, finding.ok) for finding in findings] == [
        ("Python module cuda.bindings", True),
        ("NVIDIA driver", False),
    ]
    assert str(tmp_path / "libcuda.so.1") in findings[1].text


def test_missing_bindings_are_named_with_the_package(
    host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("cuda") else find(name))
    (bindings,) = found(host(), "Python module cuda.bindings")
    assert describe(bindings).splitlines() == [
        "absent   Python module cuda.bindings: missing",
        "         to get it: pip install 'virtio-gpu-compute[cuda]'",
    ]


def test_driver_that_no_folder_has_is_reported_with_advice(
    host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text comes from the driver module, so that the two cannot differ."""
    monkeypatch.setattr(driver, "DEFAULT_LIBRARY", "libcuda-of-nobody.so.1")
    with pytest.raises(EngineError) as missing:
        driver.start("libcuda-of-nobody.so.1")

    async def survey(_driver: str | None) -> Survey:
        return Survey(problem=str(missing.value))

    monkeypatch.setattr(gpu_doctor, "survey", survey)
    (finding,) = found(host(), "NVIDIA driver")
    assert describe(finding).splitlines() == [
        "absent   NVIDIA driver: libcuda-of-nobody.so.1 not found: install NVIDIA's driver",
        "         to get it: NVIDIA's driver 550 or newer: NVIDIA's own packages, or nvidia-driver of Debian 13 (Debian 12 has 535)",
    ]


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        ("init_result 100\n", "CUDA_ERROR_NO_DEVICE"),
        ("init_result 803\n", "driver library and kernel module are of different versions: reboot"),
        ("driver_version 12020\n", "the driver knows CUDA 12.2; at least 12.4 is needed"),
        ("inject cuDeviceGetAttribute 999 1 99\n", "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_driver_that_does_not_work_is_reported_with_the_reason(
    host: Callable[..., Places], fake: str, words: str
) -> None:
    (driver,) = found(host(fake), "NVIDIA driver")
    assert not driver.ok
    assert words in driver.text


def test_libraries_are_named_with_their_files_or_how_to_get_them(host: Callable[..., Places]) -> None:
    cublas = Library("cublas", "cuBLAS", Path("/opt/libcublas.so.13"), "pip install nvidia-cublas")
    places = replace(host(), libraries=lambda driver: (cublas, Library("cufft", "cuFFT", None, f"pip, for {driver}")))
    (there,), (missing,) = found(places, "cuBLAS"), found(places, "cuFFT")
    assert describe(there) == "ok       cuBLAS: /opt/libcublas.so.13"
    assert describe(missing).splitlines() == [
        "absent   cuFFT: not found: without it, 'libraries: auto' leaves its functions to kernels of our own",
        "         to get it: pip, for 13.0",
    ]


def test_pycuda_is_named_with_its_use(host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2026.1")
    (there,) = found(host(), "pycuda")
    assert describe(there) == "ok       pycuda: 2026.1: tests on the GPU compare with it"


def test_missing_pycuda_is_told_with_its_command(host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", absent)
    (missing,) = found(host(), "pycuda")
    assert describe(missing).splitlines() == [
        "absent   pycuda: not installed: tests on the GPU compare with programs in C alone; vgcd itself does not use it",
        "         to get it: make pycuda, in the project's folder",
    ]


def test_missing_compiler_is_explained_for_each_kind_of_gpu(host: Callable[..., Places]) -> None:
    places = host("devices 2\n1.capability 8.0\n", compiler="NVRTC 13.5 is newer than the driver")
    for arch in ("sm_90", "sm_80"):
        (compiler,) = found(places, f"CUDA compiler for {arch}")
        assert (compiler.ok, compiler.text) == (False, "NVRTC 13.5 is newer than the driver")


def test_toolkit_newer_than_the_driver_is_reported_with_matching_packages(host: Callable[..., Places]) -> None:
    places = replace(host("driver_version 12040\n"), compiler=compiler_problem)
    (compiler,) = found(places, "CUDA compiler for sm_90")
    assert not compiler.ok
    assert "is newer than the driver" in compiler.text
    assert "pip install 'virtio-gpu-compute[cuda12]'" in compiler.text


def test_pieces_of_the_toolkit_are_listed_with_place_or_package(host: Callable[..., Places]) -> None:
    ptxas = Piece("ptxas", None, "no ptxas of CUDA 13.0: no hooks", "pip install nvidia-cuda-nvcc")
    cccl = Piece("CCCL", Path("/usr/local/cuda/include/cccl"), "", "")
    places = replace(host(), toolkit=lambda driver: (ptxas, cccl) if driver == "13.0" else ())
    assert describe(found(places, "CUDA toolkit's ptxas")[0]).splitlines() == [
        "absent   CUDA toolkit's ptxas: no ptxas of CUDA 13.0: no hooks",
        "         to get it: pip install nvidia-cuda-nvcc",
    ]
    assert describe(found(places, "CUDA toolkit's CCCL")[0]) == (
        "ok       CUDA toolkit's CCCL: /usr/local/cuda/include/cccl"
    )


@pytest.mark.parametrize("uid", [0, 1000])
def test_closed_device_node_is_named_with_group_and_mode(
    host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch, uid: int
) -> None:
    """Workers of root run as nobody, so the mode for others counts."""
    places = host()
    places.dev.mkdir()
    for name, mode in (("nvidia0", 0o660), ("nvidiactl", 0o666), ("nvidia-nvswitchctl", 0o600)):
        (places.dev / name).touch()
        (places.dev / name).chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "nvidia0")
    (closed,) = found(places, "device nodes")
    assert not closed.ok
    assert f"{places.dev}/nvidia0 has mode 660 and group " in closed.text
    assert f"chmod a+rw {places.dev}/nvidia0" in closed.hint
    assert ("usermod" in closed.hint) == (uid != 0)


def test_open_device_nodes_are_listed(host: Callable[..., Places]) -> None:
    places = host()
    places.dev.mkdir()
    for name in ("nvidia0", "nvidiactl"):
        (places.dev / name).touch()
        (places.dev / name).chmod(0o666)
    assert [finding.text for finding in found(places, "device nodes")] == ["nvidia0, nvidiactl"]


def test_container_without_a_usable_proc_is_detected(
    host: Callable[..., Places], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = SandboxError("a /proc of its own", "mount: Operation not permitted")
    monkeypatch.setattr("vhost_backend.sandbox.launch.missing_feature", lambda **_: lacking)
    (sandbox,) = found(host(), "sandbox of GPU workers")
    assert not sandbox.ok
    assert "a /proc of its own: mount: Operation not permitted" in sandbox.text


def test_mig_instances_and_mps_are_reported(host: Callable[..., Places]) -> None:
    places = host()
    for index in (1, 2):
        (places.proc / "capabilities" / "gpu0" / "mig" / f"gi{index}").mkdir(parents=True)
    places.mps.mkdir()
    (places.mps / "control").touch()
    assert found(places, "MIG")[0].text.startswith("2 instances;")
    assert "a fault of one VM would end all" in found(places, "MPS")[0].text


def test_doctor_looks_for_gpus() -> None:
    assert gpu_doctor.examine in doctor.CHECKS
