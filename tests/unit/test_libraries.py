"""The libraries of a program are found as its dynamic linker finds them, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vhost_backend.errors import HostError
from vhost_backend.sandbox import build
from vhost_backend.sandbox.libraries import libraries_of

MAIN = "int ours(void); int main(void) { return ours(); }"


def linked(folder: Path, name: str, *arguments: str | Path, source: str = "") -> Path:
    """Compiles a C source into `folder`."""
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-o", folder / name, folder / f"{name}.c", *arguments], check=True)
    return folder / name


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of our own, in a folder in which nothing is searched by default."""
    arguments = ("-shared", "-fPIC", "-Wl,-soname,libours.so")
    return linked(tmp_path, "libours.so", *arguments, source="int ours(void) { return 1; }")


def test_library_is_found_by_the_programs_search_path(tmp_path: Path, library: Path) -> None:
    program = linked(tmp_path, "program", library, f"-Wl,-rpath,{tmp_path}", source=MAIN)
    found = libraries_of([program])
    assert found.by_name["libours.so"] == library.resolve()
    assert "libc.so.6" in found.by_name
    assert [path.name for path in found.linkers] == ["ld-linux-x86-64.so.2"]


def test_libraries_of_a_library_are_found(tmp_path: Path, library: Path) -> None:
    second = linked(tmp_path, "libsecond.so", library, "-shared", "-fPIC", f"-Wl,-rpath,{tmp_path}", source=MAIN)
    assert libraries_of([Path("/bin/cp"), second]).by_name["libours.so"] == library.resolve()


def test_missing_library_is_named(tmp_path: Path, library: Path) -> None:
    program = linked(tmp_path, "program", library, source=MAIN)
    with pytest.raises(HostError, match=r"program cannot be listed: .* libours\.so: cannot open"):
        libraries_of([program])


def test_text_and_static_programs_have_none(tmp_path: Path) -> None:
    build.main()
    (tmp_path / "script").write_text("#!/bin/sh\n")
    found = libraries_of([tmp_path / "script", build.LAUNCHER])
    assert (found.by_name, found.linkers) == ({}, ())


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"nothing cannot be read: No such file"):
        libraries_of([tmp_path / "nothing"])
