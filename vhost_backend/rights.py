"""Descriptors that arrive over a Unix socket (``SCM_RIGHTS``), close-on-exec from the first moment."""

from __future__ import annotations

import array
import socket
from typing import Final

_FD_BYTES: Final = array.array("i").itemsize


def receive_with_fds(sock: socket.socket, size: int, max_fds: int) -> tuple[bytes, tuple[int, ...], int]:
    """Up to `size` bytes, the descriptors that came with them (the caller's from now on), and ``msg_flags``.

    What ``socket.recv_fds`` is for; but that of Python 3.11 drops its flags, and with them MSG_CMSG_CLOEXEC.

    :raise OSError: as ``recvmsg``.
    """
    data, control, flags, _ = sock.recvmsg(size, socket.CMSG_LEN(max_fds * _FD_BYTES), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, part in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(part[: len(part) - len(part) % _FD_BYTES])
    return data, tuple(fds), flags
