"""What a recorder is told when it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the store is and its bounds. All of it has defaults that suit a control centre."""

    url: str
    retention_s: float | None = None
    """Older entries are deleted; None: kept."""
    size_bytes: int | None = None
    """Of all entries together, with what keeping each costs; the oldest are deleted. None: unbounded."""
    flush_s: float = 0.5
    """What is queued is in the store after so long: what a crash can cost."""
    queue_bytes: int = 64 << 20
    """Of what waits for the writer; what comes beyond is left out, counted, and noted as a gap."""
    prune_s: float = 10.0
    """Between two looks at age and size."""
    now_ns: Callable[[], int] = time.time_ns
    """The clock that entries and ages are measured by."""
