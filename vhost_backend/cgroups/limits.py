"""Limits of a control group and what it uses, in the terms of either version of control groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CONTROLLERS: Final = ("memory", "pids", "cpu")
"""Controllers that a group is made of."""

USUAL_WEIGHT: Final = 100
MIN_WEIGHT: Final = 1
MAX_WEIGHT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on all processes of a group together; None: unbounded."""

    memory_bytes: int | None = None
    """Memory of any kind, also of shared files that the group was first to touch. Nothing goes to swap in its stead."""
    processes: int | None = None
    """Processes and threads."""
    cpus: float | None = None
    """Processors that the group may keep busy at a time."""
    weight: int = USUAL_WEIGHT
    """Share of the processors among neighbouring groups that all have work, from 1 to 10,000."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of a group and of all groups in it."""

    memory_bytes: int
    oom_kills: int
    """Number of processes that the kernel has killed because the group was out of memory."""
