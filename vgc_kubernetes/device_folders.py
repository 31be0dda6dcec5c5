"""Folders on the host that containers see as `terms.CONTAINER_FOLDER`: one for each VM, with its socket.

Each folder belongs to the user of ``vgcd``, which makes the socket, and to the group of QEMU's user. As the folder has the
set-group-ID bit, so does the socket, also the one that ``vgcd`` makes after a restart.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from vgc_kubernetes import terms
from vgc_kubernetes.allocations import PREFIX, Allocation

_MODE: Final = 0o2750
_NOTE: Final = "allocation.json"


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
        owner = self._control.stat().st_uid
        self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder = self.path(vm)
        folder.mkdir(exist_ok=True)
        os.chown(folder, os.geteuid(), self._group)  # who does not own it may not change its mode
        folder.chmod(_MODE)
        os.chown(folder, owner, -1)
        return folder

    def note(self, allocation: Allocation) -> None:
        """Writes down whose folder it is, for `elements` and for people.

        :raise OSError: the note cannot be written.
        """
        text = json.dumps(
            {
                "container": allocation.container,
                "elements": sorted(allocation.elements),
                "memory_units": allocation.memory_units,
            }
        )
        folder = self.make(allocation.vm)
        written = folder / f"{_NOTE}.new"
        written.write_text(text + "\n")
        written.replace(folder / _NOTE)

    def elements(self, vm: str) -> frozenset[str] | None:
        """Processing elements of a VM; None: it has no folder any more, say since the host was started again."""
        try:
            return frozenset(json.loads((self.path(vm) / _NOTE).read_text())["elements"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def vms(self) -> set[str]:
        """VMs that have a folder."""
        return {path.name for path in self._root.glob(f"{PREFIX}*")}

    def remove(self, vm: str) -> None:
        """Removes a VM's folder and what is in it, if it is there."""
        shutil.rmtree(self.path(vm), ignore_errors=True)
