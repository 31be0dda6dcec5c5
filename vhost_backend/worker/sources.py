"""Worker's side of the files that carry source code to the daemon (see `vhost_backend.worker_protocol.sources`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final


class SourceFiles:
    """Pool of source files. A file carries one source at a time and is free again when the daemon has answered."""

    def __init__(self, fds: Sequence[int]) -> None:
        """Takes `fds` over."""
        self.fds: Final = tuple(fds)
        self._free = list(range(len(self.fds)))

    @property
    def any_free(self) -> bool:
        """True if a file is free, so that `write` is allowed."""
        return bool(self._free)

    def write(self, source: bytes) -> int:
        """Writes `source` into a free file and returns the file's number, which `release` gives back."""
        number = self._free.pop()
        fd = self.fds[number]
        os.ftruncate(fd, 0)
        view = memoryview(source)
        offset = 0
        while offset < len(view):
            offset += os.pwrite(fd, view[offset:], offset)
        return number

    def release(self, number: int) -> None:
        """Frees the file and its memory, once the daemon has answered."""
        os.ftruncate(self.fds[number], 0)
        self._free.append(number)

    def close(self) -> None:
        """Closes all files."""
        for fd in self.fds:
            os.close(fd)
