"""Codec of messages: dataclasses to JSON packets and back, with file descriptors beside them.

A message is a frozen dataclass with a `TYPE`, the number of descriptors that go with it, and fields made by the
functions of this module, each of which checks what a peer sent. `vhost_backend.worker_protocol.protocol` declares the
messages.
"""

from __future__ import annotations

import array
import errno
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar, cast

from vhost_backend.sockets import receive_with_fds

MAX_PACKET_BYTES: Final = 64 << 10
MAX_SCALAR_CHARS: Final = 4096
"""Sum of the lengths of all names and strings in a flat object, so that a worker's `Log` cannot flood the host's."""

FOR_A_MOMENT: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""Errors of sending that end by themselves: too many descriptors of this user in flight, or no memory."""
RETRY_S: Final = 0.01
"""Time until a message that met such an error is sent again."""

Scalar: TypeAlias = str | int | float | bool | None


class ProtocolError(Exception):
    """The peer sent something that is not in the protocol; the text says what, and what is allowed."""


class Sendable(Protocol):
    """Interface of a message."""

    TYPE: ClassVar[str]

    def num_fds(self) -> int:
        """Number of descriptors that go with the message."""


_M = TypeVar("_M", bound=Sendable)


# --------------------------------------------------------------------------------------------------
# Fields: each has a parser, (path, JSON value) -> checked value
# --------------------------------------------------------------------------------------------------

Parser: TypeAlias = Callable[[str, object], Any]


def integer(maximum: int, minimum: int = 0, default: object = MISSING) -> Any:
    """A field that is an integer of minimum..maximum. `default` is as for `part`."""

    def parse(path: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: an integer of {minimum}..{maximum}")
        return value

    return field(default=default, metadata={"parse": parse})


def unsigned(bits: int, default: object = MISSING) -> Any:
    """A field that is an unsigned integer of `bits` bits. `default` is as for `part`."""
    return integer((1 << bits) - 1, default=default)


def _parse_flag(path: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: true or false")
    return value


def flag(default: object = MISSING) -> Any:
    """A field that is true or false. `default` is as for `part`."""
    return field(default=default, metadata={"parse": _parse_flag})


def text_parser(max_chars: int, allowed: tuple[str, ...] = ()) -> Parser:
    """Parser of strings of at most `max_chars` characters, restricted to `allowed` if that is not empty."""

    def parse(path: str, value: object) -> str:
        if not isinstance(value, str) or len(value) > max_chars:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: a string of at most {max_chars} characters")
        if allowed and value not in allowed:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: {', '.join(allowed)}")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: text that has a UTF-8 form")
        return value

    return parse


def text(max_chars: int = 1024, allowed: tuple[str, ...] = ()) -> Any:
    """A field that is a string (see `text_parser`)."""
    return field(metadata={"parse": text_parser(max_chars, allowed)})


def tuple_of(parse_item: Parser, max_items: int) -> Any:
    """A field that is a list of at most `max_items`, each parsed by `parse_item`."""

    def parse(path: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > max_items:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: a list of at most {max_items}")
        return tuple(parse_item(f"{path}[{i}]", item) for i, item in enumerate(value))

    return field(metadata={"parse": parse})


def _parse_part(cls: type, path: str, value: object) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: an object")
    expected = {f.name: f.metadata["parse"] for f in fields(cls)}
    if value.keys() != expected.keys():
        wrong = sorted(value.keys() ^ expected.keys())
        raise ProtocolError(f"{path}: missing or unknown {wrong!r:.120}; allowed: exactly {', '.join(expected)}")
    return cls(**{name: parse(f"{path}.{name}", value[name]) for name, parse in expected.items()})


def part_parser(cls: type) -> Parser:
    """Parser of objects that become a dataclass `cls`, whose fields are made by this module too."""

    def parse(path: str, value: object) -> Any:
        return _parse_part(cls, path, value)

    return parse


def part(cls: type, default: object = MISSING) -> Any:
    """A field that is an object (see `part_parser`). `default` serves the sender only: packets have all fields."""
    return field(default=default, metadata={"parse": part_parser(cls)})


def parsed(parser: Parser) -> Any:
    """A field of any other kind, parsed by `parser`."""
    return field(metadata={"parse": parser})


def _parse_scalars(path: str, value: object) -> dict[str, Scalar]:
    if not isinstance(value, dict) or len(value) > 64:
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: an object of at most 64 keys")
    for key, item in value.items():
        if not isinstance(item, str | int | float | bool | None):
            raise ProtocolError(f"{path}.{key} is {item!r:.80}; allowed: a string, number, boolean or null")
    chars = sum(len(text) for pair in value.items() for text in pair if isinstance(text, str))
    if chars > MAX_SCALAR_CHARS:
        raise ProtocolError(f"{path} holds {chars} characters; allowed: {MAX_SCALAR_CHARS}")
    return cast("dict[str, Scalar]", value)


def scalars() -> Any:
    """A field that is a flat object: names to strings, numbers, booleans or null."""
    return field(metadata={"parse": _parse_scalars})


# --------------------------------------------------------------------------------------------------
# Packets
# --------------------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    """Turns `value` into what json can write."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(cast("Any", value))}
    return dict(value) if isinstance(value, Mapping) else value


