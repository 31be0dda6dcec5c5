"""Folders on the host that containers see as `terms.CONTAINER_FOLDER`: one for each VM, with its socket.

Each folder belongs to the user of ``vgcd``, which makes the socket, and to the group of QEMU's user. As the folder has the
set-group-ID bit, so does the socket, also the one that ``vgcd`` makes after a restart.

The folder above may be in one of ``vgcd``'s, which could put a link in its place, and the plugin is root. So each use opens it
anew, checks that it is the plugin's own, and goes on from there by its descriptor. What the plugin notes of a VM is beside the
VM's folder, where ``vgcd`` and the container cannot write.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vgc_kubernetes import terms
from vgc_kubernetes.allocations import Allocation, is_own

_MODE: Final = 0o2750
_ROOT_MODE: Final = 0o755
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_NOTE: Final = ".json"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DeviceFolders:
    """Folders below `root`, whose group is `group`, and whose user is that of ``vgcd``, as its socket `control` tells."""

    def __init__(self, root: Path, group: int, control: Path) -> None:
        self._root = root
        self._group = group
        self._control = control

    def path(self, vm: str) -> Path:
        return self._root / vm

    def socket(self, vm: str) -> Path:
        return self.path(vm) / terms.SOCKET

    def make(self, vm: str) -> Path:
        """Makes a VM's folder if it is not there; returns its path.

        :raise OSError: the folder cannot be made, its owner cannot be set, or ``vgcd`` is not there.
        """
        with self._opened() as root:
            self._make(vm, root)
        return self.path(vm)

    def _make(self, vm: str, root: int) -> None:
        owner = self._control.stat().st_uid
        with contextlib.suppress(FileExistsError):
            os.mkdir(vm, dir_fd=root)
        folder = os.open(vm, _FOLDER, dir_fd=root)
        try:
            found = os.fstat(folder)
            if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) != (owner, self._group, _MODE):
                os.fchown(folder, os.geteuid(), self._group)  # who does not own it may not change its mode
                os.fchmod(folder, _MODE)
                os.fchown(folder, owner, -1)
        finally:
            os.close(folder)

    def note(self, allocation: Allocation) -> None:
        """Makes a VM's folder, and writes down whose it is, for `elements` and for people.

        :raise OSError: the note cannot be written.
        """
        text = json.dumps(
            {
                "container": allocation.container,
                "elements": sorted(allocation.elements),
                "memory_units": allocation.memory_units,
            }
        )
        name = allocation.vm + _NOTE
        with self._opened() as root:
            self._make(allocation.vm, root)
            written = os.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644, dir_fd=root)
            with os.fdopen(written, "w") as file:
                file.write(text + "\n")
            os.replace(f"{name}.new", name, src_dir_fd=root, dst_dir_fd=root)

    def elements(self, vm: str) -> frozenset[str] | None:
        """Processing elements of a VM; None: it has no folder any more, say since the host was started again."""
        try:
            with (
                self._opened() as root,
                os.fdopen(os.open(vm + _NOTE, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)) as note,
            ):
                return frozenset(json.load(note)["elements"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def vms(self) -> set[str]:
        """VMs that have a folder or a note.

        :raise OSError: what is there is not the plugin's.
        """
        with self._opened() as root, os.scandir(root) as entries:
            names = {entry.name.removesuffix(".new").removesuffix(_NOTE) for entry in entries}
        return {name for name in names if is_own(name)}

    def remove(self, vm: str) -> None:
        """Removes a VM's folder with all in it, and its note, if they are there.

        :raise OSError: what is there is not the plugin's.
        """
        with self._opened() as root:
            shutil.rmtree(vm, ignore_errors=True, dir_fd=root)
            for name in (vm + _NOTE, f"{vm}{_NOTE}.new"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=root)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """:raise OSError: the folder cannot be made, or somebody else may write to what has its name."""
        self._root.mkdir(mode=_ROOT_MODE, parents=True, exist_ok=True)
        root = os.open(self._root, _FOLDER)
        try:
            about = os.fstat(root)
            if about.st_uid != os.geteuid() or about.st_mode & _OTHERS_MAY_WRITE:
                mode = stat.S_IMODE(about.st_mode)
                raise PermissionError(
                    f"{self._root} belongs to user {about.st_uid} and has mode {mode:04o}; allowed: a folder of user "
                    f"{os.geteuid()}, to which nobody else may write"
                )
            yield root
        finally:
            os.close(root)
