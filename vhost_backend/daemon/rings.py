"""Rings of a VM, as its workers serve them: their avail indices, and the requests in flight."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from vhost_backend.daemon.inflight import InflightMemory, Requests
from vhost_backend.fds import Fd
from vhost_backend.log import Logger
from vhost_backend.vhost_user.messages import VirtioFeature
from vhost_backend.vhost_user.vring import Vring
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, WorkerLink


class Rings:
    """Owns the in-flight memory, and knows which generation of workers has run which ring."""

    def __init__(self, log: Logger) -> None:
        self.inflight = InflightMemory()
        self.quiesced = False
        """If set, rings are started but not served."""
        self._log = log
        self._starters: dict[int, int] = {}

    @property
    def any_started(self) -> bool:
        """True if a worker was told to start a ring since the device's reset."""
        return bool(self._starters)

    @property
    def starters(self) -> dict[int, int]:
        """Generation of the workers that have started each ring."""
        return dict(self._starters)

    def restore(self, inflight: int, starters: Mapping[int, int]) -> None:
        """Takes over what another daemon had, and its in-flight memory."""
        self.inflight.close()
        self.inflight = InflightMemory(inflight)
        self._starters = dict(starters)

    def forget(self) -> None:
        """Resets the device: nothing is in flight. A worker that still runs keeps the old in-flight memory."""
        self.inflight.close()
        self.inflight = InflightMemory()
        self._starters.clear()

    def requests(self) -> Requests:
        """The present state of all requests, as the worker has noted them."""
        return self.inflight.requests()

    def next_of(self, vring: Vring) -> int:
        """Avail index at which the ring would go on, as its worker has noted it."""
        state = self.inflight.queue(vring.index)
        return state.last_avail if state.started else vring.base

    def start(self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int) -> Answer:
        """Has a worker serve a ring; it first answers the requests that a worker of another generation left in flight."""
        state = self.inflight.queue(vring.index)
        recover = state.started and self._starters.get(vring.index, generation) != generation
        base = state.last_avail if recover else vring.base
        return self._start(link, vring, features, generation, (base, recover))

    def go_on(self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int) -> Answer:
        """Has a worker serve a ring where another worker of its generation has stopped, after a migration.

        Nothing is in flight if that worker told the truth.
        """
        heads = self.inflight.queue(vring.index).heads
        return self._start(link, vring, features, generation, (self.next_of(vring), bool(heads)))

    def _start(
        self, link: WorkerLink, vring: Vring, features: VirtioFeature, generation: int, where: tuple[int, bool]
    ) -> Answer:
        self._starters[vring.index] = generation
        base, recover = where
        start = _vring_start(vring, features, base, recover=recover)
        start = structs.replace(start, enabled=start.enabled and not self.quiesced)
        fds = (*numbers(vring.kick), *numbers(vring.call), *numbers(vring.err))
        self._log.debug("vring_started", vring=vring.index, size=vring.size, base=start.base, recover=recover)
        return link.post(lambda seq: structs.replace(start, seq=seq), fds)


def _vring_start(vring: Vring, features: VirtioFeature, base: int, *, recover: bool) -> protocol.VringStart:
    """Builds the message that starts a ring at avail index `base`."""
    assert vring.address is not None  # the session starts no ring without one
    return protocol.VringStart(
        seq=0,
        index=vring.index,
        size=vring.size,
        base=base,
        desc_uva=vring.address.desc,
        avail_uva=vring.address.avail,
        used_uva=vring.address.used,
        event_idx=bool(features & VirtioFeature.RING_EVENT_IDX),
        indirect=bool(features & VirtioFeature.RING_INDIRECT_DESC),
        enabled=vring.enabled,
        recover=recover,
        has_kick=vring.kick is not None,
        has_call=vring.call is not None,
        has_err=vring.err is not None,
    )


def numbers(fd: Fd | None) -> tuple[int, ...]:
    """Descriptor as a message's tuple, which is empty if the descriptor is None."""
    return () if fd is None else (fd.fileno(),)
