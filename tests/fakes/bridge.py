"""Other side of libvgc's transport over files and TCP (guest_driver/libvgc/src/bridge.c): passes kicks and calls on.

Programs for Windows run by it under Wine, where they have neither descriptors of this process nor eventfds.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fakes.link import FEATURES, GuestLink
from tests.fakes.wine import windows_path

LOOPBACK: Final = "127.0.0.1"


@dataclass
class _Connection:
    """A process's use of one queue; `queue` is known once its first byte has come."""

    socket: socket.socket
    queue: int | None = None


@dataclass
class Bridge:
    """Passes kicks and calls between a link's eventfds and connections, until it is left.

    `folder` is the one in which the link has its files.
    """

    link: GuestLink
    folder: Path
    kicks: int = 0
    """Kicks that have been passed on."""
    _connections: dict[int, _Connection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = int(self._listener.getsockname()[1])
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="bridge")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections; does nothing the second time."""
        if self._stop_fd < 0:
            return
        os.eventfd_write(self._stop_fd, 1)
        self._thread.join()
        for connection in self._connections.values():
            connection.socket.close()
        self._listener.close()
        os.close(self._stop_fd)
        self._stop_fd = -1

    def description(self, changes: Mapping[str, str] | None = None, *, windows: bool = False) -> str:
        """Value of VGC_BRIDGE; `windows`: with paths as Wine has them. `changes` replace fields."""
        region, config = (str(self.folder / name) for name in ("region", "config"))
        if windows:
            region, config = (windows_path(self.folder / name) for name in ("region", "config"))
        fields = {
            "name": self.link.name,
            "region": region,
            "config": config,
            "gpa": hex(self.link.region.gpa),
            "features": hex(FEATURES),
            "ring": str(self.link.rings[0].num),
            "queues": str(len(self.link.rings)),
            "port": str(self.port),
        }
        return ",".join(f"{key}={value}" for key, value in (fields | dict(changes or {})).items())

    def _run(self) -> None:
        poller = select.poll()
        queues = {fd: queue for queue, fd in enumerate(self.link.call_fds)}
        for fd in (self._stop_fd, self._listener.fileno(), *queues):
            poller.register(fd, select.POLLIN)
        while True:
            for fd, _ in poller.poll():
                if fd == self._stop_fd:
                    return
                if fd == self._listener.fileno():
                    self._accept(poller)
                elif fd in queues:
                    os.eventfd_read(fd)
                    self._call(queues[fd])
                elif not self._take_bytes(self._connections[fd]):
                    poller.unregister(fd)
                    self._connections.pop(fd).socket.close()

    def _accept(self, poller: select.poll) -> None:
        accepted, _ = self._listener.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[accepted.fileno()] = _Connection(accepted)
        poller.register(accepted, select.POLLIN)

    def _take_bytes(self, connection: _Connection) -> bool:
        """Passes on what has come; false once the process has closed the connection."""
        try:
            data = connection.socket.recv(4096)
        except ConnectionError:
            return False
        if connection.queue is None and data:
            connection.queue = data[0]
            data = data[1:]
            self._send(connection)
            if not data:
                return True
        if data:
            assert connection.queue is not None
            self.kicks += 1
            os.eventfd_write(self.link.kick_fds[connection.queue], 1)
        return bool(data)

    def _call(self, queue: int) -> None:
        for connection in self._connections.values():
            if connection.queue == queue:
                self._send(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            connection.socket.send(b"\1")
        except ConnectionError:
            return  # the process has ended; that is seen when its end is read
