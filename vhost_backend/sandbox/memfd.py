"""Anonymous files that are written once and then sealed, so that their bytes never change for readers."""

from __future__ import annotations

import fcntl
import os
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | memoryview

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def create(name: str, content: Buffer = b"") -> int:
    """Makes an anonymous file that holds `content`, positioned at its start. The caller owns the fd."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(content)
        offset = 0
        while offset < len(view):
            offset += os.pwrite(fd, view[offset:], offset)
    except BaseException:
        os.close(fd)
        raise
    return fd


def seal(fd: int) -> None:
    """Makes the file's content final.

    :raise OSError: EBUSY while a process has it mapped writable.
    """
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)


def is_sealed(fd: int) -> bool:
    """True if the file's content cannot change any more."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:
        return False


def sealed(name: str, content: Buffer) -> int:
    """Makes a sealed file that holds `content`. The caller owns the fd."""
    fd = create(name, content)
    seal(fd)
    return fd


def read(fd: int, max_bytes: int) -> bytes:
    """Reads the first `max_bytes` of the file, whatever its position."""
    parts: list[bytes] = []
    offset = 0
    while offset < max_bytes:
        part = os.pread(fd, max_bytes - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
