"""Connection to a backend and the region shared with it: the tests' fake frontend, for our daemon and for QEMU's."""

from __future__ import annotations

import mmap
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from vhost_backend.vhost_user.messages import OFFERED_FEATURES

REGION_GPA: Final = 0x1_0000_0000
REGION_UVA: Final = 0x7000_0000_0000
EVENT_IDX: Final = 1 << 29


def connect(path: Path, timeout_s: float) -> FakeFrontend:
    """Connects to a backend that may still be starting.

    :raise OSError: no backend listens on `path` within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return FakeFrontend.connect(path, num_queues=1)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Frontend:
    """Queue of a backend; owns the connection and the region's file. `close` hangs up."""

    def __init__(self, socket_path: Path, region_bytes: int, timeout_s: float = 10.0) -> None:
        with ExitStack() as undo:
            self._region_fd = os.memfd_create("bench-region", os.MFD_CLOEXEC)
            undo.callback(os.close, self._region_fd)
            os.ftruncate(self._region_fd, region_bytes)
            self.region = mmap.mmap(self._region_fd, region_bytes)
            self._fake = undo.enter_context(connect(socket_path, timeout_s))
            self._resources = undo.pop_all()

    def close(self) -> None:
        self._resources.close()

    def start(self, ring: RingSetup) -> int:
        """Starts the queue; returns the acknowledged virtio features. Ring addresses are the frontend's."""
        self._fake.negotiate(OFFERED_FEATURES)
        self._fake.start([ring], [SharedFile(self._region_fd, len(self.region), REGION_GPA, REGION_UVA)])
        self._fake.synchronise()
        return self._fake.features