def encode(message: Sendable) -> bytes:
    """Packs `message`.

    :raise ProtocolError: the packet would be longer than `MAX_PACKET_BYTES`.
    """
    body = cast("dict[str, object]", _plain(message))
    packet = json.dumps({"type": message.TYPE, **body}, separators=(",", ":")).encode()
    if len(packet) > MAX_PACKET_BYTES:
        raise ProtocolError(f"a {message.TYPE} of {len(packet)} bytes; allowed: {MAX_PACKET_BYTES}")
    return packet


def _reject_constant(name: str) -> float:
    raise ProtocolError(f"the packet holds {name}; allowed: finite numbers")


def decode(packet: bytes, allowed: Iterable[type[_M]]) -> _M:
    """Parses `packet`, which must hold one of the `allowed` types.

    :raise ProtocolError: it does not. Nothing that a peer sends raises any other exception.
    """
    try:
        value = json.loads(packet.decode(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a packet of {len(packet)} bytes is not JSON: {error!s:.120}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"the packet is {value!r:.80}; allowed: an object")
    name = value.pop("type", None)
    for cls in allowed:
        if name == cls.TYPE:
            return cast("_M", _parse_part(cls, cls.TYPE, value))
    raise ProtocolError(f"type is {name!r:.80}; allowed: {', '.join(cls.TYPE for cls in allowed)}")


def close_fds(fds: Iterable[int]) -> None:
    """Closes descriptors that came with a message and are not needed."""
    for fd in fds:
        os.close(fd)


def _with_fds(message: _M, fds: tuple[int, ...]) -> _M:
    """Returns `message` if the number of `fds` is right for it."""
    if len(fds) != message.num_fds():
        raise ProtocolError(f"{message.TYPE} with {len(fds)} fds; allowed: {message.num_fds()}")
    return message


def send(sock: socket.socket, message: Sendable, fds: tuple[int, ...]) -> None:
    """Sends `message` with copies of `fds`, which stay the caller's.

    :raise OSError: as ``sendmsg``; ``BlockingIOError`` when the socket is non-blocking and full.
    """
    _with_fds(message, fds)
    if fds:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        sock.sendmsg([encode(message)], [rights], socket.MSG_NOSIGNAL)
    else:
        sock.send(encode(message), socket.MSG_NOSIGNAL)  # workers may not call sendmsg


def _check_whole(flags: int, max_fds: int) -> None:
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ProtocolError(f"a packet over {MAX_PACKET_BYTES} bytes or {max_fds} fds")


def receive(sock: socket.socket, allowed: tuple[type[_M], ...], max_fds: int) -> tuple[_M, tuple[int, ...]] | None:
    """Receives a message of the `allowed` types and its fds, which become the caller's; None at the end of the stream.

    :raise ProtocolError: the peer sent something else; any fds are closed.
    :raise OSError: as ``recvmsg``; ``BlockingIOError`` when non-blocking and nothing is there.
    """
    packet, fds, flags = receive_with_fds(sock, MAX_PACKET_BYTES, max_fds)
    if not packet:
        close_fds(fds)
        return None
    try:
        _check_whole(flags, max_fds)
        return _with_fds(decode(packet, allowed), fds), fds
    except ProtocolError:
        close_fds(fds)
        raise
