"""Connection of a peer to the control API: reads requests, writes answers and pushes, within bounds.

No more requests of a peer are read while `MAX_OUTSTANDING` are under way or `MAX_UNREAD_BYTES` of answers are unread.
Pushes that the peer does not take in time are dropped and counted. A malformed request gets an answer; bytes that are
not a frame end the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any, Final, Protocol

from vhost_backend.control.api.access import Peer
from vhost_backend.control.api.commands import Caller, Commands
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.log import Logger
from virtio_proto.control import frames
from virtio_proto.control.frames import Frame, FrameError

HELLO_S: Final = 10.0
HELLO_BYTES: Final = 4096
CHECK_S: Final = 1.0
"""Period of checks that the peer may stay connected; each of its requests is checked, too."""

MAX_REQUEST_BYTES: Final = 1 << 20
MAX_ADMIN_REQUEST_BYTES: Final = 9 << 20
"""Bound for requests of admins, which may carry a firmware image. Decoded, a request may take many times its length."""

MAX_OUTSTANDING: Final = 32
MAX_UNREAD_BYTES: Final = 1 << 20
MAX_UNREAD_PUSHES_BYTES: Final = 4 << 20
MAX_ID: Final = (1 << 63) - 1


class Gate(Protocol):
    """Authentication of a connection's peer."""

    def greet(self, frame: Frame) -> tuple[Peer, dict[str, Any]]:
        """Authenticates the sender of a ``hello``; returns the peer and the answer.

        :raise RefusedError: the peer is not let in.
        """
        ...

    def check(self) -> None:
        """:raise RefusedError: the peer's token has expired, is gone, or has other rights now."""
        ...


_numbers = itertools.count(1)


class Connection:
    """Serves one peer until it hangs up or violates the protocol."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        commands: Commands,
        hub: PushHub,
        log: Logger,
    ) -> None:
        self.number = next(_numbers)
        self._reader = reader
        self._writer = writer
        self._commands = commands
        self._hub = hub
        self._log = log
        self._checking: asyncio.TimerHandle | None = None
        self._peer: Peer | None = None
        self._room = asyncio.Semaphore(MAX_OUTSTANDING)
        self._tasks: set[asyncio.Task[None]] = set()
        writer.transport.set_write_buffer_limits(high=MAX_UNREAD_BYTES)

    # ---- the hub's Subscriber --------------------------------------------------------------------

    def push(self, frame: Frame) -> bool:
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD_PUSHES_BYTES or self._writer.is_closing():
            return False
        try:
            self._writer.write(frames.encode(frame))
        except FrameError as error:
            self._log.warning("push_dropped", error=str(error), guest=True)
            return False
        return True

    def sees(self, vm: str | None) -> bool:
        return self._peer is not None and self._peer.sees(vm)

    # ---- serving ---------------------------------------------------------------------------------

    async def serve(self, gate: Gate) -> None:
        """Serves the connection; returns when it has ended and all its requests have been answered or given up."""
        try:
            self._peer = await self._hello(gate)
            if self._peer is not None:
                self._check_on(gate)
                await self._requests(Caller(self._peer, self.number, self), gate)
        except FrameError as error:
            self._log.warning("control_peer_dropped", error=str(error), guest=True)
        except (OSError, EOFError) as error:
            self._log.info("control_peer_lost", error=str(error), guest=True)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            raise
        finally:
            if self._checking is not None:
                self._checking.cancel()
            self._hub.unsubscribe(self)
            await self._end()

    def _check_on(self, gate: Gate) -> None:
        """Hangs up on a peer that may not stay. A timer, as a peer may only listen and send no requests."""
        try:
            gate.check()
        except RefusedError as error:
            self._log.warning("control_peer_dropped", error=str(error), guest=True)
            self._writer.transport.abort()
            return
        self._checking = asyncio.get_running_loop().call_later(CHECK_S, self._check_on, gate)

    async def _end(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _hello(self, gate: Gate) -> Peer | None:
        """Reads and answers ``hello``, which must come first, soon and short; None: the connection is to end."""
        try:
            async with asyncio.timeout(HELLO_S):
                frame = await frames.read(self._reader, HELLO_BYTES)
        except TimeoutError:
            raise FrameError(f"no hello within {HELLO_S:g} s") from None
        if frame is None:
            return None
        try:
            number = _number(frame)
        except RefusedError as error:
            raise FrameError(str(error)) from None
        try:
            if frame.get("do") != "hello":
                raise RefusedError("malformed", f"the first request is {frame.get('do')!r:.80}; allowed: hello")  # noqa: TRY301
            peer, answer = gate.greet(frame)
        except RefusedError as error:
            self._log.warning("control_peer_refused", error=str(error), guest=True)
            await self._send({"id": number, "error": {"kind": error.kind, "text": str(error)}})
            return None
        self._log.info("control_peer_connected", peer=peer.name, role=peer.role, guest=True)
        await self._send({"id": number, "ok": answer})
        return peer

    async def _requests(self, caller: Caller, gate: Gate) -> None:
        most = MAX_ADMIN_REQUEST_BYTES if caller.peer.role == "admin" else MAX_REQUEST_BYTES
        while (frame := await frames.read(self._reader, most)) is not None:
            try:
                number = _number(frame)
            except RefusedError as error:
                raise FrameError(str(error)) from None
            await self._room.acquire()
            task = asyncio.ensure_future(self._answer(caller, gate, number, frame))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            await self._writer.drain()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            self._log.error("control_command_failed", error=repr(error))

    async def _answer(self, caller: Caller, gate: Gate, number: int, frame: Frame) -> None:
        """Carries out a request and answers it, once the peer has read enough of its earlier answers."""
        while self._writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            await self._writer.drain()
        try:
            gate.check()
            answer: Frame = {"id": number, "ok": await self._commands.do(caller, frame.get("do"), frame.get("with"))}
        except RefusedError as error:
            answer = {"id": number, "error": {"kind": error.kind, "text": str(error)}}
        except Exception:  # noqa: BLE001  a bug of ours must cost only this request its answer
            self._log.exception("control_command_failed", verb=str(frame.get("do"))[:40])
            answer = {"id": number, "error": {"kind": "failed", "text": "an error in the daemon, see its log"}}
        await self._send(answer)

    async def _send(self, frame: Frame) -> None:
        try:
            data = frames.encode(frame)
        except FrameError as error:
            text = f"the answer is {error}: ask for less"
            data = frames.encode({"id": frame["id"], "error": {"kind": "failed", "text": text}})
        if not self._writer.is_closing():
            self._writer.write(data)
            await self._writer.drain()


def _number(frame: Frame) -> int:
    """Number of a request.

    :raise RefusedError: the number is missing or wrong, so that no answer can be sent.
    """
    number = frame.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ID:
        raise RefusedError("malformed", f"id is {number!r:.80}; allowed: an integer of 0 to 2**63-1")
    return number
