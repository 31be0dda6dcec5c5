"""Recorded standard input, to be sent again to a new run.

A daemon reports with an event ``input`` what was sent to each processing element (PE). `plan` makes a script for each
PE from these events; `Script` gives out its pieces one by one: when the kernel asks for input, or at the recorded time.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, int]
"""VM and number of a processing element."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Input that was sent to one PE at one time."""

    time_ns: int
    vm: str
    pe: int
    data: bytes
    eof: bool = False


@dataclass(slots=True)
class Script:
    """Pieces of input for one PE, in the recorded order, and how many of them have been sent."""

    pieces: list[Piece] = field(default_factory=list)
    sent: int = 0

    @property
    def is_done(self) -> bool:
        return self.sent == len(self.pieces)

    def next(self) -> Piece | None:
        """Gives out the next piece and counts it as sent; None after the last one."""
        if self.is_done:
            return None
        self.sent += 1
        return self.pieces[self.sent - 1]


def plan(events: Iterable[Mapping[str, Any]], rename: Mapping[str, str] | None = None) -> dict[Place, Script]:
    """Makes scripts from recorded ``input`` events (rows of a replay or messages of a stream; other events are skipped).

    `rename` maps a recorded VM to the VM that is to get its input.
    """
    scripts: dict[Place, Script] = {}
    for event in events:
        piece = piece_of(event)
        if piece is not None:
            vm = (rename or {}).get(piece.vm, piece.vm)
            renamed = Piece(piece.time_ns, vm, piece.pe, piece.data, piece.eof)
            scripts.setdefault((vm, piece.pe), Script()).pieces.append(renamed)
    return scripts


def piece_of(event: Mapping[str, Any]) -> Piece | None:
    """Input that an event reports; None if the event is of another kind."""
    detail = event.get("detail")
    if event.get("event") != "input" or not isinstance(detail, Mapping) or not event.get("vm"):
        return None
    data, pe = detail.get("data"), detail.get("pe")
    if isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=True)
        except binascii.Error:
            return None
    if not isinstance(data, bytes) or not isinstance(pe, int):
        return None
    return Piece(event["time_ns"], event["vm"], pe, data, bool(detail.get("eof")))
