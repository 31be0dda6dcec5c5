"""Daemon's end of the connection to one worker.

Nothing here blocks: messages that the socket does not take at once wait in a bounded queue, and a worker's messages are
read within a budget of time (`vhost_backend.worker_protocol.budgets`). Workers are not trusted: one that breaks the
protocol, does not read, or does not answer in time is reported as lost, with its `fault`, and its owner kills it.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import termios
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from vhost_backend.worker_protocol import budgets, codec, protocol
from vhost_backend.worker_protocol.budgets import PacedReader, TimeBudget
from vhost_backend.worker_protocol.protocol import Ack, DaemonMessage, Ready, WorkerMessage

ACK_TIMEOUT_S: Final = 10.0
"""Longer than any message takes a healthy worker, but for `Setup`."""

TURNS: Final = 4
"""Turns of the event loop that a task needs at most, from its start or an answer, until it posts a message."""

GPU_TIMEOUT_S: Final = 60.0
"""Longest that a worker does not answer because it opens a GPU that was asleep."""

SETUP_TIMEOUT_S: Final = 60.0
"""Timeout of `Setup`: longer than a worker takes to start beside a hundred others, or to open a GPU that was asleep."""

SETUP_SEQ: Final = 1
"""Seq of `Setup`, the first message of a link; `Ready` answers it."""

Build: TypeAlias = Callable[[int], DaemonMessage]
"""Makes the message for a given seq."""

Answer: TypeAlias = asyncio.Future[Ack | None]
"""Ack of a worker; None if the worker was lost before it answered."""


class Outbox:
    """Packets that a worker's socket has not taken yet, with copies of their descriptors; within a budget."""

    def __init__(self) -> None:
        self._packets: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self.num_bytes = 0
        self.num_fds = 0

    def __len__(self) -> int:
        return len(self._packets)

    def add(self, packet: bytes, fds: tuple[int, ...]) -> str:
        """Adds a packet with copies of `fds`; returns which budget it exceeds, "" if it was added."""
        num_bytes, num_fds = self.num_bytes + len(packet), self.num_fds + len(fds)
        if len(self._packets) >= budgets.QUEUE_MESSAGES:
            return f"{budgets.QUEUE_MESSAGES} messages"
        if num_bytes > budgets.QUEUE_BYTES:
            return f"{budgets.QUEUE_BYTES} bytes"
        if num_fds > budgets.QUEUE_FDS:
            return f"{budgets.QUEUE_FDS} descriptors"
        self._packets.append((packet, tuple(os.dup(fd) for fd in fds)))
        self.num_bytes, self.num_fds = num_bytes, num_fds
        return ""

    def flush(self, sock: socket.socket) -> bool:
        """Sends what the socket takes; True if nothing is left.

        :raise OSError: as ``sendmsg``, except that the socket is full.
        """
        while self._packets:
            packet, fds = self._packets[0]
            try:
                codec.send_packet(sock, packet, fds)
            except BlockingIOError:
                return False
            self._drop_first()
        return True

    def clear(self) -> None:
        """Drops all packets."""
        while self._packets:
            self._drop_first()

    def _drop_first(self) -> None:
        packet, fds = self._packets.popleft()
        self.num_bytes -= len(packet)
        self.num_fds -= len(fds)
        codec.close_fds(fds)


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
        time_budget: TimeBudget | None = None,
        *,
        first_seq: int = 0,
    ) -> None:
        """`time_budget`: for reading what the VM's workers send; None: the worker has one of its own. `first_seq`: number from
        which messages count, in a link that another daemon has used before; its answers may still come.
        """
        sock.setblocking(False)
        self._sock = sock
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._seq = self._first_seq = first_seq
        self._outbox = Outbox()
        self._time = time_budget or TimeBudget(budgets.LINK_SHARE)
        self._reader = PacedReader(sock, self._read_one, self._time)
        self._pending: dict[int, tuple[Answer, asyncio.TimerHandle]] = {}
        self._retry: asyncio.TimerHandle | None = None
        self.closed = False
        self.fault = ""
        """Reason why the worker counts as faulty: it did what no honest worker does; "" if it does not."""
        self._reader.start()

    def fileno(self) -> int:
        """Descriptor of the socket, which stays the link's."""
        return self._sock.fileno()

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
        timer = self._loop.call_later(timeout_s, self.condemn, f"did not answer within {timeout_s:g} s")
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
        self._reader.stop()
        self._loop.remove_writer(self._sock)
        if self._retry is not None:
            self._retry.cancel()
        self._sock.close()
        self._outbox.clear()
        for seq in list(self._pending):
            self.answered(seq, None)

    @property
    def all_read(self) -> bool:
        """True if the worker has read everything that was sent to it, or is gone."""
        return self.closed or (not len(self._outbox) and not _unread_bytes(self._sock))

    def charge(self, seconds: float) -> None:
        """Counts time of the loop that a message of the worker costs after it was read."""
        self._time.spend(seconds)

    def condemn(self, reason: str) -> None:
        """Gives up a worker that broke a rule or exceeded a budget: `fault` is the reason, and the worker is lost."""
        if not self.closed:
            self.fault = reason
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if not self.closed:
            self.close()
            self._on_lost(reason)

    # ---- sending ---------------------------------------------------------------------------------

    def _send(self, message: DaemonMessage, fds: tuple[int, ...]) -> None:
        """:raise ProtocolError: the message cannot be packed, or does not go with so many `fds`."""
        packet = codec.packet_of(message, fds)
        if len(self._outbox) or not self._try_send(packet, fds):
            self._enqueue(packet, fds)

    def _try_send(self, packet: bytes, fds: tuple[int, ...]) -> bool:
        """Sends a packet; False if it must be sent later. Returns True for a dead worker: the reader will notice."""
        try:
            codec.send_packet(self._sock, packet, fds)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in codec.FOR_A_MOMENT:
                self._rest()
                return False
        return True

    def _enqueue(self, packet: bytes, fds: tuple[int, ...]) -> None:
        if exceeded := self._outbox.add(packet, fds):
            self._loop.call_soon(self.condemn, f"left more than {exceeded} unread")
            return
        if self._retry is None:
            self._loop.add_writer(self._sock, self._flush)

    def _flush(self) -> None:
        try:
            is_empty = self._outbox.flush(self._sock)
        except OSError as error:
            if error.errno in codec.FOR_A_MOMENT:
                self._rest()
                return
            self._outbox.clear()  # the worker is dead, which the reader will notice
            is_empty = True
        if is_empty:
            self._loop.remove_writer(self._sock)

    def _rest(self) -> None:
        """Sends nothing for a moment: the host is short of something."""
        self._loop.remove_writer(self._sock)
        self._retry = self._loop.call_later(codec.RETRY_S, self._write_on)

    def _write_on(self) -> None:
        self._retry = None
        self._loop.add_writer(self._sock, self._flush)

    # ---- receiving -------------------------------------------------------------------------------

    def _read_one(self) -> bool:
        try:
            received = protocol.receive_from_worker(self._sock)
        except BlockingIOError:
            return False
        except codec.ProtocolError as error:
            self.condemn(f"broke the protocol: {error}")
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
        if isinstance(message, Ready) and not self._first_seq and not self.answered(SETUP_SEQ, None):
            self.condemn("broke the protocol: ready twice")
        elif not isinstance(message, Ack):
            self._on_message(message, fds)
        elif not self.answered(message.seq, message) and not self._is_of_another(message.seq):
            self.condemn(f"broke the protocol: ack of {message.seq}, which was not sent")

    def _is_of_another(self, seq: int) -> bool:
        """True if a message of this number can only have been another daemon's."""
        return bool(self._first_seq) and not self._first_seq < seq <= self._seq


def _unread_bytes(sock: socket.socket) -> int:
    """Memory of packets that were sent and that the peer has not read."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.TIOCOUTQ, count)
    return count[0]
