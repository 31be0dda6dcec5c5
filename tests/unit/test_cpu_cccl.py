"""CUB, Thrust and libcu++ on the host: found, shown to compilers, switched off, missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.cpu_rig import CompileError, compile_image
from vhost_backend.engines.cpu import CpuEngine, cccl
from vhost_backend.errors import HostError

SOURCE = b'#include <cub/version.cuh>\nextern "C" __global__ void f(int *x) { *x = CUB_VERSION; }\n'


def put(folder: Path, release: int = 2008002) -> Path:
    """Writes the headers by which the libraries are recognised."""
    for name in ("cub/version.cuh", "cuda/std/version", "nv/target", "thrust/version.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("#pragma once\n#define CUB_VERSION 7\n")
    version = folder / "cuda" / "std" / "__cccl" / "version.h"
    version.parent.mkdir()
    version.write_text(f"#pragma once\n#define CCCL_VERSION {release}\n")
    return folder


def test_folder_is_read(tmp_path: Path) -> None:
    found = cccl.cccl(str(put(tmp_path / "include")))
    assert found is not None
    assert (found.folder, found.version) == (tmp_path / "include", "2.8.2")
    assert sorted(bind.source.name for bind in found.visible) == ["cub", "cuda", "nv", "thrust"]


def test_folder_without_the_libraries_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "include")
    (tmp_path / "include" / "nv" / "target").unlink()
    with pytest.raises(HostError, match="include, the engine's option 'cccl', has no nv/target") as caught:
        cccl.cccl(str(tmp_path / "include"))
    assert caught.value.hint == "pip install nvidia-cuda-cccl"


def test_toolkits_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cccl, "_wheels", lambda: iter(()))
    monkeypatch.setattr(cccl, "_INSTALLED", ())
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert cccl.cccl() is None
    put(tmp_path / "include" / "cccl", 3000001)
    found = cccl.cccl()
    assert found is not None
    assert (found.folder, found.version) == (tmp_path / "include" / "cccl", "3.0.1")


def test_wheels_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(cccl.importlib.util, "find_spec", lambda _name: Spec)  # type: ignore[attr-defined]
    old = put(tmp_path / "cuda_cccl" / "include")
    assert (found := cccl.cccl()) is not None
    assert found.folder == old
    new = put(tmp_path / "cu13" / "include" / "cccl")
    assert (found := cccl.cccl()) is not None
    assert found.folder == new


def test_job_shows_the_libraries_to_sources_that_name_them(tmp_path: Path) -> None:
    folder = put(tmp_path / "include")
    settings = {"cccl": str(folder)}
    with_them = CpuEngine.compile_job("CUDA_SOURCE", SOURCE, (), settings)
    without = CpuEngine.compile_job("CUDA_SOURCE", b"#include <math.h>\n", (), settings)
    assert folder / "cub" in [bind.source for bind in with_them.visible]
    assert "/vgc/cccl" in with_them.command(isolated=True)
    assert folder / "cub" not in [bind.source for bind in without.visible]
    assert with_them.identity != without.identity


def test_changed_libraries_have_another_identity(tmp_path: Path) -> None:
    folder = put(tmp_path / "include")
    before = CpuEngine.compile_job("CUDA_SOURCE", SOURCE, (), {"cccl": str(folder)}).identity
    (folder / "cub" / "version.cuh").write_text("#define CUB_VERSION 80\n")
    cccl._read.cache_clear()
    assert CpuEngine.compile_job("CUDA_SOURCE", SOURCE, (), {"cccl": str(folder)}).identity != before


def test_source_finds_them_in_the_named_folder(tmp_path: Path) -> None:
    image, log = compile_image(SOURCE.decode(), settings={"cccl": str(put(tmp_path / "include"))})
    assert image
    assert not log


@pytest.mark.parametrize("header", ["cub/cub.cuh", "thrust/sort.h", "cuda/std/array", "nv/target"])
def test_error_without_the_libraries_says_how_to_get_them(header: str) -> None:
    source = f'#include <{header}>\nextern "C" __global__ void f() {{}}\n'
    with pytest.raises(CompileError) as caught:
        compile_image(source, settings={"cccl": "off"})
    log = str(caught.value)
    assert f"'{header}' file not found" in log
    assert f"note: {header} is of CUB, Thrust and libcu++" in log
    assert cccl.HINT in log


@pytest.mark.parametrize(
    "source", ["#include <nothing/of/this>\n", "int x = y;\n", "// #include <cub/cub.cuh>\nint x = y;\n"]
)
def test_other_errors_do_not_mention_the_libraries(source: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_image(source, settings={"cccl": "off"})
    assert "CUB" not in str(caught.value)


def test_times_of_headers_count(tmp_path: Path) -> None:
    folder = put(tmp_path / "include")
    before = cccl._read.__wrapped__(folder).identity
    os.utime(folder / "nv" / "target", ns=(1, 1))
    assert cccl._read.__wrapped__(folder).identity != before
