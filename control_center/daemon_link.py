"""Client of a daemon's control API: one connection (`Connection`), and a link that reconnects (`DaemonLink`).

The control centre and ``vgcctl --daemon`` share this module. The daemon is not trusted: frames are bounded and checked;
an answer to no request, or a frame that is neither answer nor push, ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from control_center.address import Address, Credentials, UnixAddress
from control_center.answers import Push, decoded, push_of
from control_center.errors import RefusedError, UnreachableError
from virtio_proto.control import frames, shapes
from virtio_proto.control.api import API_VERSION, HelloInfo
from virtio_proto.control.frames import Frame, FrameError
from virtio_proto.control.shapes import ShapeError
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.session import Hello

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""Default time to wait for an answer: long enough for the migration of a VM."""
MAX_OUTSTANDING: Final = 256
"""Most requests of one connection that wait for answers; further ones are refused as ``busy``."""
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0

PushHandler = Callable[[Push], None]


class _FromDaemon(msgspec.Struct):
    """Parts of a frame that are looked at before its type is known."""

    id: Any = None
    ok: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Any = None
    push: Any = None


_FROM_DAEMON: Final = msgspec.msgpack.Decoder(_FromDaemon)


class Connection:
    """Connection to a daemon; `connect` makes it and exchanges ``hello``.

    `on_push` is called for every push of a known kind, from the event loop, and must not wait.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_push: PushHandler) -> None:
        self._reader = reader
        self._writer = writer
        self._on_push = on_push
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._given_up: set[int] = set()
        self.hello: HelloInfo
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended; its result is the reason, for people."""
        self._task = asyncio.create_task(self._read())

    async def ask(self, request: Request, timeout_s: float | None = None) -> Any:
        """Sends a verb's request; returns the daemon's answer, checked against the verb's `Answer`.

        :raise RefusedError: the daemon refused; with its kind and text.
        :raise UnreachableError: the daemon does not answer in time, or its answer is malformed.
        """
        verb = request.verb
        limit_s = verb.deadline_s(request) if timeout_s is None else timeout_s
        return decoded(verb, await self.call(verb.name, request.given(), limit_s))

    async def call(
        self, verb: str, fields: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S
    ) -> msgspec.Raw:
        """Sends a request; returns the daemon's answer as MessagePack.

        :raise RefusedError: the daemon refused; with its kind and text.
        :raise UnreachableError: the connection ended first, or no answer came in time.
        """
        if self.closed.done():
            raise UnreachableError(self.closed.result())
        if len(self._waiting) + len(self._given_up) >= MAX_OUTSTANDING:
            raise RefusedError("busy", f"{MAX_OUTSTANDING} requests to this daemon wait for answers already")
        number = next(self._numbers)
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(_encoded({"id": number, "do": verb, "with": dict(fields or {})}))
                await self._writer.drain()
                return await answer
        except TimeoutError:
            raise UnreachableError(f"no answer to {verb} within {timeout_s:g} s") from None
        except OSError as error:
            raise UnreachableError(f"the connection broke: {error}") from None
        finally:
            if self._waiting.pop(number, None) is not None and not self.closed.done():
                self._given_up.add(number)

    async def close(self) -> None:
        """Ends the connection; requests that wait for answers fail. Has ended it also if the caller is cancelled meanwhile."""
        self._task.cancel()
        self._end("the connection was closed")
        await asyncio.wait([self._task])  # its own cancellation is not the caller's
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        reason = "the daemon hung up"
        try:
            while (body := await frames.read_body(self._reader)) is not None:
                self._take(body)
        except FrameError as error:
            reason = f"the daemon sent {error}"
        except OSError as error:
            reason = f"the connection broke: {error}"
        except Exception as error:  # noqa: BLE001  a daemon's frames must not end more than its connection
            reason = f"a frame of the daemon could not be processed: {type(error).__name__}: {str(error)[:200]}"
        self._end(reason)

    def _take(self, body: bytes) -> None:
        """:raise FrameError: the frame is neither a valid push nor the answer to a request."""
        frame = opened(body)
        if isinstance(frame.push, str):
            push = push_of(frame.push, body)
            if push is not None:
                self._on_push(push)
            return
        number = frame.id
        if isinstance(number, int) and number in self._given_up:
            self._given_up.discard(number)
            return
        answer = self._waiting.pop(number, None) if isinstance(number, int) else None
        if answer is None:
            raise FrameError(f"a frame with id {number!r:.40}; allowed: a push, or the number of a request")
        if answer.done():
            return
        match frame.error:
            case None if frame.ok is not msgspec.UNSET:
                answer.set_result(frame.ok)
            case {"kind": str(kind), "text": str(text)}:
                answer.set_exception(RefusedError(kind, text[:4096]))
            case _:
                answer.set_exception(UnreachableError("the daemon's answer has neither ok nor error"))

    def _end(self, reason: str) -> None:
        if self.closed.done():
            return
        self.closed.set_result(reason)
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(UnreachableError(reason))
        self._writer.close()


