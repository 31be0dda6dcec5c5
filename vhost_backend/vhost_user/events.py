"""Descriptors by which frontend and backend wake each other: kinds that a ring's kick, call and err may be."""

from __future__ import annotations

import contextlib
import os
import socket

from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd
from vhost_backend.vhost_user.messages import Request


def check_event(request: Request, fd: Fd) -> None:
    """Checks the descriptor of SET_VRING_KICK, CALL or ERR, which stays the caller's.

    A kick or err is an eventfd. A call may also be one end of a pipe or of a socket pair: Linux as the frontend (User-Mode
    Linux) wants a signal when it can be read, which an eventfd does not give. Nothing is ever received through it.

    :raise FrontendError: it is something else.
    """
    if fd.is_eventfd():
        return
    if request is not Request.SET_VRING_CALL:
        raise FrontendError(request.name, "fd", "something else", "an eventfd")
    if not fd.is_writable_pipe() and not _made_one_way(fd):
        allowed = "an eventfd, the write end of a pipe, or one end of a stream socketpair"
        raise FrontendError(request.name, "fd", "something else", allowed)


def _made_one_way(fd: Fd) -> bool:
    """Ends the direction towards the backend; False if this is not a connected UNIX stream socket.

    The socket goes to a worker, and guest code there must not get descriptors from whoever has the other end.
    """
    if not fd.is_unix_stream():
        return False
    with socket.socket(fileno=os.dup(fd.fileno())) as sock, contextlib.suppress(OSError):
        sock.getpeername()
        sock.shutdown(socket.SHUT_RD)
        return True
    return False
