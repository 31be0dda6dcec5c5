"""Answers system calls that a permissive filter reports, from outside of the process that makes them.

The filter stops the calling thread until the owner of the listener answers [seccomp_unotify(2)]. The answer lets the
call continue, except hostile calls, which get EPERM. This serves to find out in one run which calls a driver needs; it
is no wall: the caller can change the memory that arguments point to between the report and the call.
"""

from __future__ import annotations

import errno
import fcntl
import select
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from vhost_backend.fds import Fd
from vhost_backend.sandbox.policy import deciding_arguments, is_hostile
from vhost_backend.sandbox.syscalls import X86_64

_NAMES: Final = {number: name for name, number in X86_64.items()}

# From the kernel: linux/seccomp.h
_NOTIFICATION: Final = struct.Struct("=QII" + "iIQ6Q")
"""struct seccomp_notif: id, pid, flags; number, architecture, instruction pointer, arguments."""
_ANSWER: Final = struct.Struct("=QqiI")
"""struct seccomp_notif_resp: id, value, error, flags."""
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_CONTINUE: Final = 1
_LISTENER: Final = "anon_inode:seccomp notify"


@dataclass(frozen=True, slots=True)
class Call:
    """System call that the filter does not allow."""

    name: str
    arguments: tuple[int, ...]
    identity: int = 0
    """Kernel's id of this notification."""

    @property
    def is_hostile(self) -> bool:
        """True if the call has no innocent use in a sandbox: it is then refused."""
        return is_hostile(self.name, self.arguments)

    def __str__(self) -> str:
        """Name and those arguments that the filter looks at, whose other values may be allowed."""
        values = ", ".join(f"{self.arguments[index]:#x}" for index in deciding_arguments(self.name))
        return f"{self.name}({values})" if values else self.name


class CallListener:
    """Listener of a process under a permissive filter; owns its descriptor. After `close`, calls fail with ENOSYS."""

    def __init__(self, fd: Fd) -> None:
        """Takes `fd` over.

        :raise ValueError: the descriptor is no such listener: ioctls on it could mean anything.
        """
        if str(Path(f"/proc/self/fd/{fd.fileno()}").readlink()) != _LISTENER:
            raise ValueError("the descriptor is no listener of a system call filter")
        self._fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd.fileno()

    def wait(self, ended: Fd) -> bool:
        """Waits for a call; False if no more can come, or if the other end of `ended` was closed."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(ended, 0)
        events = dict(poll.poll())
        return ended.fileno() not in events and bool(events.get(self._fd.fileno(), 0) & select.POLLIN)

    def take(self) -> Call | None:
        """Takes a waiting call; None if its thread has been killed meanwhile.

        Blocks until the next call if the waiting one was taken through a copy of the listener.
        """
        notification = bytearray(_NOTIFICATION.size)
        if not self._do(_RECEIVE, notification):
            return None
        identity, _pid, _flags, number, _architecture, _at, *arguments = _NOTIFICATION.unpack(notification)
        return Call(_NAMES.get(number, f"number {number}"), tuple(arguments), identity)

    def answer(self, call: Call) -> None:
        """Lets the calling thread continue with the call, or fails a hostile call with EPERM."""
        value, error, flags = (0, -errno.EPERM, 0) if call.is_hostile else (0, 0, _CONTINUE)
        self._do(_SEND, bytearray(_ANSWER.pack(call.identity, value, error, flags)))

    def close(self) -> None:
        self._fd.close()

    def _do(self, request: int, what: bytearray) -> bool:
        """Calls an ioctl; False if the calling thread was killed, or its call already answered."""
        try:
            fcntl.ioctl(self._fd.fileno(), request, what)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EINPROGRESS}:
                return False
            raise
        return True
