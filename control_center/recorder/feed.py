"""Standard input that was recorded, to be sent again to a fresh run: who got what, in which order, and when.

A daemon says with an event ``input`` what each processing element was sent. `plan` makes of them a script per element;
`Script` gives it out piece by piece: when the kernel asks for input, or at its recorded time.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, int]
"""VM and processing element."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one element was sent at one time."""

    time_ns: int
    vm: str
    pe: int
    data: bytes
    eof: bool = False


@dataclass(slots=True)
class Script:
    """The pieces of one element, in the recorded order, and how far they have been sent."""

    pieces: list[Piece] = field(default_factory=list)
    sent: int = 0

    @property
    def is_done(self) -> bool:
        return self.sent == len(self.pieces)

    def next(self) -> Piece | None:
        """The next piece to be sent, which is then taken as sent; None: there is no more."""
        if self.is_done:
            return None
        self.sent += 1
        return self.pieces[self.sent - 1]


def plan(events: Iterable[Mapping[str, Any]], rename: Mapping[str, str] | None = None) -> dict[Place, Script]:
    """The scripts in recorded ``input`` events (rows of a replay or messages of a stream; others are passed over).

    `rename` says which VM is to get what another one got.
    """
    scripts: dict[Place, Script] = {}
    for event in events:
        piece = piece_of(event)
        if piece is not None:
            vm = (rename or {}).get(piece.vm, piece.vm)
            moved = Piece(piece.time_ns, vm, piece.pe, piece.data, piece.eof)
            scripts.setdefault((vm, piece.pe), Script()).pieces.append(moved)
    return scripts


def piece_of(event: Mapping[str, Any]) -> Piece | None:
    """What an event says was sent; None: it is about something else."""
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
