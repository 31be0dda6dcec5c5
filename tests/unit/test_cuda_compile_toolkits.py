"""Choice of the toolkit, files shown to it, and the identity of cached programs."""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cuda_compile_rig import DRIVER, EMPTY, compile_image, log_of, needs_nvcc, needs_nvrtc
from tests.unit.cuda_kits import forget, put, use
from tests.unit.test_cuda_compile_binaries import fat
from vhost_backend.compiler.job import CompileJob
from vhost_backend.engines.cuda import driver, toolchain, toolkits
from vhost_backend.engines.interpreter import ENGINES

STDLIB = sysconfig.get_path("stdlib")
REPOSITORY = Path(__file__).resolve().parents[2]
SETTINGS = {"arch": "sm_90", "driver": DRIVER, "compiler": "nvrtc", "hooks": "on"}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A host without any toolkit; packages put into this folder count as installed."""
    (tmp_path / "nvidia").mkdir()
    use(monkeypatch, [tmp_path], [])
    yield tmp_path
    forget()


def put_cuda_13(host: Path, minor: int = 0) -> Path:
    """Installs the wheels of CUDA 13: one tree."""
    root = host / "nvidia" / "cu13"
    put(root / "lib" / "libnvrtc.so.13", root / "lib" / f"libnvrtc-builtins.so.13.{minor}", root / "bin" / "ptxas")
    put(root / "include" / "cuda_fp16.h", root / "include" / "cccl" / "cuda" / "std" / "version")
    return root


def put_cuda_12(host: Path) -> Path:
    """Installs the wheels of CUDA 12: a folder each."""
    root = host / "nvidia"
    put(root / "cuda_nvrtc" / "lib" / "libnvrtc.so.12", root / "cuda_nvrtc" / "lib" / "libnvrtc-builtins.so.12.8")
    put(root / "cuda_runtime" / "include" / "cuda_fp16.h", root / "cuda_nvcc" / "bin" / "ptxas")
    return root


def put_toolkit(path: Path, version: int) -> Path:
    """Installs a toolkit with nvcc and without NVRTC."""
    put(path / "bin" / "nvcc", path / "bin" / "ptxas")
    put(path / "include" / "cuda.h", content=f"/* CUDA */\n#define CUDA_VERSION {version}\n")
    return path


# ---- search --------------------------------------------------------------------------------------------------------


def test_wheels_of_cuda_13_are_found(host: Path) -> None:
    root = put_cuda_13(host, 5)
    (kit,) = toolkits.installed()
    assert (kit.version, kit.nvrtc, kit.nvcc, kit.ptxas) == (
        (13, 5),
        root / "lib" / "libnvrtc.so.13",
        None,
        root / "bin" / "ptxas",
    )
    assert kit.include_dirs == (root / "include", root / "include" / "cccl")


def test_wheels_of_cuda_12_are_found(host: Path) -> None:
    root = put_cuda_12(host)
    (kit,) = toolkits.installed()
    assert (kit.version, kit.nvrtc, kit.ptxas) == (
        (12, 8),
        root / "cuda_nvrtc" / "lib" / "libnvrtc.so.12",
        root / "cuda_nvcc" / "bin" / "ptxas",
    )
    assert kit.include_dirs == (root / "cuda_runtime" / "include",)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_toolkit_named_by_the_environment_is_found(host: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, str(put_toolkit(host / "my-cuda", 12090)))
    (kit,) = toolkits.installed()
    assert (kit.version, kit.nvrtc, kit.nvcc) == ((12, 9), None, host / "my-cuda" / "bin" / "nvcc")


def test_toolkit_that_is_found_twice_counts_once(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_toolkit(host / "cuda-13.0", 13000)
    (host / "cuda").symlink_to(path)
    monkeypatch.setattr(toolkits, "_INSTALLED", (str(path), str(host / "cuda")))
    assert [kit.roots for kit in toolkits.installed()] == [(path,)]


def test_folders_without_a_toolkit_are_ignored(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "nvidia" / "cudnn").mkdir()
    monkeypatch.setenv("CUDA_HOME", str(host / "nowhere"))
    assert toolkits.installed() == ()


@pytest.mark.parametrize(
    ("driver", "versions"),
    [
        ((13, 0), [(13, 0), (13, 5), (12, 9), (12, 8)]),
        ((13, 5), [(13, 5), (13, 0), (12, 9), (12, 8)]),
        ((12, 8), [(12, 8), (12, 9)]),
        ((14, 0), [(13, 5), (13, 0), (12, 9), (12, 8)]),
        ((11, 8), []),
    ],
)
def test_best_toolkit_for_a_driver_is_chosen(
    host: Path, driver: toolkits.Version, versions: list[toolkits.Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cuda_13(host, 5)
    put_cuda_12(host)
    paths = [put_toolkit(host / str(version), version) for version in (13000, 12090)]
    monkeypatch.setattr(toolkits, "_INSTALLED", tuple(map(str, paths)))
    assert [kit.version for kit in toolkits.usable(driver)] == versions


# ---- missing pieces ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("host")
def test_host_without_a_toolkit_gets_advice() -> None:
    assert toolkits.installed() == ()
    assert toolchain.missing("sm_90", "13.0") == (
        "this host has no CUDA compiler, neither NVRTC nor nvcc with a C++ compiler for a driver of CUDA 13.0: "
        "pip install 'virtio-gpu-compute[cuda]'"
    )


def test_driver_too_old_for_the_toolkit_is_reported(host: Path) -> None:
    put_cuda_13(host)
    assert toolchain.missing("sm_90", "12.4", "nvrtc") == (
        "this host has no NVRTC for a driver of CUDA 12.4 (CUDA 13.0 is newer than the driver): "
        "pip install 'virtio-gpu-compute[cuda12]'"
    )


def test_nvcc_compiles_where_there_is_no_nvrtc(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = put_toolkit(host / "cuda", 13000) / "bin" / "nvcc"
    put(host / "g++", content="#!/bin/sh\n")
    (host / "g++").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(host / "cuda"))
    monkeypatch.setenv("PATH", str(host))
    argv = job(compiler="auto").argv
    assert argv[argv.index("--nvcc") + 1] == nvcc
    with pytest.raises(ValueError, match="has no NVRTC for a driver"):
        job(compiler="nvrtc")


def test_advised_extras_exist_in_the_package() -> None:
    package = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for advice in (driver.INSTALL, toolchain.INSTALL_12):
        name, _, extra = shlex.split(advice)[2].rstrip("]").partition("[")
        assert name == package["name"]
        assert extra in package["optional-dependencies"]


def test_nvcc_needs_a_host_compiler(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(put_toolkit(host / "cuda", 13000)))
    monkeypatch.setenv("PATH", str(host))
    assert "has no nvcc (with a C++ compiler)" in str(toolchain.missing("sm_90", "13.0", "nvcc"))


@pytest.mark.usefixtures("host")
def test_ptx_needs_ptxas() -> None:
    assert toolkits.installed() == ()
    with pytest.raises(ValueError, match=r"no ptxas for a driver of CUDA 13\.5, which PTX needs: pip install"):
        toolchain.compile_job("PTX", b"", (), SETTINGS)


@needs_nvrtc
@needs_nvcc
def test_fatbin_needs_no_ptxas_for_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    code, ptx = fat("arch=compute_90,code=sm_90"), fat("arch=compute_90,code=compute_90")
    monkeypatch.setattr(toolkits, "usable", lambda _driver: [])
    toolchain._ptxas.cache_clear()
    try:
        assert compile_image(code, kind="FATBIN")[0][:4] == b"\x7fELF"
        assert "the host has no ptxas to assemble it" in log_of(ptx, kind="FATBIN")
    finally:
        toolchain._ptxas.cache_clear()


def test_nvrtc_that_cannot_be_loaded_is_reported(host: Path) -> None:
    root = put_cuda_13(host)
    assert f"NVRTC cannot be loaded: {root}/lib/libnvrtc" in str(toolchain.missing("sm_90", "13.0"))


@pytest.mark.parametrize("version", ["x", "13", "13.x", ""])
def test_malformed_version_is_reported(version: str) -> None:
    assert f"{version!r} is not a version of CUDA; versions look like 13.0" == toolchain.missing("sm_90", version)


def test_unknown_compiler_is_reported() -> None:
    assert toolchain.missing("sm_90", "13.0", "gcc") == "compiler 'gcc' is unknown; allowed: auto, nvrtc, nvcc"


@needs_nvrtc
@needs_nvcc
@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_unknown_architecture_is_answered_with_the_compilers(compiler: str) -> None:
    assert toolchain.missing("sm_90", DRIVER, compiler) is None
    assert f"{compiler} 13." in str(toolchain.missing("sm_35", DRIVER, compiler))
    assert "does not know sm_35; it knows sm_75, " in str(toolchain.missing("sm_35", DRIVER, compiler))


# ---- jobs ----------------------------------------------------------------------------------------------------------


def job(source: bytes = EMPTY.encode(), *options: str, **settings: str) -> CompileJob:
    return toolchain.compile_job("CUDA_SOURCE", source, options, SETTINGS | settings)


@needs_nvrtc
def test_job_with_nvrtc_sees_its_files_alone() -> None:
    seen = [bind.source for bind in job().visible]
    assert toolchain.INCLUDE_DIR in seen
    for hidden in ("/usr/include", "/usr/bin", "/etc/passwd", "/usr/share", "/usr/lib", ENGINES, sys.prefix, STDLIB):
        assert not any(Path(hidden).is_relative_to(path) for path in seen)


def test_the_host_may_refuse_nvcc() -> None:
    with pytest.raises(ValueError, match="option '--use-nvcc' is not allowed: this host compiles with nvrtc alone"):
        job(EMPTY.encode(), "--use-nvcc", compiler="nvrtc")


@needs_nvrtc
@needs_nvcc
def test_identity_depends_on_everything_that_determines_the_image() -> None:
    assert job().identity == job(b"another source").identity == job(EMPTY.encode(), "-DX=1").identity
    others = [
        job(arch="sm_80"),
        job(compiler="nvcc"),
        job(EMPTY.encode(), "--use-nvcc", compiler="auto"),
        *(toolchain.compile_job(kind, b"", (), SETTINGS) for kind in ("PTX", "CUBIN", "FATBIN")),
    ]
    assert len({job().identity, *(other.identity for other in others)}) == len(others)
    assert others[1].identity == others[2].identity


def test_identity_changes_with_the_toolkit(host: Path) -> None:
    library = put_cuda_13(host) / "lib" / "libnvrtc.so.13"
    before = job().identity
    os.utime(library, ns=(1, 1))
    after = job().identity
    library.write_text("another")
    os.utime(library, ns=(1, 1))
    assert len({before, after, job().identity}) == 3


def test_identity_changes_with_the_toolkits_headers(host: Path) -> None:
    header = put_cuda_13(host) / "include" / "cccl" / "cuda" / "std" / "version"
    before = job().identity
    header.write_text("another release")
    assert job().identity != before


def test_identity_changes_with_our_own_headers(monkeypatch: pytest.MonkeyPatch, host: Path) -> None:
    put_cuda_13(host)
    before = job().identity
    put(host / "headers" / "math.h", content="#define NAN 3\n")
    monkeypatch.setattr(toolchain, "INCLUDE_DIR", host / "headers")
    toolchain._own_digest.cache_clear()
    try:
        assert job().identity != before
    finally:
        toolchain._own_digest.cache_clear()
