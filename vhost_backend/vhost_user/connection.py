"""vhost-user connection: a byte stream cut into messages, with their file descriptors.

The socket is non-blocking and all waiting happens on the running asyncio loop, so that a frontend that sends half a
message, or never reads its replies, delays only itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from vhost_backend.errors import FrontendError
from vhost_backend.fds import FdBag
from vhost_backend.sockets import receive_with_fds
from vhost_backend.vhost_user import messages


@dataclass(frozen=True, slots=True)
class Message:
    """Parsed message. It owns its descriptors: use it as a context manager."""

    header: messages.Header
    payload: messages.Payload
    fds: FdBag

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fds.close()


class Connection(Protocol):
    """Connection to a frontend, as a session uses it."""

    async def receive(self) -> Message | None:
        """Receives the next message; None when the frontend closed the connection between two messages.

        :raise FrontendError: the message is malformed, or the connection ended in the middle of it. The
            stream cannot be trusted after that. Its descriptors are closed.
        """
        ...

    async def answer(self, data: bytes) -> None:
        """Ends the message that was received last, of which all consequences count now: sends `data`, if there is any.

        :raise OSError: the frontend is gone.
        """
        ...

    def close(self) -> None: ...


class SocketConnection:
    """Frames messages on `sock`, which it owns from now on. A context manager. Implements `Connection`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    async def receive(self) -> Message | None:
        """Receives the next message; None when the frontend closed the connection between two messages.

        :raise FrontendError: the message is malformed, or the connection ended in the middle of it. The
            stream cannot be trusted after that. Its descriptors are closed.
        """
        fds = FdBag()
        try:
            raw = await self._read(messages.HEADER_BYTES, fds, "header", may_end=True)
            if not raw:
                return None
            header = messages.parse_header(raw)
            body = await self._read(header.size_bytes, fds, header.request.name, may_end=False)
            return parsed(header, body, fds)
        except BaseException:
            fds.close()
            raise

    async def answer(self, data: bytes) -> None:
        """Sends all of `data`.

        :raise OSError: the frontend is gone.
        """
        rest = memoryview(data)
        while rest:
            try:
                sent = self._sock.send(rest, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self._sock, loop.add_writer, loop.remove_writer)
            else:
                rest = rest[sent:]

    async def _read(self, size: int, fds: FdBag, what: str, *, may_end: bool) -> bytes:
        """Reads `size` bytes; b"" if the stream ended before the first byte and `may_end`. Descriptors go to `fds`."""
        data = bytearray()
        while len(data) < size:
            part = await self._read_some(size - len(data), fds, what)
            if not part and may_end and not data:
                break
            if not part:
                raise ended_early(what, len(data), size)
            data += part
        return bytes(data)

    async def _read_some(self, size: int, fds: FdBag, what: str) -> bytes:
        while True:
            try:
                part, numbers, flags = receive_with_fds(self._sock, size, messages.MAX_FDS)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self._sock, loop.add_reader, loop.remove_reader)
            except ConnectionError:
                return b""
            else:
                fds.extend(numbers)
                if flags & socket.MSG_CTRUNC or len(fds) > messages.MAX_FDS:
                    raise too_many_fds(what)
                return part

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parsed(header: messages.Header, body: bytes, fds: FdBag) -> Message:
    """The message, which owns `fds` from now on.

    :raise FrontendError: the payload, or the number of descriptors, is wrong for such a message.
    """
    return Message(header, messages.parse_payload(header, body, len(fds)), fds)


def ended_early(what: str, size_bytes: int, wanted_bytes: int) -> FrontendError:
    """The error for a connection that has ended in the middle of `what`."""
    return FrontendError(what, "bytes before the connection ended", size_bytes, str(wanted_bytes))


def too_many_fds(what: str) -> FrontendError:
    """The error for more descriptors than any message has."""
    return FrontendError(what, "number of fds", f"more than {messages.MAX_FDS}", f"at most {messages.MAX_FDS}")


async def _ready(sock: socket.socket, add: Callable[..., Any], remove: Callable[[socket.socket], bool]) -> None:
    """Waits until `sock` can be read or written, depending on `add` and `remove`."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    add(sock, wake)
    try:
        await future
    finally:
        remove(sock)
