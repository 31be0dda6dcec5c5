"""Processes of a daemon that runs as a program, as the kernel shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_LAUNCHER: Final = "vgc-launch"


def children(pid: int) -> list[int]:
    """Ids of the children of a process's first thread."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def launchers(daemon: int) -> list[int]:
    """Ids of a daemon's launchers, each of which stands for a worker, or a compiler while one runs."""
    return [pid for pid in children(daemon) if Path(f"/proc/{pid}/comm").read_text().strip() == _LAUNCHER]
