"""``python -m bench.install``: installs the programs that serve as baselines, if apt-get can.

Without such a program a row lacks its baseline or is skipped; nothing else depends on it.
"""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.common import say
from tools.setup import apt_get


@dataclass(frozen=True, slots=True)
class Peer:
    """Program used as a baseline, a check that it is installed, and the packages that contain it."""

    name: str
    is_there: Callable[[], bool]
    packages: tuple[str, ...]


def _has_pocl() -> bool:
    return ctypes.util.find_library("OpenCL") is not None and any(Path("/etc/OpenCL/vendors").glob("pocl*.icd"))


def _has_storage_daemon() -> bool:
    return shutil.which("qemu-storage-daemon") is not None


PEERS: Final = (
    Peer("PoCL", _has_pocl, ("pocl-opencl-icd", "ocl-icd-libopencl1")),
    Peer("qemu-storage-daemon", _has_storage_daemon, ("qemu-utils",)),
    Peer("qemu-storage-daemon", _has_storage_daemon, ("qemu-system-common",)),  # its package on Debian 12
)


def install(peers: tuple[Peer, ...] = PEERS) -> None:
    """Installs missing programs; prints a message for each that cannot be installed."""
    for peer in peers:
        if peer.is_there():
            continue
        say(f"{peer.name} is missing: installing {' '.join(peer.packages)}")
        try:
            apt_get("install", "-q", "--yes", "--no-install-recommends", *peer.packages)
        except (OSError, SystemExit, subprocess.CalledProcessError) as error:
            say(f"{peer.name} cannot be installed ({error}); its rows will say so")


if __name__ == "__main__":
    install()
