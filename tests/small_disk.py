"""Disks that tests fill: a small tmpfs where root may mount one, a limit on files' sizes elsewhere."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pytest

SIZE_MIB: Final = 160
"""Size of the tmpfs: more than `control_center.health.LOW_DISK_BYTES`, below which a disk counts as nearly full."""


class SmallDisk(Protocol):
    """Folder on a disk that can be filled and emptied again."""

    folder: Path

    def fill(self) -> None:
        """Has every write that needs more room fail from now on."""

    def free(self) -> None:
        """Gives the room back."""


class _Tmpfs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb") as file:
            for piece in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class _LimitedFiles:
    """No file of this process may grow while the disk is full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A small disk at `folder`: a file system of its own, which only root may mount. Skips the test elsewhere."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=0700", "vgc-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        yield _Tmpfs(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def limited_files(folder: Path) -> Iterator[SmallDisk]:
    """A folder whose files cannot grow while it is "full", by a limit on this process's files. It needs no rights."""
    folder.mkdir(exist_ok=True)
    disk = _LimitedFiles(folder)
    try:
        yield disk
    finally:
        disk.free()
