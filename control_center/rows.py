"""Rows of batches, for people: each record with its place, its time on the host and its text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from control_center.recording_port import RecordRow
from virtio_proto.control.api import RecordsPush
from virtio_proto.control.records import Record, RecordError, describe, unpack

MAX_TEXTS: Final = 1 << 16
"""Most texts of one VM; beyond that, addresses are shown instead."""
MAX_TEXT_CHARS: Final = 1024
"""Length to which one text is cut."""
MAX_CHARS: Final = 2 << 20
"""Most characters of one VM's texts together."""


class Lexicon:
    """Formats and names of one VM's programs, by device address."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self._chars = 0

    def learn(self, dictionary: dict[str, str]) -> None:
        """Adds texts of a push; keys that are not hexadecimal numbers are left out."""
        for address, text in dictionary.items():
            with contextlib.suppress(ValueError):
                number = int(address, 16)
                known, short = self.texts.get(number), text[:MAX_TEXT_CHARS]
                chars = self._chars + len(short) - len(known or "")
                if chars <= MAX_CHARS and (known is not None or len(self.texts) < MAX_TEXTS):
                    self.texts[number], self._chars = short, chars


def rows(host: str, push: RecordsPush, lexicon: Lexicon) -> Iterator[RecordRow]:
    """Yields the rows of a batch. Bytes that are not a record end it with a row of the kind ``torn``."""
    try:
        for record in unpack(push["data"]):
            yield _row(host, push, record, lexicon)
    except RecordError as error:
        yield _torn(host, push, str(error))


def _row(host: str, push: RecordsPush, record: Record, lexicon: Lexicon) -> RecordRow:
    row: RecordRow = {
        "time_ns": record.time_ns + push["clock_ns"],
        "host": host,
        "gpu": push["gpu"],
        "vm": push["vm"],
        "pe": push["pe"],
        "fn": record.function.name.lower(),
        "level": record.level,
        "kind": record.kind,
        "text": describe(record, lexicon.texts),
        "block": record.block,
        "warp": record.warp,
        "sequence": record.sequence,
        "lost": push["lost"],
    }
    if record.kind == "took":
        row["taken"] = len(record.payload)
    return row


def _torn(host: str, push: RecordsPush, text: str) -> RecordRow:
    return {
        "time_ns": push["clock_ns"],
        "host": host,
        "gpu": push["gpu"],
        "vm": push["vm"],
        "pe": push["pe"],
        "fn": "",
        "level": 0,
        "kind": "torn",
        "text": text,
        "block": 0,
        "warp": 0,
        "sequence": 0,
        "lost": push["lost"],
    }
