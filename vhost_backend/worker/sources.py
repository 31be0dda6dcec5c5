"""The files in which sources travel to the daemon.

They are made before the sandbox closes, because a worker that could make anonymous files at will could fill the
host's memory with them. Each carries one source at a time, and is free again when the daemon has answered: it
copies the source before it does anything else with it.
"""

from __future__ import annotations

import os
from typing import Final

NUM_FILES: Final = 4
"""Programs of one VM that compile at a time."""


class SourceFiles:
    """A few anonymous files, for good."""

    def __init__(self, count: int = NUM_FILES) -> None:
        self.fds: Final = tuple(os.memfd_create("vgc-source", os.MFD_CLOEXEC) for _ in range(count))
        self._free = list(self.fds)

    @property
    def any_free(self) -> bool:
        """Whether `write` is allowed."""
        return bool(self._free)

    def write(self, source: bytes) -> int:
        """Returns a file that holds exactly `source`; give it back with `release`."""
        fd = self._free.pop()
        os.ftruncate(fd, 0)
        view = memoryview(source)
        offset = 0
        while offset < len(view):
            offset += os.pwrite(fd, view[offset:], offset)
        return fd

    def release(self, fd: int) -> None:
        """The daemon has answered: the file and its memory are free."""
        os.ftruncate(fd, 0)
        self._free.append(fd)

    def close(self) -> None:
        """Closes all of them."""
        for fd in self.fds:
            os.close(fd)
