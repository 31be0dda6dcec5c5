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
_BEGINS: Final = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
"""First bytes of lists and maps in MessagePack."""

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
    frame = unpack(body)
    if not isinstance(frame, dict) or not all(isinstance(key, str) for key in frame):
        raise FrameError(f"a frame that is a {type(frame).__name__}; allowed: a map with string keys")
    return frame


def unpack(body: bytes | memoryview) -> Any:
    """Unpacks any value.

    :raise FrameError: `body` is not MessagePack, or has too many parts.
    """
    hook = None if _has_few_parts(body) else _Counter()
    try:
        return msgpack.unpackb(body, strict_map_key=True, max_array_len=MAX_ITEMS, list_hook=hook, object_hook=hook)
    except (ValueError, msgpack.UnpackException) as error:
        raise FrameError(f"a frame that is not MessagePack: {error}") from None


def check_parts(body: bytes) -> None:
    """Checks a body that another decoder is to decode.

    :raise FrameError: `body` has too many parts.
    """
    if len(body) > MAX_ITEMS or not _has_few_parts(body):
        unpack(body)


def _has_few_parts(body: bytes | memoryview) -> bool:
    """True if `body` has at most `MAX_CONTAINERS` bytes that may begin a list or a map."""
    return len(body) <= MAX_CONTAINERS or len(body) - len(bytes(body).translate(None, _BEGINS)) <= MAX_CONTAINERS


class _Counter:
    """Hook that counts containers. It costs more than all the rest of unpacking."""

    def __init__(self) -> None:
        self._left = MAX_CONTAINERS

    def __call__(self, container: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise FrameError(f"a frame of more than {MAX_CONTAINERS} lists and maps")
        return container


async def read(stream: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES) -> Frame | None:
    """Reads the next frame, of at most `max_bytes`; None at the end of the stream.

    :raise FrameError: the peer sent something else, or ended in the middle of a frame.
    """
    body = await read_body(stream, max_bytes)
    return None if body is None else decode(body)


async def read_body(stream: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES) -> bytes | None:
    """Reads the bytes of the next frame after its length, as `read` does, without unpacking them.

    :raise FrameError: the frame is too long, or the peer ended in the middle of it.
    """
    try:
        (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        if length > max_bytes:
            raise FrameError(f"a frame of {length} bytes; allowed: {max_bytes}")
        return await stream.readexactly(length)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError("the stream ended in the middle of a frame") from None
        return None
