"""Channels of a VM over the links to its workers.

Each worker gets a control area of its own, a sealed memfd, and one end of a record socket. Commands go over the worker's
link and are acknowledged there. Records arrive on the record socket, and are read up to the acknowledgement before a
command counts as done. When a worker is gone, the daemon reads the records that the worker had sent, then takes those
that it had not sent out of its area, and then frees the area.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from vhost_backend.channels.area import ControlArea
from vhost_backend.config.control import ControlConfig
from vhost_backend.control.links.channel_port import (
    AgainError,
    Binding,
    ChannelError,
    ElementState,
    Listener,
    Loss,
    WorkerGoneError,
)
from vhost_backend.control.links.record_reader import RecordReader
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.log import Logger
from vhost_backend.worker_protocol import control_messages as messages
from vhost_backend.worker_protocol.budgets import RECORD_SHARE, TimeBudget
from vhost_backend.worker_protocol.control_messages import ControlSetup, Terms
from vhost_backend.worker_protocol.link import Build, WorkerLink
from vhost_backend.worker_protocol.protocol import DaemonMessage
from virtio_proto.control.records import Function

RECORD_SOCKET_BYTES: Final = 4 << 20
SNAPSHOT_SPARE_S: Final = 10.0
"""Time added to a snapshot's deadline, far more than a healthy worker needs: a slower worker counts as lost."""

FIRMWARE_S: Final = 30.0


@dataclass(eq=False, slots=True)
class _Worker:
    """Control system's side of one worker."""

    link: WorkerLink
    area: ControlArea
    reader: RecordReader
    num_pes: int = 0
    """Number of processing elements that the worker reported when it was ready."""


