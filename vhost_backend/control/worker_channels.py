"""The channels of a VM over the links to its workers: the daemon's end of the patent's communication link management.

Each worker gets an area of its own, a sealed memfd, and one end of a record socket. Commands go over the worker's link
and are acknowledged there; what comes of channels arrives on the record socket, and is read before the acknowledgement
of whatever closed them is believed. When a worker is gone, what it had sent is read, then what it had not sent is taken
out of its area, and then the area goes.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from vhost_backend.control.channel_port import (
    AgainError,
    Binding,
    ChannelError,
    ElementState,
    Listener,
    Loss,
    Terms,
    WorkerGoneError,
)
from vhost_backend.control.driver.area import ControlArea
from vhost_backend.control.functions.base import POLICIES
from vhost_backend.control.record_reader import RecordReader
from vhost_backend.control_config import ControlConfig
from vhost_backend.daemon.link import Build, WorkerLink
from vhost_backend.log import Logger
from vhost_backend.worker import control_messages as messages
from vhost_backend.worker.control_messages import ControlSetup
from vhost_backend.worker.protocol import DaemonMessage
from virtio_proto.control.records import Function

RECORD_SOCKET_BYTES: Final = 4 << 20
SNAPSHOT_SPARE_S: Final = 10.0
"""Longer than a healthy worker takes beyond a snapshot's own deadline: one that takes longer is lost."""

FIRMWARE_S: Final = 30.0


@dataclass(eq=False, slots=True)
class _Worker:
    """One worker's part of the control system."""

    link: WorkerLink
    area: ControlArea
    reader: RecordReader
    num_pes: int = 0


class WorkerChannels:
    """Implements `vhost_backend.control.channel_port.VmChannels`; the VM says which workers there are."""

    def __init__(self, config: ControlConfig, log: Logger) -> None:
        self._config = config
        self._log = log
        self._listener: Listener | None = None
        self._workers: dict[WorkerLink, _Worker] = {}
        self._current: _Worker | None = None
        self._snapshots = 0

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    # ---- workers come and go ---------------------------------------------------------------------

    @contextmanager
    def begin(self, link: WorkerLink) -> Iterator[tuple[ControlSetup, tuple[int, ...]]]:
        """What a new worker's `Setup` says of the control system, and its descriptors, open in the block.

        :raise OSError: the host has no descriptors or no memory for them.
        """
        area = ControlArea(self._config.memory_bytes)
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            area.close()
            raise
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECORD_SOCKET_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECORD_SOCKET_BYTES)
        self._workers[link] = _Worker(link, area, RecordReader(ours, self._log))
        budget_ppm = round(self._config.budget_percent * 10_000)
        with theirs:
            yield ControlSetup(area.size_bytes, self._config.channels, budget_ppm), (area.fd, theirs.fileno())

    def serves(self, link: WorkerLink, num_pes: int) -> None:
        """The worker serves the VM from now on; the one that did so before has only left what it has left."""
        worker = self._workers[link]
        if self._current is not None:
            self.lost("its work has moved to another worker", died=False)
        self._current = worker
        worker.num_pes = num_pes
        worker.reader.begin(self._told)
        self._told.on_ready(num_pes)

    @property
    def _told(self) -> Listener:
        assert self._listener is not None  # the control interface listens before there are workers
        return self._listener

    def lost(self, reason: str, fault: str | None = None, *, died: bool = True) -> None:
        """The worker that serves the VM is gone: passes on what it has left."""
        worker, self._current = self._current, None
        if worker is not None:
            worker.reader.drain()
            worker.reader.salvage(worker.area, worker.num_pes, self._config.channels)
            self._told.on_lost(Loss(reason, fault, died))
            self._end(worker)

    def drop_others(self) -> None:
        """Forgets the workers that are gone and never came to serve the VM. One that is not ready yet may still come."""
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
        return 0 if self._current is None else self._current.num_pes

    def _serving(self) -> _Worker:
        """:raise WorkerGoneError: there is none."""
        if self._current is None:
            raise WorkerGoneError("the VM has no worker now")
        return self._current

    async def _do(
        self, worker: _Worker, build: Build, fds: tuple[int, ...] = (), timeout_s: float | None = None
    ) -> None:
        """Has the worker do something; everything that it sent before it answered has been passed on then.

        :raise WorkerGoneError: it was lost.
        :raise AgainError: it refused for now.
        :raise ChannelError: it refused.
        """
        ack = await worker.link.post(build, fds, timeout_s)
        if ack is None or worker is not self._current:  # it may have answered, and be gone since
            raise WorkerGoneError("the worker was lost")
        worker.reader.drain()
        if not ack.ok:
            raise AgainError(ack.error) if ack.again else ChannelError(ack.error)

    async def open(self, function: Function, terms: Terms, bindings: Sequence[Binding]) -> None:
        worker = self._serving()
        numbers = tuple(binding.channel for binding in bindings)
        pes = tuple(binding.pe for binding in bindings)
        generations = tuple(binding.generation for binding in bindings)
        worker.reader.expect(function, terms.slots, bindings)

        def build(seq: int) -> DaemonMessage:
            return messages.ControlOpen(
                seq=seq,
                function=function,
                policy=POLICIES.index(terms.policy),
                level=terms.level,
                sample=terms.sample,
                slots=terms.slots,
                in_bytes=terms.in_bytes,
                wait_ns=terms.wait_ns,
                period_ms=terms.period_ms,
                pes=pes,
                channels=numbers,
                generations=generations,
            )

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
        text = base64.b64encode(data).decode()
        await self._do(self._serving(), lambda seq: messages.ControlSend(seq, channel, text, eof))

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
