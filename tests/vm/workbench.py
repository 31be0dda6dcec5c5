"""Folder in a development guest in which a test builds programs and runs them.

    def test_program_runs(workbench: Workbench) -> None:
        workbench.write("hello.cu", SOURCE)
        workbench.run("mynvcc hello.cu -o hello")
        workbench.run("./hello")

The fixture is in `conftest.py`; tests of mynvcc are marked `needs_toolkit`.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.vm.harness import COMMAND_SECONDS, Guest, Result
from tools import installation

needs_toolkit: Final = pytest.mark.skipif(
    not installation.has_toolkit(), reason=f"there is no CUDA toolkit at {installation.TOOLKIT}"
)
ARCHIVE: Final = ".files.tar"


class Workbench:
    """Folder of a guest, empty at first; commands run in it."""

    def __init__(self, guest: Guest, folder: str) -> None:
        self.guest = guest
        self.folder = folder
        quoted = shlex.quote(folder)
        guest.run(f"rm -rf {quoted} && mkdir -p {quoted}")

    def run(self, command: str, *, timeout: int = COMMAND_SECONDS, check: bool = True) -> Result:
        """Runs a shell command in the folder; raises as `Guest.run` does."""
        return self.guest.run(f"cd {shlex.quote(self.folder)} && {{ {command}\n}}", timeout=timeout, check=check)

    def write(self, name: str, contents: str | bytes) -> None:
        """Writes a file of the folder."""
        data = contents.encode() if isinstance(contents, str) else contents
        self.guest.put_bytes(data, f"{self.folder}/{name}")

    def copy(self, *paths: Path) -> None:
        """Copies files of the host, and contents of folders, into the folder. They keep their permissions."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in paths:
                archive.add(path, "." if path.is_dir() else path.name)
        self.write(ARCHIVE, packed.getvalue())
        self.run(f"tar xf {ARCHIVE} && rm {ARCHIVE}")

    def read(self, name: str) -> bytes:
        """Returns the contents of a file of the folder."""
        return self.guest.get(f"{self.folder}/{name}")

    def clear(self) -> None:
        """Removes the folder."""
        self.guest.run(f"rm -rf {shlex.quote(self.folder)}")
