"""Files that carry source code from a worker to the daemon.

The daemon makes them and sends them with `Setup`. A worker that made files itself could fill the host's memory with
them; one that sent descriptors could exhaust the number that the kernel lets all processes of its user have in flight,
and so keep other workers of that user from receiving any.
"""

from __future__ import annotations

import os

from vhost_backend.fds import Fd
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES


def make() -> tuple[Fd, ...]:
    """Makes the empty files of one worker. A file carries one program at a time.

    :raise OSError: the host lacks descriptors or memory.
    """
    return tuple(Fd(os.memfd_create("vgc-source", os.MFD_CLOEXEC)) for _ in range(NUM_SOURCES))
