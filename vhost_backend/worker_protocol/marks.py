"""Marks that guests' programs make in time (NVTX ranges), from a worker to the daemon.

The worker checks a guest's request and passes it on as `Marks`; the daemon checks that again and counts it against the
VM's `MarkBudget`, because a worker's process belongs to guest code. The worker has a budget of its own, so that a guest
which floods it does not fill the link.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, ClassVar, Final, TypeAlias

from msgspec import Meta

from vhost_backend.worker_protocol.codec import U32, U62, Message, Part, Real
from virtio_proto.schema import LIMITS, MarkKind

MAX_MARKS: Final = LIMITS["MAX_MARKS"]
MESSAGE_COST: Final = 16
"""Marks that a message counts for at least: each becomes a push to every client."""

_PLAIN: Final = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
MarkText: TypeAlias = Annotated[str, Meta(max_length=LIMITS["MAX_MARK_TEXT"], pattern=_PLAIN)]
MarkName: TypeAlias = Annotated[str, Meta(max_length=LIMITS["MAX_MARK_NAME"], pattern=_PLAIN)]


class Mark(Part, frozen=True):
    """A range of a program, or an instant. Times are the host's CLOCK_REALTIME."""

    at_ns: U62
    duration_ns: U62
    """0 for an instant."""
    kind: Annotated[int, Meta(ge=0, le=len(MarkKind) - 1)]
    thread: U32
    category: U32
    colour: U32
    payload: int | Real | None
    text: MarkText
    domain: MarkName
    category_name: MarkName
    thread_name: MarkName


class Marks(Message, frozen=True):
    """Marks of one process of a guest."""

    TYPE: ClassVar[str] = "marks"
    process: U32
    name: MarkName
    dropped: U32
    """Marks that the guest, or the worker, has left out before these."""
    marks: Annotated[tuple[Mark, ...], Meta(max_length=MAX_MARKS)]


class MarkBudget:
    """Marks of a VM that are passed on: `MARKS_PER_S` in the long run, `MARKS_BURST` at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(LIMITS["MARKS_BURST"])
        self._at = clock()
        self._dropped = 0

    def take(self, count: int, dropped: int) -> int:
        """Number of dropped marks to tell with a message of `count` marks, or -1 if that must be dropped, too.

        `dropped`: the number that the message itself tells. What is not told now is told with the next message.
        """
        now = self._clock()
        self._left = min(LIMITS["MARKS_BURST"], self._left + (now - self._at) * LIMITS["MARKS_PER_S"])
        self._at = now
        self._dropped += dropped
        cost = max(count, MESSAGE_COST)
        if count == 0 or self._left < cost:
            self._dropped += count
            return -1
        self._left -= cost
        told, self._dropped = self._dropped, 0
        return min(told, 0xFFFF_FFFF)
