"""Capture of text that the driver writes to stdout and stderr for kernels: ``printf`` and ``assert``."""

from __future__ import annotations

import fcntl
import os


class Capture:
    """File that replaces one of this process's standard descriptors, from `begin` to `close`."""

    def __init__(self, standard_fd: int, name: str) -> None:
        """Makes the file, a memfd: inside the sandbox no file with a path could be made."""
        self._standard_fd = standard_fd
        self._before = -1
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC)
        # Append mode: if the file is truncated meanwhile, writes go on at its new end and leave no hole.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)

    def begin(self) -> None:
        self._before = os.dup(self._standard_fd)
        os.dup2(self.fd, self._standard_fd)

    def close(self) -> None:
        """Restores the descriptor and closes the file."""
        if self._before >= 0:
            os.dup2(self._before, self._standard_fd)
            os.close(self._before)
            self._before = -1
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
