"""Processor time that a command costs: its own session's and its device's.

Programs are stopped by it, not by the clock: what passes on a quiet machine passes on a busy one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SESSION: Final = 3  # fields of /proc/PID/stat behind the name, see proc(5)
_TIMES: Final = slice(11, 13)
_TIMES_WITH_CHILDREN: Final = slice(11, 15)


def _stat(process: str | int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; none of a process that has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def process_seconds(pid: int | None) -> float:
    """Processor time of a process that lives; 0 for None and for one that has ended."""
    return 0.0 if pid is None else sum(map(int, _stat(pid)[_TIMES])) / TICKS_PER_S


def session_seconds(session: int) -> float:
    """Processor time of a session's processes that live, and of their children that were waited for."""
    spent = 0
    for process in Path("/proc").iterdir():
        fields = _stat(process.name) if process.name.isdigit() else []
        if fields and int(fields[_SESSION]) == session:
            spent += sum(map(int, fields[_TIMES_WITH_CHILDREN]))
    return spent / TICKS_PER_S


class Effort:
    """Processor time since it was made, of a session and of a device, whose worker may be replaced meanwhile."""

    def __init__(self, session: int, device_seconds: Callable[[], float]) -> None:
        self._session = session
        self._device_seconds = device_seconds
        self._seen = device_seconds()
        self._by_device = 0.0

    def seconds(self) -> float:
        now = self._device_seconds()
        self._by_device += now - self._seen if now >= self._seen else now  # less: it is another worker's
        self._seen = now
        return session_seconds(self._session) + self._by_device
