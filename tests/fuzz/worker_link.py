"""A hostile worker at the daemon's end of its link.

An input is a packet. It is sent to a `WorkerLink`, after the answer that the link waits for and with as many descriptors
as its first byte says. The link hands on a message of a declared type, which packs to what it was unpacked from, or
gives the worker up for a reason that it names; no descriptor stays open.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

from tests.unit.test_worker_protocol import EXAMPLES
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.protocol import WORKER_MESSAGES, Ack, VringStop, WorkerMessage

IS_MESSAGEPACK: Final = True
MAX_FDS: Final = 4
_LOOP: Final = asyncio.new_event_loop()


def seeds() -> list[bytes]:
    return [
        bytes([message.num_fds()]) + codec.encode(message)
        for message in EXAMPLES
        if isinstance(message, WORKER_MESSAGES)
    ]


def run(data: bytes) -> str:
    num_fds, packet = data[0] % (MAX_FDS + 1) if data else 0, data[1:]
    before = _num_fds()
    answer = _LOOP.run_until_complete(_tell(packet, num_fds))
    assert _num_fds() == before, "a descriptor stayed open"
    return answer


def _num_fds() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def _tell(packet: bytes, num_fds: int) -> str:
    heard: list[WorkerMessage] = []
    lost: list[str] = []
    ours, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def on_message(message: WorkerMessage, fds: tuple[int, ...]) -> None:
        codec.close_fds(fds)
        heard.append(message)

    link = WorkerLink(ours, on_message, lost.append)
    answers = [link.post(lambda seq: VringStop(seq, 0)) for _ in range(2)]
    with worker:
        codec.send(worker, Ack(1, True, "", 0, 0), ())
        socket.send_fds(worker, [packet], [0] * num_fds) if packet else None
        link.drain()
        text = _outcome(packet, heard, lost, link, [answer.done() for answer in answers])
        link.close()
    assert all(answer.done() for answer in answers)
    return text


def _outcome(packet: bytes, heard: list[WorkerMessage], lost: list[str], link: WorkerLink, done: list[bool]) -> str:
    assert done[0]
    assert len(heard) <= 1
    assert len(lost) == int(link.closed)
    if lost:
        assert lost[0]
        assert link.fault in {"", lost[0]}
        return lost[0]
    for message in heard:
        assert isinstance(message, WORKER_MESSAGES)
        assert codec.decode(codec.encode(message), WORKER_MESSAGES) == message
        return message.TYPE
    return f"answered: {done}" if packet else "nothing"
