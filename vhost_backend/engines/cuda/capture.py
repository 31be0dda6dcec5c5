"""What the driver writes to stdout and stderr on behalf of kernels: ``printf``, and what an ``assert`` says."""

from __future__ import annotations

import fcntl
import os


class Capture:
    """A file that takes the place of one of this process's standard descriptors, from `begin` to `close`."""

    def __init__(self, standard_fd: int, name: str) -> None:
        """Makes the file, which needs no path: behind the walls none could be made."""
        self._standard_fd = standard_fd
        self._before = -1
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC)
        # Only ever appended to, so that whoever empties it meanwhile leaves no hole.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)

    def begin(self) -> None:
        self._before = os.dup(self._standard_fd)
        os.dup2(self.fd, self._standard_fd)

    def close(self) -> None:
        """Puts back what was there before."""
        if self._before >= 0:
            os.dup2(self._before, self._standard_fd)
            os.close(self._before)
            self._before = -1
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
