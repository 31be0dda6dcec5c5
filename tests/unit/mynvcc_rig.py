"""Compiles CUDA programs with mynvcc in a toolkit whose CUDA runtime is the fake one, and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tools.common import REPOSITORY

CUDA: Final = REPOSITORY / "guest_driver" / "cuda"
CLANGS: Final = tuple(name for name in ("clang++-14", "clang++-16", "clang++-19") if shutil.which(name))


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A toolkit as a guest has it, with the fake runtime, and a folder for a test's files."""

    top: Path
    folder: Path

    def write(self, **files: str) -> None:
        """Writes files; ``_`` in front of the suffix stands for the dot."""
        for name, text in files.items():
            (self.folder / ".".join(name.rsplit("_", 1))).write_text(text)

    def nvcc(
        self, *words: str, environment: Mapping[str, str] | None = None, fds: Collection[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Runs mynvcc in the test's folder; it inherits the descriptors `fds`."""
        return self._run(str(self.top / "bin" / "mynvcc"), *words, environment=environment or {}, fds=fds)

    def build(self, *words: str, environment: Mapping[str, str] | None = None) -> str:
        """Runs mynvcc, which succeeds; returns what it has printed."""
        done = self.nvcc(*words, environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def output(self, program: str = "a.out", **environment: str) -> list[str]:
        """Lines that a program of the test's folder prints."""
        done = self._run(f"./{program}", environment=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def text(self, program: str = "a.out") -> str:
        """The device's text of all units of a program."""
        path = self.folder / "text"
        path.unlink(missing_ok=True)
        self.output(program, FAKE_CUDART_TEXT=str(path))
        return path.read_text()

    def _run(
        self, *words: str, environment: Mapping[str, str], fds: Collection[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_S,
            env={**os.environ, "MYNVCC_CACHE": str(self.top.parent / "headers"), **environment},
            pass_fds=fds,
        )


@pytest.fixture(scope="session")
def fake_toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Top of a toolkit with the fake runtime."""
    top = tmp_path_factory.mktemp("toolkit")
    built = CUDA / "build" / "toolkit"
    shutil.copytree(built / "bin", top / "bin", symlinks=True)
    (top / "include").symlink_to(built / "include")
    (top / "lib64").mkdir()
    library = top / "lib64" / "libcudart.so.12"
    archive = top / "lib64" / "libcudart_static.a"
    made = archive.with_suffix(".o")
    words: list[str | Path] = [
        "cc",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        f"-I{CUDA / 'runtime'}",
        "-isystem",
        top / "include",
    ]
    commands: tuple[list[str | Path], ...] = (
        [*words, "-c", "-o", made, REPOSITORY / "tests" / "fakes" / "cudart.c"],
        ["cc", "-shared", "-Wl,-soname,libcudart.so.12", "-o", library, made],
        ["ar", "rcs", archive, made],
    )
    for command in commands:
        subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
    made.unlink()
    (top / "lib64" / "libcudart.so").symlink_to(library.name)
    (top / "lib64" / "libcudadevrt.a").symlink_to(built / "lib64" / "libcudadevrt.a")
    (top / "nvvm" / "libdevice").mkdir(parents=True)
    return top


@pytest.fixture
def toolkit(fake_toolkit: Path, tmp_path: Path) -> Toolkit:
    return Toolkit(fake_toolkit, tmp_path)
