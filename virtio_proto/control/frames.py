"""Frames of the control API on a byte stream (a UNIX socket, or TLS): length, then MessagePack.

A frame is a 32-bit little-endian length, and that many bytes of MessagePack, which hold one map with string keys:

- a request: ``{"id": 7, "do": "open", "with": {...}}``
- its answer: ``{"id": 7, "ok": {...}}`` or ``{"id": 7, "error": {"kind": "...", "text": "..."}}``
- a push, after a subscription: ``{"push": "records", ...}``

Requests may be sent without waiting; answers come in any order. `virtio_proto.control.api` declares their contents.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final, TypeAlias

import msgpack

MAX_FRAME_BYTES: Final = 16 << 20
MAX_CONTAINERS: Final = 1 << 18
"""Most lists and maps in a frame: an empty list takes one byte on the wire and 56 in memory."""
MAX_ITEMS: Final = 1 << 20
"""Most items of one list."""
_LENGTH: Final = struct.Struct("<I")

Frame: TypeAlias = dict[str, Any]


class FrameError(Exception):
    """The peer sent bytes that are not a frame; the text says what is allowed."""


def encode(frame: Frame) -> bytes:
    """Packs `frame`, length included.

    :raise FrameError: the frame is too long, or holds a number of more than 64 bits, or text without a UTF-8 form.
    """
    try:
        body: bytes = msgpack.packb(frame)
    except OverflowError:
        raise FrameError("a frame with a number of more than 64 bits") from None
    except UnicodeEncodeError:
        raise FrameError("a frame with text that has no UTF-8 form") from None
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body)} bytes; allowed: {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Frame:
    """Unpacks `body`, the bytes after the length.

    :raise FrameError: `body` is not MessagePack, or not a map with string keys, or has too many parts.
    """
    left = MAX_CONTAINERS

    def count(container: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise FrameError(f"a frame of more than {MAX_CONTAINERS} lists and maps")
        return container

    try:
        frame = msgpack.unpackb(body, strict_map_key=True, max_array_len=MAX_ITEMS, list_hook=count, object_hook=count)
    except (ValueError, msgpack.UnpackException) as error:
        raise FrameError(f"a frame that is not MessagePack: {error}") from None
    if not isinstance(frame, dict) or not all(isinstance(key, str) for key in frame):
        raise FrameError(f"a frame that is a {type(frame).__name__}; allowed: a map with string keys")
    return frame


async def read(stream: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES) -> Frame | None:
    """Reads the next frame, of at most `max_bytes`; None at the end of the stream.

    :raise FrameError: the peer sent something else, or ended in the middle of a frame.
    """
    try:
        (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        if length > max_bytes:
            raise FrameError(f"a frame of {length} bytes; allowed: {max_bytes}")
        return decode(await stream.readexactly(length))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError("the stream ended in the middle of a frame") from None
        return None
