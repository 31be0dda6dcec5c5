"""Files of the daemon's state, which outlast a crash of the host."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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
