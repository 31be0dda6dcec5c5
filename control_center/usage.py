"""Memory and CPU time of this process."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """Resident memory of this process."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Usage:
    """CPU time of this process, measured between calls."""

    def __init__(self) -> None:
        self._at_s = time.monotonic()
        self._cpu_s = time.process_time()
        self._percent = 0.0

    def cpu_percent(self) -> float:
        """CPU use in percent of one CPU, over the time since the last measurement, at least a second."""
        now_s, cpu_s = time.monotonic(), time.process_time()
        if now_s - self._at_s >= 1:
            self._percent = 100 * (cpu_s - self._cpu_s) / (now_s - self._at_s)
            self._at_s, self._cpu_s = now_s, cpu_s
        return self._percent
