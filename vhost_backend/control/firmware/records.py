"""Records of firmware at the keeper.

Another daemon reads them, perhaps one of another version of this program: a change of any of them takes another
`vhost_backend.keeper.client.RECORD_VERSION`.
"""

from __future__ import annotations

from typing import Final

from vhost_backend.keeper.record import U32, U64, Record

MAX_TEXTS: Final = 64


class ImageRecord(Record, frozen=True):
    """Image that was staged; the entry's descriptor is a file with its bytes."""

    staged_ns: U64
    engines: tuple[str, ...]


class StandingRecord(Record, frozen=True):
    """Version that a VM's elements are to run: `vhost_backend.control.firmware.manager.Standing`."""

    version: str
    since_s: float
    before: str | None


class FloorRecord(Record, frozen=True):
    """Versions that have run on a VM."""

    ran: tuple[str, ...]


class UnitRecord(Record, frozen=True):
    """Firmware of one worker: `vhost_backend.control.firmware.unit.Unit`."""

    generation: U32
    versions: tuple[str | None, ...]
    """By slot."""
    proven: tuple[str, ...]
    left: tuple[str, ...]
    elements: bytes
    """Slot that each element runs, and its state above that, in a byte."""
    texts: dict[U32, str]
    """Reasons of the last failed changes, by element: those of the first `MAX_TEXTS`."""
