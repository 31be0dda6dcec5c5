"""Addresses for workers: a range of each VM's own, at random, in which two workers of a VM can have the same."""

from __future__ import annotations

import secrets
from typing import Final

from vhost_backend.config import VmConfig
from vhost_backend.worker.moving_messages import ArenaSetup

FIRST: Final = 0x2000_0000_0000
END: Final = 0x5000_0000_0000
"""Between what is low (heaps of programs without PIE, a GPU driver's reservations, a sanitizer's shadow) and where the
kernel puts programs, libraries and stacks. Nothing is reserved there: these are addresses, not memory."""

ALIGN: Final = 1 << 30
SMALLEST: Final = 1 << 40
ROUNDS: Final = 8
"""So many times what a VM can hold: what is freed is not given again at once."""


def choose_arena(config: VmConfig) -> ArenaSetup:
    """A range for everything that the VM's guest can get to know the address of, region included."""
    needed = ROUNDS * (config.quota.memory_bytes + config.region_bytes)
    size = min(max(SMALLEST, -(-needed // ALIGN) * ALIGN), END - FIRST)
    places = (END - FIRST - size) // ALIGN + 1
    return ArenaSetup(FIRST + secrets.randbelow(places) * ALIGN, size)
