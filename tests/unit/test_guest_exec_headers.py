"""``vgc exec``: which CUB, Thrust and libcu++ a program that it has build takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from guest_driver import exec_headers


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    folder = tmp_path / "toolkit"
    folder.mkdir()
    return folder


def with_headers(folder: Path) -> Path:
    (folder / "thrust").mkdir(parents=True)
    (folder / "thrust" / "version.h").touch()
    return folder


def python(prefix: Path) -> str:
    program = prefix / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return str(program)


def wheels(prefix: Path) -> Path:
    return prefix / "lib" / "python3.11" / "site-packages" / "nvidia"


def test_headers_of_the_toolkit_come_first(toolkit: Path, tmp_path: Path) -> None:
    program = python(tmp_path / "env")
    with_headers(wheels(tmp_path / "env") / "cu13" / "include" / "cccl")
    own = with_headers(toolkit / "include" / "cccl")
    assert exec_headers.flags(toolkit, program, {}) == {"NVCC_PREPEND_FLAGS": f"-I{own}"}


def test_headers_are_those_of_the_programs_python(toolkit: Path, tmp_path: Path) -> None:
    program = python(tmp_path / "env")
    old = with_headers(wheels(tmp_path / "env") / "cuda_cccl" / "include")
    assert exec_headers.flags(toolkit, program, {})["NVCC_PREPEND_FLAGS"] == f"-I{old}"
    with_headers(wheels(tmp_path / "env") / "cu12" / "include" / "cccl")
    new = with_headers(wheels(tmp_path / "env") / "cu13" / "include" / "cccl")
    assert exec_headers.flags(toolkit, program, {})["NVCC_PREPEND_FLAGS"] == f"-I{new}"
    named = {"PATH": str(Path(program).parent)}
    assert exec_headers.flags(toolkit, "python", named)["NVCC_PREPEND_FLAGS"] == f"-I{new}"
    active = with_headers(wheels(tmp_path / "active") / "cu13" / "include" / "cccl")
    found = exec_headers.flags(toolkit, program, {"VIRTUAL_ENV": str(tmp_path / "active")})
    assert found["NVCC_PREPEND_FLAGS"] == f"-I{active}"
    home = with_headers(wheels(tmp_path / ".local") / "cu13" / "include" / "cccl")
    assert exec_headers.flags(toolkit, "/no/program", {"HOME": str(tmp_path)})["NVCC_PREPEND_FLAGS"] == f"-I{home}"


def test_users_flags_stay_behind(toolkit: Path) -> None:
    own = with_headers(toolkit / "include" / "cccl")
    found = exec_headers.flags(toolkit, "python", {"NVCC_PREPEND_FLAGS": "-DA '-DB=x y'"})
    assert found == {"NVCC_PREPEND_FLAGS": f"-I{own} -DA '-DB=x y'"}
    assert exec_headers.flags(toolkit, "python", found) == found  # a second time


def test_a_folder_with_a_space_is_one_option(tmp_path: Path) -> None:
    toolkit = tmp_path / "my toolkit"
    own = with_headers(toolkit / "include" / "cccl")
    found = exec_headers.flags(toolkit, "python", {})
    assert shlex.split(found["NVCC_PREPEND_FLAGS"]) == [f"-I{own}"]
    assert exec_headers.flags(toolkit, "python", found) == found


def test_without_headers_nothing_is_set(toolkit: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exec_headers, "_SYSTEM", tmp_path / "usr")
    assert exec_headers.flags(toolkit, "/no/program", {"NVCC_PREPEND_FLAGS": "-DA"}) == {}


def test_a_quote_without_an_end_is_left_to_the_compiler(toolkit: Path) -> None:
    with_headers(toolkit / "include" / "cccl")
    found = exec_headers.flags(toolkit, "python", {exec_headers.VARIABLE: "-DX='1"})
    assert found[exec_headers.VARIABLE].endswith(" -DX='1")
