"""File in which perf looks for the names of a worker's kernels: ``/tmp/perf-PID.map``.

perf looks for it at first in the mount namespace of the process that it samples, where a worker has no file, and then in
its own, under the number that the process has there (``dso__find_perf_map`` in tools/perf/util/symbol.c). It reads the
file when it reports, and takes only files of root's or of its own user's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from vhost_backend.worker_protocol.protocol import CodeNames

FOLDER: Final = Path("/tmp")  # noqa: S108  perf knows no other
MAX_BYTES: Final = 1 << 20
"""Largest file. Programs beyond it stay without names."""


class PerfMap:
    """Map of one process; the file is there from the first program on, and until `close`."""

    def __init__(self, pid: int) -> None:
        """`pid`: number of the worker in the daemon's pid namespace."""
        self.path = FOLDER / f"perf-{pid}.map"
        self._lines: dict[int, str] = {}
        """Lines of each program."""
        self._is_there = False

    def name(self, names: CodeNames) -> None:
        """Replaces what the file says of a program. perf sees the whole file, old or new.

        :raise OSError: the file cannot be written.
        """
        self._lines.pop(names.program, None)
        lines = "".join(f"{code.address:x} {code.size:x} {code.name}\n" for code in names.code)
        if lines and sum(map(len, self._lines.values())) + len(lines) <= MAX_BYTES:
            self._lines[names.program] = lines
        self._write("".join(self._lines.values()))

    def close(self) -> None:
        """Removes the file."""
        if self._is_there:
            self._is_there = False
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        """Writes a new file and renames it: the folder is everybody's, and what has the name may be a link."""
        fd, name = tempfile.mkstemp(dir=FOLDER, prefix=f"{self.path.name}.")
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(text)
            Path(name).replace(self.path)
            self._is_there = True
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
