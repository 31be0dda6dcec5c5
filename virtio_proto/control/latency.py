"""Latency classes: four of equal width for each doubling from 256 ns to 18 minutes, so that 124 counts give quantiles.

An operation's latency lasts from the moment the data plane takes it off its ring to the end of the engine's work; only
operations that the engine times (launches, graphs, and copies that are not done at once) have one. `vgc_latency_class` in ``vhost_backend/dataplane/figures.c``
is the other side of this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

NUM_CLASSES: Final = 124
_UNIT_NS: Final = 256
_PER_DOUBLING: Final = 4


def upper_ns(number: int) -> int:
    """Least latency above a class; that of the last class is only where its counting starts to be wrong."""
    if number < _PER_DOUBLING:
        return (number + 1) * _UNIT_NS
    doubling, part = divmod(number, _PER_DOUBLING)
    return (_PER_DOUBLING + part + 1) * _UNIT_NS << (doubling - 1)


def between(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Operations that were counted between two looks; all of the later one if a new worker has begun to count anew."""
    found = [late - early for early, late in zip_longest(before, after, fillvalue=0)]
    return found if min(found, default=0) >= 0 else list(after)


def quantile_ns(counts: Sequence[int], part: float) -> int | None:
    """Latency that `part` (0..1) of the operations do not exceed, as the end of its class; None: there are no operations."""
    left = part * sum(counts)
    last = None
    for number, count in enumerate(counts):
        if count > 0:
            last = upper_ns(number)
            left -= count
            if left <= 0:
                break
    return last
