"""A VM's rings as its workers are told of them, and what they leave in flight."""

from __future__ import annotations

from dataclasses import replace

from vhost_backend.daemon import telling
from vhost_backend.daemon.link import Answer, WorkerLink
from vhost_backend.log import Logger
from vhost_backend.vhost_user.fds import Fd
from vhost_backend.vhost_user.messages import VirtioFeature
from vhost_backend.vhost_user.vring import Vring
from vhost_backend.worker.inflight import InflightMemory


class Rings:
    """Owns the in-flight memory, and knows which generation of workers has run which ring."""

    def __init__(self, log: Logger) -> None:
        self.inflight = InflightMemory()
        self.quiesced = False
        """Rings are started, but not served."""
        self._log = log
        self._starters: dict[int, int] = {}

    @property
    def any_started(self) -> bool:
        """Since the device was fresh."""
        return bool(self._starters)

    def forget(self) -> None:
        """A fresh device: nothing is in flight. The old memory goes with its worker, however long that lives."""
        self.inflight.close()
        self.inflight = InflightMemory()
        self._starters.clear()

    def next_of(self, vring: Vring) -> int:
        """Where the ring would go on, as far as its worker has noted."""
        state = self.inflight.queue(vring.index)
        return state.last_avail if state.started else vring.base

    def start(self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int) -> Answer:
        """Has a worker serve a ring; if one of another generation ran it, with what that one left in flight."""
        state = self.inflight.queue(vring.index)
        recover = state.started and self._starters.get(vring.index, generation) != generation
        base = state.last_avail if recover else vring.base
        return self._start(link, vring, features, generation, (base, recover))

    def go_on(self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int) -> Answer:
        """Has a worker serve a ring where another of its generation has stopped.

        There is nothing in flight if that one has told the truth.
        """
        heads = self.inflight.queue(vring.index).heads
        return self._start(link, vring, features, generation, (self.next_of(vring), bool(heads)))

    def _start(
        self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int, where: tuple[int, bool]
    ) -> Answer:
        self._starters[vring.index] = generation
        base, recover = where
        start = telling.vring_start(vring, features, base, recover=recover)
        start = replace(start, enabled=start.enabled and not self.quiesced)
        fds = (*numbers(vring.kick), *numbers(vring.call), *numbers(vring.err))
        self._log.debug("vring_started", vring=vring.index, size=vring.size, base=start.base, recover=recover)
        return link.post(lambda seq: replace(start, seq=seq), fds)


def numbers(fd: Fd | None) -> tuple[int, ...]:
    return () if fd is None else (fd.fileno(),)
