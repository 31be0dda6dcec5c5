"""Daemon's end of the connection to one worker.

Nothing here blocks: messages that the socket does not take at once wait in a bounded queue. Workers are not trusted: a
worker that breaks the protocol, does not read, or does not answer in time is reported as lost, and its owner kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from vhost_backend.worker_protocol import codec, protocol
from vhost_backend.worker_protocol.protocol import Ack, DaemonMessage, Ready, WorkerMessage

MAX_QUEUED: Final = 1024
MAX_MESSAGES_PER_TURN: Final = 8
BURST: Final = 1024
PER_SECOND: Final = 2000.0
"""Rate of messages above what a busy guest's programs cause; a worker that sends more is read more slowly."""

PAUSE_S: Final = 0.01
"""Time until a link that sent too many messages is read again."""

ACK_TIMEOUT_S: Final = 10.0
"""Longer than any message takes a healthy worker, opening an engine on the host's processors included."""

TURNS: Final = 4
"""Turns of the event loop that a task needs at most, from its start or an answer, until it posts a message."""

GPU_TIMEOUT_S: Final = 60.0
"""Timeout of `Setup` on a GPU: longer than a worker takes to open a GPU that was asleep."""

SETUP_SEQ: Final = 1
"""Seq of `Setup`, the first message of a link; `Ready` answers it."""

Build: TypeAlias = Callable[[int], DaemonMessage]
"""Makes the message for a given seq."""

Answer: TypeAlias = asyncio.Future[Ack | None]
"""Ack of a worker; None if the worker was lost before it answered."""


class WorkerLink:
    """Sends messages to a worker and matches its acks; owns `sock`.

    `on_message` gets every other message, with descriptors that it then owns. `on_lost` is called once, with the
    reason, when the link can no longer be used; not after `close`.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[WorkerMessage, tuple[int, ...]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._seq = 0
        self._queue: deque[tuple[DaemonMessage, tuple[int, ...]]] = deque()
        self._budget = float(BURST)
        self._read_at = self._loop.time()
        self._pending: dict[int, tuple[Answer, asyncio.TimerHandle]] = {}
        self._retry: asyncio.TimerHandle | None = None
        self.closed = False
        self._loop.add_reader(sock, self._read)

    def post(self, build: Build, fds: tuple[int, ...] = (), timeout_s: float | None = None) -> Answer:
        """Sends a message with copies of `fds`; the result is its ack, or None if the worker was lost before.

        A worker that does not answer within `timeout_s` (default `ACK_TIMEOUT_S`) counts as lost.
        """
        self._seq += 1
        seq = self._seq
        answer: Answer = self._loop.create_future()
        if self.closed:
            answer.set_result(None)
            return answer
        timeout_s = ACK_TIMEOUT_S if timeout_s is None else timeout_s
        timer = self._loop.call_later(timeout_s, self._lose, f"did not answer within {timeout_s:g} s")
        self._pending[seq] = (answer, timer)
        self._send(build(seq), fds)
        return answer

    def tell(self, build: Build, fds: tuple[int, ...] = ()) -> None:
        """Sends a message that is never answered."""
        self._seq += 1
        if not self.closed:
            self._send(build(self._seq), fds)

    async def quiet(self, patience_s: float) -> None:
        """Waits until every posted message is answered and the answers have caused no new one; at most `patience_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._turns()
                while answers := [answer for answer, _ in self._pending.values()]:
                    await asyncio.wait(answers)
                    await self._turns()

    @staticmethod
    async def _turns() -> None:
        """Lets tasks that have just started, or been woken by an answer, post their messages."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def answered(self, seq: int, ack: Ack | None) -> bool:
        """Settles the future that `post` returned for `seq`; False if there is no such future."""
        answer, timer = self._pending.pop(seq, (None, None))
        if answer is None or timer is None:
            return False
        timer.cancel()
        if not answer.done():
            answer.set_result(ack)
        return True

    def drain(self) -> None:
        """Handles everything that a worker has sent before it died."""
        while not self.closed and self._read_one():
            pass

    def close(self) -> None:
        """Closes the socket and drops queued messages; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        if self._retry is not None:
            self._retry.cancel()
        self._sock.close()
        while self._queue:
            codec.close_fds(self._queue.popleft()[1])
        for seq in list(self._pending):
            self.answered(seq, None)

    def _lose(self, reason: str) -> None:
        if not self.closed:
            self.close()
            self._on_lost(reason)

    # ---- sending ---------------------------------------------------------------------------------

    def _send(self, message: DaemonMessage, fds: tuple[int, ...]) -> None:
        if self._queue or not self._try_send(message, fds):
            self._enqueue(message, fds)

    def _try_send(self, message: DaemonMessage, fds: tuple[int, ...]) -> bool:
        """Sends a message; False if it must be sent later. Returns True for a dead worker: the reader will notice."""
        try:
            protocol.send_to_worker(self._sock, message, fds)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in codec.FOR_A_MOMENT:
                self._retry = self._loop.call_later(codec.RETRY_S, self._write_on)
                return False
        return True

    def _enqueue(self, message: DaemonMessage, fds: tuple[int, ...]) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._loop.call_soon(self._lose, f"left {MAX_QUEUED} messages unread")
            return
        self._queue.append((message, tuple(os.dup(fd) for fd in fds)))
        if self._retry is None:
            self._loop.add_writer(self._sock, self._flush)

    def _write_on(self) -> None:
        self._retry = None
        self._loop.add_writer(self._sock, self._flush)

    def _flush(self) -> None:
        while self._queue:
            message, fds = self._queue[0]
            if not self._try_send(message, fds):
                if self._retry is not None:
                    self._loop.remove_writer(self._sock)
                return
            self._queue.popleft()
            codec.close_fds(fds)
        self._loop.remove_writer(self._sock)

    # ---- receiving -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Handles messages that have arrived, within a budget, so that other VMs do not wait."""
        now = self._loop.time()
        self._budget = min(BURST, self._budget + (now - self._read_at) * PER_SECOND)
        self._read_at = now
        if self._budget < MAX_MESSAGES_PER_TURN:
            self._loop.remove_reader(self._sock)
            self._loop.call_later(PAUSE_S, self._read_on)
            return
        for _ in range(MAX_MESSAGES_PER_TURN):
            if self.closed or not self._read_one():
                return
            self._budget -= 1

    def _read_on(self) -> None:
        if not self.closed:
            self._loop.add_reader(self._sock, self._read)

    def _read_one(self) -> bool:
        try:
            received = protocol.receive_from_worker(self._sock)
        except BlockingIOError:
            return False
        except codec.ProtocolError as error:
            self._lose(f"broke the protocol: {error}")
            return False
        except OSError as error:
            self._lose(f"connection failed: {error.strerror}")
            return False
        if received is None:
            self._lose("closed its connection")
            return False
        self._dispatch(*received)
        return True

    def _dispatch(self, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        if isinstance(message, Ready) and not self.answered(SETUP_SEQ, None):
            self._lose("broke the protocol: ready twice")
        elif not isinstance(message, Ack):
            self._on_message(message, fds)
        elif not self.answered(message.seq, message):
            self._lose(f"broke the protocol: ack of {message.seq}, which was not sent")
