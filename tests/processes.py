"""Processes of a daemon that runs as a program, as the kernel shows them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

_LAUNCHER: Final = "vgc-launch"


def children(pid: int) -> list[int]:
    """Ids of a process's children, whichever of its threads started them."""
    while True:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        # Where one ends meanwhile, another inherits its children, and may have been read before.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def descendants(pid: int) -> list[int]:
    """Ids of all processes below a process; of those that end meanwhile, some or none."""
    below: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in children(pid):
            below += [child, *descendants(child)]
    return below


def launchers(daemon: int) -> list[int]:
    """Ids of a daemon's launchers, each of which stands for a worker, or a compiler while one runs."""
    return [pid for pid in children(daemon) if _name(pid) == _LAUNCHER]


def _name(pid: int) -> str:
    """Name of a process; "" if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
