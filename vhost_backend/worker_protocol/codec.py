"""Codec of messages: typed structs to packets of MessagePack and back, with file descriptors beside them.

A packet is the name of a message's type, a NUL, and the message's fields as one MessagePack array in the order of
declaration. Guest code may have written all of it. So a packet's length is checked against the bound of its type before
anything is decoded, and msgspec decodes straight to the declared types: it builds nothing else, stops at the first value
that does not fit, and an array has no fields that a packet could repeat. Decoding takes time in proportion to the
packet's length, a few hundred microseconds for the worst packet (`tests/hostile/test_worst_packets.py` looks for it).

A message is a subclass of `Message`, whose fields have the types of this module or such as bounded in the same way.
`vhost_backend.worker_protocol.protocol` declares the messages.
"""

from __future__ import annotations

import array
import errno
import functools
import os
import re
import socket
import sys
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from vhost_backend.sockets import receive_with_fds

MAX_PACKET_BYTES: Final = 64 << 10
MAX_TYPE_BYTES: Final = 32
"""Longest name of a type."""

FOR_A_MOMENT: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""Errors of sending that end by themselves: too many descriptors of this user in flight, or no memory."""
RETRY_S: Final = 0.01
"""Time until a message that met such an error is sent again."""

U16: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
U32: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
U62: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
U64: TypeAlias = Annotated[int, Meta(ge=0)]
"""MessagePack has no larger numbers."""
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 62) - 1)]
Real: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Finite number."""

Scalar: TypeAlias = str | int | Real | bool | None
Scalars: TypeAlias = Annotated[dict[str, Scalar], Meta(max_length=64)]
"""Flat object: names to strings, numbers, booleans or null."""


_ELEMENTS: Final = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], Meta(max_length=256)])
_SCALAR: Final = msgspec.msgpack.Decoder(str | int | float | bool | None)


class ProtocolError(Exception):
    """The peer sent something that is not in the protocol; the text says what, and what is allowed."""


class Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Piece of a message or of a file that a worker writes. Fields are checked when it is decoded, not when it is made."""


class Message(Part, frozen=True):
    """Base of all messages."""

    TYPE: ClassVar[str]
    MAX_BYTES: ClassVar[int] = MAX_PACKET_BYTES
    """Longest packet of this type."""

    def num_fds(self) -> int:
        """Number of descriptors that go with the message."""
        return 0


_P = TypeVar("_P", bound=Part)
_M = TypeVar("_M", bound=Message)


# --------------------------------------------------------------------------------------------------
# Fields
# --------------------------------------------------------------------------------------------------


def pack(part: Part) -> bytes:
    """Packs the fields of `part`.

    :raise ProtocolError: a number has more than 64 bits, or a text has no UTF-8 form.
    """
    try:
        return msgspec.msgpack.encode(part)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ProtocolError(f"a {type(part).__name__} that cannot be packed: {error!s:.80}") from None


def unpack(body: bytes | memoryview, kind: type[_P], where: str) -> _P:
    """Unpacks what `pack` has made of a `kind`; `where` names it in errors.

    :raise ProtocolError: `body` is anything else. Nothing that a peer sends raises any other exception.
    """
    try:
        return cast("_P", _decoder(kind).decode(body))
    except msgspec.ValidationError as error:
        raise ProtocolError(_problem(str(error), body, kind, where)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{where}: {len(body)} bytes that are not MessagePack: {error!s:.80}") from None


@functools.cache
def _decoder(kind: type[Part]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def _problem(found: str, body: bytes | memoryview, kind: type[Part], where: str) -> str:
    """Rewrites an error of msgspec, which counts fields, so that it names the field, its value and what is allowed."""
    text, _, path = found.partition(" - at `$")
    value: bytes | memoryview | msgspec.Raw | None = body
    of: Any = kind
    for step in re.findall(r"\[(\d+|\.\.\.)\]", path):
        where, of = _inner(of, step, where)
        value = _element(value, step)
    allowed = text.removeprefix("Expected ").partition(", got ")[0]
    if isinstance(of, type) and issubclass(of, Part):
        allowed = f"{allowed}: {', '.join(of.__struct_fields__) or 'nothing'}"
    return f"{where}{_shown(value)}; allowed: {allowed}"


def _element(array: bytes | memoryview | msgspec.Raw | None, step: str) -> msgspec.Raw | None:
    """Element of a packed array, itself packed; None if there is no such element, or the array is long."""
    try:
        return None if array is None else _ELEMENTS.decode(array)[int(step)]
    except (msgspec.MsgspecError, RecursionError, ValueError, IndexError):
        return None


def _shown(value: bytes | memoryview | msgspec.Raw | None) -> str:
    """Packed value for the text of an error. Lists and maps are not shown, because guest code may have made them large."""
    try:
        return "" if value is None else f" is {_SCALAR.decode(value)!r:.80}"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return " is a list or a map"


def _inner(of: Any, step: str, where: str) -> tuple[str, Any]:
    """Place and type of an element of a value of type `of`."""
    if isinstance(of, type) and issubclass(of, Part):
        inner = msgspec.structs.fields(of)[int(step)]
        return f"{where}.{inner.name}", _bare(inner.type)
    items = get_args(of)
    return f"{where}[{step}]", _bare(items[-1] if get_origin(of) is dict else items[0]) if items else Any


def _bare(of: Any) -> Any:
    """Type without its bounds."""
    return get_args(of)[0] if get_origin(of) is Annotated else of


# --------------------------------------------------------------------------------------------------
# Packets
# --------------------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """Packs `message`.

    :raise ProtocolError: the packet would be longer than allowed for its type, or as `pack`.
    """
    packet = message.TYPE.encode() + b"\0" + pack(message)
    _check_length(packet, type(message))
    return packet


def decode(packet: bytes, allowed: tuple[type[_M], ...]) -> _M:
    """Unpacks `packet`, which must hold one of the `allowed` types.

    :raise ProtocolError: it does not. Nothing that a peer sends raises any other exception.
    """
    end = packet.find(b"\0", 0, MAX_TYPE_BYTES + 1)
    name = packet[:end] if end >= 0 else packet[:MAX_TYPE_BYTES]
    kind = _by_name(allowed).get(name)
    if kind is None or end < 0:
        raise ProtocolError(f"type is {name!r:.80}; allowed: {', '.join(each.TYPE for each in allowed)}")
    _check_length(packet, kind)
    return unpack(memoryview(packet)[end + 1 :], cast("type[_M]", kind), kind.TYPE)


@functools.cache
def _by_name(allowed: tuple[type[Message], ...]) -> dict[bytes, type[Message]]:
    return {kind.TYPE.encode(): kind for kind in allowed}


def _check_length(packet: bytes, kind: type[Message]) -> None:
    if len(packet) > kind.MAX_BYTES:
        raise ProtocolError(f"a {kind.TYPE} of {len(packet)} bytes; allowed: {kind.MAX_BYTES}")


# --------------------------------------------------------------------------------------------------
# Sockets
# --------------------------------------------------------------------------------------------------


def close_fds(fds: Iterable[int]) -> None:
    """Closes descriptors that came with a message and are not needed."""
    for fd in fds:
        os.close(fd)


def _with_fds(message: _M, fds: tuple[int, ...]) -> _M:
    """Returns `message` if the number of `fds` is right for it."""
    if len(fds) != message.num_fds():
        raise ProtocolError(f"{message.TYPE} with {len(fds)} fds; allowed: {message.num_fds()}")
    return message


def send(sock: socket.socket, message: Message, fds: tuple[int, ...]) -> None:
    """Sends `message` with copies of `fds`, which stay the caller's.

    :raise OSError: as ``sendmsg``; ``BlockingIOError`` when the socket is non-blocking and full.
    """
    send_packet(sock, packet_of(message, fds), fds)


def packet_of(message: Message, fds: tuple[int, ...]) -> bytes:
    """Packs `message`, which is to go with `fds`.

    :raise ProtocolError: the number of `fds` is wrong for it, or as `encode`.
    """
    return encode(_with_fds(message, fds))


def send_packet(sock: socket.socket, packet: bytes, fds: tuple[int, ...]) -> None:
    """Sends a packet that `packet_of` has made for these `fds`, which stay the caller's.

    :raise OSError: as `send`.
    """
    if fds:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        sock.sendmsg([packet], [rights], socket.MSG_NOSIGNAL)
    else:
        sock.send(packet, socket.MSG_NOSIGNAL)  # workers may not call sendmsg


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