def opened(body: bytes) -> _FromDaemon:
    """:raise FrameError: `body` is not a frame."""
    frames.check_parts(body)
    try:
        return _FROM_DAEMON.decode(body)
    except RecursionError:
        raise FrameError("a frame that is nested too deeply") from None
    except msgspec.MsgspecError as error:
        frames.decode(body)  # says what is wrong
        raise FrameError(f"a frame that is wrong: {error}") from None


def _encoded(frame: Frame) -> bytes:
    try:
        return frames.encode(frame)
    except FrameError as error:
        raise RefusedError("malformed", f"the request is {error}") from None


def skew_ns(told_ns: int, asked_ns: int, answered_ns: int) -> int:
    """Part of the difference of two clocks that is sure: the host told its time at some point between both of ours."""
    return min(0, told_ns - asked_ns) or max(0, told_ns - answered_ns)


async def connect(
    address: Address,
    credentials: Credentials | None = None,
    on_push: PushHandler = lambda _push: None,
    timeout_s: float = CONNECT_S,
) -> Connection:
    """Connects and exchanges ``hello``; `Connection.hello` is the daemon's answer.

    :raise RefusedError: "denied": the daemon does not accept the credentials.
    :raise UnreachableError: no daemon of this version answers there.
    """
    credentials = credentials or Credentials()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = Connection(*await _streams(address, credentials), on_push)
            request = Hello.Request(version=API_VERSION, token=credentials.token)
            connection.hello = _greeting(await connection.call("hello", request.given()))
            return connection
    except TimeoutError:
        error: Exception = UnreachableError(f"{address} does not answer within {timeout_s:g} s")
    except OSError as problem:  # includes ssl.SSLError
        who = "; allowed: the daemon's user and root" if isinstance(problem, PermissionError) else ""
        error = UnreachableError(f"{address} cannot be reached: {problem.strerror or problem}{who}")
    except RefusedError as problem:
        error = problem
    if connection is not None:
        await connection.close()
    raise error


async def _streams(address: Address, credentials: Credentials) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(address, UnixAddress):
        return await asyncio.open_unix_connection(address.path)
    context = credentials.context()
    return await asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=address.host)


def _greeting(answer: msgspec.Raw) -> HelloInfo:
    """:raise UnreachableError: `answer` is no greeting, or comes from another version."""
    try:
        hello: HelloInfo = shapes.decoded(answer, Hello.Answer, "hello")
    except ShapeError as error:
        text = f"another program than vgcd answers there: its hello is wrong: {error}"
        raise UnreachableError(text) from None
    if hello["version"] != API_VERSION:
        raise UnreachableError(
            f"the daemon speaks version {hello['version']} of the control API; allowed: {API_VERSION}"
        )
    return hello


class DaemonLink:
    """Link to a daemon that connects again whenever its connection ends, after pauses that double from 0.2 s to 10 s.

    `on_up` is awaited after each ``hello``, before anything else is called; a `RefusedError` from it ends the attempt.
    `on_down` is called with the reason when a connection has ended or could not be made.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials | None = None,
        *,
        on_push: PushHandler,
        on_up: Callable[[Connection], Awaitable[None]],
        on_down: Callable[[str], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self._on_push = on_push
        self._on_up = on_up
        self._on_down = on_down
        self._pause = pause
        self._connection: Connection | None = None
        self._reason = "not connected yet"

    async def ask(self, request: Request, timeout_s: float | None = None) -> Any:
        """Asks on the present connection, as `Connection.ask` does.

        :raise UnreachableError: the link is not connected; with the reason.
        """
        if self._connection is None:
            raise UnreachableError(self._reason)
        return await self._connection.ask(request, timeout_s)

    async def run(self) -> None:
        """Connects again and again until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            if await self._once():
                pause_s = FIRST_PAUSE_S
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self) -> bool:
        """Makes one connection and waits for its end; True if it was made."""
        try:
            connection = await connect(self.address, self._credentials, self._on_push)
        except RefusedError as error:
            self._lost(error.text)
            return False
        try:
            await self._on_up(connection)
            self._connection = connection
            self._lost(await asyncio.shield(connection.closed))
            return True
        except RefusedError as error:
            self._lost(error.text)
            return False
        finally:
            self._connection = None
            await connection.close()

    def _lost(self, reason: str) -> None:
        self._connection = None
        self._reason = reason
        self._on_down(reason)
