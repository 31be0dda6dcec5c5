"""Links of the control system to a VM's workers: which are kept, and which are dropped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.descriptors import open_fds
from vhost_backend.config.control import ControlConfig
from vhost_backend.control.links.channel_port import Loss
from vhost_backend.control.links.worker_channels import WorkerChannels
from vhost_backend.log import get_logger
from vhost_backend.worker_protocol.link import WorkerLink


class Told:
    """A listener that notes which workers come and go."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def on_ready(self, num_pes: int) -> None:
        self.said.append(f"ready {num_pes}")

    def on_lost(self, loss: Loss) -> None:
        self.said.append(loss.reason)


@contextmanager
def worker() -> Iterator[WorkerLink]:
    """A link to a worker that never answers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = WorkerLink(ours, lambda _message, _fds: None, lambda _reason: None)
    with theirs:
        yield link
        link.close()


def tell(story: Callable[[WorkerChannels, Told], Awaitable[None]]) -> None:
    async def told() -> None:
        told_to = Told()
        channels = WorkerChannels(ControlConfig(), get_logger())
        channels.listen(told_to)  # type: ignore[arg-type]  # no worker here says more
        await story(channels, told_to)

    asyncio.run(told())


def test_worker_that_is_not_ready_yet_stays_when_others_are_dropped() -> None:
    async def story(channels: WorkerChannels, told: Told) -> None:
        with worker() as first, worker() as second:
            for link in (first, second):
                with channels.begin(link):
                    pass
            second.close()
            fds = open_fds()
            channels.drop_others()
            assert open_fds() == fds - 2  # an area and a socket
            channels.serves(first, 3, 3)
            assert told.said == ["ready 3"]
            channels.lost("killed")
            assert told.said == ["ready 3", "killed"]
            assert open_fds() == fds - 4

    tell(story)


def test_death_of_a_worker_that_was_not_ready_is_passed_on() -> None:
    async def story(channels: WorkerChannels, told: Told) -> None:
        with worker() as link:
            with channels.begin(link):
                pass
            channels.lost("the worker exited with 1 before it was ready")
            channels.lost("replaced before it was ready", died=False)
            assert told.said == ["the worker exited with 1 before it was ready"]
            link.close()
            channels.drop_others()

    tell(story)


def test_host_without_sockets_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_args: int) -> None:
        raise OSError(24, "Too many open files")

    async def story(channels: WorkerChannels, _told: Told) -> None:
        with worker() as link:
            fds = open_fds()
            monkeypatch.setattr(socket, "socketpair", no_more)
            with pytest.raises(OSError, match="Too many"), channels.begin(link):
                pass
            assert open_fds() == fds
            monkeypatch.undo()

    tell(story)
