"""Peer: QEMU's vhost-user backend, ``qemu-storage-daemon``, exporting a null block device.

The baseline of our NOP is its cheapest request: ``VIRTIO_BLK_T_GET_ID``, which it answers without going to the
block layer, so that the row measures only its vhost-user data path.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.driver import Driver
from bench.processes import backend
from bench.results import SkipRow

_GET_ID = 8
_ID_BYTES = 20
_HEADER = struct.Struct("<IIQ")  # struct virtio_blk_outhdr: type, ioprio, sector


def executable() -> str:
    """Path of ``qemu-storage-daemon``, from ``VGC_QEMU_STORAGE_DAEMON`` or the PATH.

    :raise SkipRow: it is not installed.
    """
    found = os.environ.get("VGC_QEMU_STORAGE_DAEMON") or shutil.which("qemu-storage-daemon")
    if not found:
        raise SkipRow("qemu-storage-daemon is not installed (package qemu-utils, on Debian 12 qemu-system-common)")
    return found


def command(socket_path: Path) -> list[str]:
    """Command of an export with its own I/O thread, so that the monitor's main loop does not interfere."""
    export = f"type=vhost-user-blk,id=export,node-name=null,iothread=io,addr.type=unix,addr.path={socket_path}"
    node = ["--object", "iothread,id=io", "--blockdev", f"driver=null-co,node-name=null,size={1 << 30}"]
    return [executable(), *node, "--export", export]


class Peer:
    """Queue of the peer, and its null requests."""

    def __init__(self, driver: Driver, pid: int) -> None:
        self.driver = driver
        self.pids = [pid]

    def null_requests(self, count: int) -> Any:
        """Makes `count` GET_ID requests with separate memory."""
        chains = []
        start = self.driver.take(count * 64)
        for offset in range(start, start + count * 64, 64):
            self.driver.view(offset, _HEADER.size)[:] = np.frombuffer(_HEADER.pack(_GET_ID, 0, 0), np.uint8)
            chains.append(([(offset, _HEADER.size)], [(offset + 16, _ID_BYTES), (offset + 40, 1)]))
        return self.driver.requests(chains)


@contextmanager
def running(folder: Path) -> Iterator[Peer]:
    """Runs the peer in a new process, with its queue started."""
    socket_path = folder / "peer.sock"
    with backend(command(socket_path), folder / "peer.log") as process, Driver(socket_path) as driver:
        yield Peer(driver, process.pid)
