"""Daemon's end of the connection to a worker while the host is short of something."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.worker_protocol import codec, protocol
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.protocol import Ack, Log, Shutdown, VringCall, VringStop


class Stage:
    """A link, the worker's end of it, and the errors that the next sends meet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, self.worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.worker.settimeout(ANSWERS_WITHIN_S)
        self.lost: list[str] = []
        self.errors: list[int] = []
        self.link = WorkerLink(ours, lambda _message, fds: codec.close_fds(fds), self.lost.append)
        send = codec.send_packet

        def failing(sock: socket.socket, packet: bytes, fds: tuple[int, ...]) -> None:
            if self.errors:
                number = self.errors.pop(0)
                raise OSError(number, os.strerror(number))
            send(sock, packet, fds)

        monkeypatch.setattr(codec, "send_packet", failing)

    async def received(self) -> protocol.DaemonMessage:
        found = await asyncio.to_thread(protocol.receive_from_daemon, self.worker)
        assert found is not None
        codec.close_fds(found[1])
        return found[0]


def run(monkeypatch: pytest.MonkeyPatch, test: Callable[[Stage], Awaitable[None]]) -> None:
    async def story() -> None:
        stage = Stage(monkeypatch)
        try:
            await test(stage)
        finally:
            stage.link.close()
            stage.worker.close()

    asyncio.run(story())


@pytest.mark.parametrize("error", [errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM])
def test_messages_that_the_host_cannot_take_now_arrive_later_and_in_order(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    async def test(stage: Stage) -> None:
        stage.errors = [error] * 3
        call = stage.link.post(lambda seq: VringCall(seq, 1, True), (stage.worker.fileno(),))
        stage.link.post(lambda seq: VringStop(seq, 2))
        stage.link.tell(Shutdown)
        assert await stage.received() == VringCall(1, 1, True)
        assert await stage.received() == VringStop(2, 2)
        assert await stage.received() == Shutdown(3)
        assert stage.errors == []
        protocol.send_to_daemon(stage.worker, Ack(1, True, "", 0, 0))
        assert await call == Ack(1, True, "", 0, 0)
        assert stage.lost == []

    run(monkeypatch, test)


def test_a_link_that_is_closed_meanwhile_sends_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage) -> None:
        stage.errors = [errno.ETOOMANYREFS] * 1000
        answer = stage.link.post(lambda seq: VringStop(seq, 2))
        stage.link.close()
        assert await answer is None
        assert await asyncio.to_thread(protocol.receive_from_daemon, stage.worker) is None

    run(monkeypatch, test)


def test_a_worker_tries_again_when_the_host_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage) -> None:
        said: list[protocol.WorkerMessage] = []
        stage.link.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            stage.errors = [errno.ENOBUFS, errno.ENOMEM]
            protocol.send_to_daemon(theirs, Log("info", "hello", {}))
            found = protocol.receive_from_worker(ours)
            assert found is not None
            said.append(found[0])
            stage.errors = [errno.EPIPE]
            with pytest.raises(BrokenPipeError):
                protocol.send_to_daemon(theirs, Log("info", "hello", {}))
        assert said == [Log("info", "hello", {})]

    run(monkeypatch, test)
