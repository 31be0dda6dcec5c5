"""Files of the daemon's state, which outlast a crash of the host."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 << 20


def read_file(file: Path) -> bytes:
    """Contents of a file in a folder of the daemon's user, whom its reader, say root, need not trust: no link, no pipe, no device.

    :raise OSError: it cannot be read, is something else, or is longer than `MAX_BYTES`.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES} bytes")
    return content


def replace_file(file: Path, content: bytes) -> None:
    """Replaces a file by a new one of mode 0600, which is on the disk before the old one is gone.

    :raise OSError: it cannot be written; then it stays as it was.
    """
    fd, new = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(fd, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(fd)
        Path(new).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(new).unlink()
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
