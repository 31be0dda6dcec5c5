"""Anonymous files that carry source code from the worker to the daemon.

They are made before the worker enters its sandbox, because a worker that could make anonymous files at will could fill
the host's memory with them. A file carries one source at a time and is free again when the daemon has answered: the
daemon copies the source before it does anything else with it.
"""

from __future__ import annotations

import os
from typing import Final

NUM_FILES: Final = 4
"""Number of files, and so of one VM's programs that compile at a time."""


class SourceFiles:
    """Pool of anonymous files that live as long as the worker."""

    def __init__(self, count: int = NUM_FILES) -> None:
        self.fds: Final = tuple(os.memfd_create("vgc-source", os.MFD_CLOEXEC) for _ in range(count))
        self._free = list(self.fds)

    @property
    def any_free(self) -> bool:
        """True if a file is free, so that `write` is allowed."""
        return bool(self._free)

    def write(self, source: bytes) -> int:
        """Writes `source` into a free file and returns its fd, which `release` gives back."""
        fd = self._free.pop()
        os.ftruncate(fd, 0)
        view = memoryview(source)
        offset = 0
        while offset < len(view):
            offset += os.pwrite(fd, view[offset:], offset)
        return fd

    def release(self, fd: int) -> None:
        """Frees the file and its memory, once the daemon has answered."""
        os.ftruncate(fd, 0)
        self._free.append(fd)

    def close(self) -> None:
        """Closes all files."""
        for fd in self.fds:
            os.close(fd)
