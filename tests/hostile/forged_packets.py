"""Packets of MessagePack that cost a decoder as much as their length allows, for every type of message.

Each is at most as long as a packet of its type may be, and is built to be costly: as many values as fit, as deep as
they go, in each place where a valid message has a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from vhost_backend.worker_protocol.codec import MAX_PACKET_BYTES, Message

_LISTS: Final = b"\x90"
_MAPS: Final = b"\x80"
_DEEP: Final = b"\x91"
_REALS: Final = b"\xca\x3f\x80\x00\x00"
_TEXTS: Final = b"\xa1x"
_LONG: Final = b"\xcf" + b"\xff" * 8
COSTLY: Final = (_LISTS, _MAPS, _DEEP, _REALS, _TEXTS, b"\xa0", b"\x01", _LONG)


def array_of(unit: bytes, size: int) -> bytes:
    """Array of as many of these units as fit into `size` bytes."""
    count = max(0, size - 5) // len(unit)
    return b"\xdd" + count.to_bytes(4, "big") + unit * count


def map_of(unit: bytes, size: int) -> bytes:
    """Map from different short texts to these units."""
    count = max(0, size - 5) // (len(unit) + 5)
    pairs = (b"\xa4%04x" % i + unit for i in range(count))
    return b"\xdf" + count.to_bytes(4, "big") + b"".join(pairs)


def forged(example: Message) -> Iterator[bytes]:
    """Packets of the example's type, with each of its fields replaced by each costly value, and some all made of it."""
    good: list[bytes] = [msgspec.msgpack.encode(value) for value in msgspec.to_builtins(example)]
    head = example.TYPE.encode() + b"\0"
    for unit in COSTLY:
        for size in (example.MAX_BYTES - 200 - len(b"".join(good)), MAX_PACKET_BYTES - 200 - len(b"".join(good))):
            for costly in (array_of(unit, size), map_of(unit, size), unit * (size // len(unit))):
                yield head + costly
                for i in range(len(good)):
                    yield head + bytes([0x90 + len(good)]) + b"".join((*good[:i], costly, *good[i + 1 :]))
