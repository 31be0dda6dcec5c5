"""Agreement between the daemon and the fork server, which starts workers as copies of itself.

A request is one message on a ``SOCK_SEQPACKET`` socket: the launcher's options, NUL between them, with two descriptors, the
worker's end of its socket to the daemon and its stderr. The answer is the process id of the launcher, which is a child of the
daemon's, or an error's text. The server's first message is `READY`.
"""

from __future__ import annotations

from typing import Final

READY: Final = b"ready"
MAX_REQUEST_BYTES: Final = 128 << 10
MAX_ANSWER_BYTES: Final = 4096
NUM_FDS: Final = 2
JOB_FD: Final = 3
"""Descriptor of the worker's socket, in the worker; VGC_JOB_FD of launcher.h."""