class WorkerChannels:
    """Implements `vhost_backend.control.links.channel_port.VmChannels`; the VM reports the begin and end of its workers."""

    def __init__(self, config: ControlConfig, log: Logger) -> None:
        self._config = config
        self._log = log
        self._listener: Listener | None = None
        self._workers: dict[WorkerLink, _Worker] = {}
        self._current: _Worker | None = None
        self._snapshots = 0
        self.record_time = TimeBudget(RECORD_SHARE)
        """Budget for reading the records of the VM's workers."""

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    # ---- workers come and go ---------------------------------------------------------------------

    @contextmanager
    def begin(self, link: WorkerLink) -> Iterator[tuple[ControlSetup, tuple[int, ...]]]:
        """Control system's part of a new worker's `Setup`, and its descriptors, which are open in the block.

        :raise OSError: the host has no descriptors or no memory for it.
        """
        area = ControlArea(self._config.memory_bytes)
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            area.close()
            raise
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECORD_SOCKET_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECORD_SOCKET_BYTES)
        self._workers[link] = _Worker(link, area, RecordReader(ours, self._log, self.record_time))
        budget_ppm = round(self._config.budget_percent * 10_000)
        with theirs:
            yield ControlSetup(area.size_bytes, self._config.channels, budget_ppm), (area.fd, theirs.fileno())

    def descriptors(self, link: WorkerLink) -> dict[str, HasFileno]:
        """Descriptors that another daemon needs to take a worker over, by name; they stay ours."""
        worker = self._workers.get(link)
        return {} if worker is None else {"area": worker.area, "records": worker.reader}

    def resume(self, link: WorkerLink, fds: dict[str, Fd]) -> None:
        """Takes over a worker of another daemon, and "area" and "records" of `fds`, if it had a control system there."""
        area, records = fds.pop("area", None), fds.pop("records", None)
        if area is None or records is None:
            return
        reader = RecordReader(socket.socket(fileno=records.release()), self._log, self.record_time)
        self._workers[link] = _Worker(link, ControlArea(self._config.memory_bytes, area.release()), reader)

    def serves(self, link: WorkerLink, num_pes: int, rows: int) -> None:
        """Notes that a worker serves the VM from now on; the last records of an earlier worker are passed on.

        `rows`: number of processing elements that the worker's area has room for.
        """
        worker = self._workers.get(link)
        if worker is None:
            return  # another daemon has set it up, without a control system
        if self._current is not None:
            self.lost("its work has migrated to another worker", died=False)
        self._current = worker
        worker.num_pes = num_pes
        worker.reader.begin(self._receiver, rows)
        self._receiver.on_ready(num_pes)

    @property
    def _receiver(self) -> Listener:
        assert self._listener is not None  # the control interface listens before there are workers
        return self._listener

    def lost(self, reason: str, fault: str | None = None, *, died: bool = True) -> None:
        """Passes on the last records of the worker that served the VM, and that it is gone.

        Of a worker that did not serve yet, only its death is passed on.
        """
        worker, self._current = self._current, None
        if worker is not None:
            worker.reader.drain()
            worker.reader.salvage(worker.area, self._config.channels)
        if worker is not None or died:
            self._receiver.on_lost(Loss(reason, fault, died))
        if worker is not None:
            self._end(worker)

    def drop_others(self) -> None:
        """Forgets workers that ended before they served the VM. Workers that are not ready yet stay."""
        for worker in [item for item in self._workers.values() if item.link.closed and item is not self._current]:
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        del self._workers[worker.link]
        worker.reader.close()
        worker.area.close()

    # ---- commands --------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._current is not None

    @property
    def num_pes(self) -> int:
        return 0 if self._current is None else max(self._current.num_pes, self._current.reader.num_pes)

    def _serving(self) -> _Worker:
        """:raise WorkerGoneError: no worker serves the VM."""
        if self._current is None:
            raise WorkerGoneError("the VM has no worker now")
        return self._current

    async def _do(
        self, worker: _Worker, build: Build, fds: tuple[int, ...] = (), timeout_s: float | None = None
    ) -> None:
        """Has the worker carry out a command; on return, all that it sent before its answer has been passed on.

        :raise WorkerGoneError: the worker was lost.
        :raise AgainError: the worker refused for now.
        :raise ChannelError: the worker refused.
        """
        ack = await worker.link.post(build, fds, timeout_s)
        if ack is None or worker is not self._current:  # a worker that answered may be gone since
            raise WorkerGoneError("the worker was lost")
        worker.reader.drain()
        if not ack.ok:
            raise AgainError(ack.error) if ack.again else ChannelError(ack.error)

    async def open(self, terms: Terms, bindings: Sequence[Binding]) -> None:
        worker = self._serving()
        numbers = tuple(binding.channel for binding in bindings)
        pes = tuple(binding.pe for binding in bindings)
        generations = tuple(binding.generation for binding in bindings)
        worker.reader.expect(Function(terms.function), terms.slots, bindings)

        def build(seq: int) -> DaemonMessage:
            return messages.ControlOpen(seq, terms, pes, numbers, generations)

        try:
            await self._do(worker, build)
        except ChannelError:
            worker.reader.forget(numbers)
            raise

    async def close(self, channels: Sequence[int]) -> None:
        worker = self._serving()
        numbers = tuple(channels)
        await self._do(worker, lambda seq: messages.ControlClose(seq, numbers))
        worker.reader.forget(numbers)

    async def set(self, channels: Sequence[int], level: int, sample: int) -> None:
        numbers = tuple(channels)
        await self._do(self._serving(), lambda seq: messages.ControlSet(seq, numbers, level, sample))

    async def send(self, channel: int, data: bytes, *, eof: bool) -> None:
        await self._do(self._serving(), lambda seq: messages.ControlSend(seq, channel, data, eof))

    async def threshold(self, pes: Sequence[int], name: str, low: float, high: float) -> None:
        chosen = tuple(pes)
        await self._do(self._serving(), lambda seq: messages.ControlThreshold(seq, chosen, name, low, high))

    async def snapshot(self, deadline_ms: int) -> Sequence[ElementState]:
        worker = self._serving()
        self._snapshots = number = (self._snapshots + 1) & 0xFFFFFFFF
        timeout_s = deadline_ms / 1000 + SNAPSHOT_SPARE_S
        with worker.reader.snapshot(number) as states:
            build = partial(messages.ControlSnapshot, number=number, deadline_ms=deadline_ms)
            await self._do(worker, build, timeout_s=timeout_s)
            return list(states)

    async def confine(self, pes: Sequence[int]) -> None:
        chosen = tuple(pes)
        await self._do(self._serving(), lambda seq: messages.ControlConfine(seq, chosen))

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        build = partial(messages.ControlFirmware, action="stage", slot=slot, version=version, pes=())
        await self._do(self._serving(), build, (image_fd,), FIRMWARE_S)

    async def activate_firmware(self, slot: int, pes: Sequence[int]) -> None:
        build = partial(messages.ControlFirmware, action="activate", slot=slot, version=0, pes=tuple(pes))
        await self._do(self._serving(), build)
