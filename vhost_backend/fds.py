"""Owned file descriptors: each is closed exactly once, on every path.

`Fd` owns one descriptor; `FdBag` owns those of one message until they are taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


class HasFileno(Protocol):
    """Owner of a descriptor."""

    def fileno(self) -> int: ...


class Fd:
    """Owns one file descriptor until it is closed or released. An unclosed one is closed when collected."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        """Number of the descriptor.

        :raise ValueError: it has been closed or released.
        """
        if self._number < 0:
            raise ValueError("this file descriptor is closed")
        return self._number

    @property
    def closed(self) -> bool:
        return self._number < 0

    def close(self) -> None:
        """Closes the descriptor; a second call does nothing."""
        number, self._number = self._number, -1
        if number >= 0:
            with contextlib.suppress(OSError):
                os.close(number)

    def release(self) -> int:
        """Passes ownership of the descriptor to the caller.

        :raise ValueError: it has been closed or released.
        """
        number, self._number = self.fileno(), -1
        return number

    def is_eventfd(self) -> bool:
        return Path(f"/proc/self/fd/{self.fileno()}").readlink() == Path("anon_inode:[eventfd]")

    def is_writable_pipe(self) -> bool:
        if not stat.S_ISFIFO(os.fstat(self.fileno()).st_mode):
            return False
        return fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY

    def is_unix_stream(self) -> bool:
        """True for a stream socket of this host: unlike one of a network, it does not linger when it is closed [socket(7), SO_LINGER]."""
        if not stat.S_ISSOCK(os.fstat(self.fileno()).st_mode):
            return False
        with socket.socket(fileno=os.dup(self.fileno())) as sock:
            return (sock.family, sock.type) == (socket.AF_UNIX, socket.SOCK_STREAM)

    def identity(self) -> tuple[int, int]:
        """Device and inode of the open file; equal for two descriptors of one file."""
        status = os.fstat(self.fileno())
        return status.st_dev, status.st_ino

    def file_size(self) -> int | None:
        """Size in bytes of a regular file (memfd, /dev/shm, hugetlbfs); None for anything else."""
        status = os.fstat(self.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Fd({self._number})"


class FdBag:
    """Descriptors of one message; those that were not taken are closed when the `with` block ends."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._fds = [Fd(number) for number in numbers]

    def __len__(self) -> int:
        return len(self._fds)

    def extend(self, numbers: Iterable[int]) -> None:
        self._fds += [Fd(number) for number in numbers]

    @property
    def first(self) -> Fd:
        """First remaining descriptor, which stays the bag's.

        :raise IndexError: all were taken.
        """
        return self._fds[0]

    def take(self) -> Fd:
        """Takes the first remaining descriptor; the caller owns it.

        :raise IndexError: all were taken.
        """
        return self._fds.pop(0)

    def take_all(self) -> list[Fd]:
        fds, self._fds = self._fds, []
        return fds

    def close(self) -> None:
        for fd in self.take_all():
            fd.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pipe() -> tuple[Fd, Fd]:
    """Makes a pipe; returns its read end and write end, both closed on exec."""
    read_end, write_end = os.pipe()
    return Fd(read_end), Fd(write_end)
