"""Worker double: a real process, for which the test itself talks to the daemon.

The daemon gets `WorkerHost.command` in place of the worker's command; each process that it starts passes its connection
to the host, which returns it from `WorkerHost.next` as a `WorkerDouble`.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.config.daemon import VmConfig
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import Ack, DaemonMessage, Ping, Ready, Setup, VringStop, WorkerMessage
from vhost_backend.worker_protocol.registration_messages import Registered

TIMEOUT_S: Final = ANSWERS_WITHIN_S
_STUB: Final = Path(__file__).with_name("worker_stub.py")
_M = TypeVar("_M", bound=DaemonMessage)


class WorkerDouble:
    """A worker process and its connection to the daemon. Received descriptors are closed with it.

    Those of source files are in `sources`, all others in `fds`.
    """

    def __init__(self, pid: int, sock: socket.socket, leash: socket.socket) -> None:
        sock.settimeout(TIMEOUT_S)
        self.pid = pid
        self.sock = sock
        self.fds: list[int] = []
        self.sources: list[int] = []
        self._leash = leash
        self._pings: list[Ping] = []

    def receive(self) -> DaemonMessage:
        """Receives the daemon's next message other than a ping; its descriptors are appended to `fds`.

        :raise EOFError: the daemon hung up.
        """
        while isinstance(message := self._receive(), Ping):
            self._pings.append(message)
        return message

    def ping(self) -> Ping:
        """Receives the next ping, which is not answered."""
        while not self._pings:
            message = self._receive()
            assert isinstance(message, Ping), f"the daemon sent {message}"
            self._pings.append(message)
        return self._pings.pop(0)

    def _receive(self) -> DaemonMessage:
        received = protocol.receive_from_daemon(self.sock)
        if received is None:
            raise EOFError("the daemon hung up")
        message, fds = received
        if isinstance(message, Setup):
            self.sources += fds[1 : 1 + NUM_SOURCES]
            fds = (fds[0], *fds[1 + NUM_SOURCES :])
        self.fds += fds
        return message

    def expect(self, kind: type[_M]) -> _M:
        """Receives the next message, which must be of this kind, and acknowledges it as a healthy worker would."""
        message = self.receive()
        assert isinstance(message, kind), f"the daemon sent {message}"
        if not isinstance(message, Setup | protocol.Program | Registered | protocol.Shutdown):
            self.ack(message)
        return message

    def setup(self) -> Setup:
        """Takes `Setup` and answers `Ready`."""
        message = self.expect(Setup)
        self.send(Ready("fake engine", 3, 0, "none: a test double"))
        return message

    def ack(self, message: DaemonMessage, error: str = "", base: int = 0, address: int = 0) -> None:
        self.send(Ack(message.seq, not error, error, base, address))

    def stop_at(self, base: int) -> VringStop:
        """Receives `VringStop` and answers with `base`."""
        message = self.receive()
        assert isinstance(message, VringStop), f"the daemon sent {message}"
        self.ack(message, base=base)
        return message

    def send(self, message: WorkerMessage, fds: tuple[int, ...] = ()) -> None:
        protocol.send_to_daemon(self.sock, message, fds)

    def compile(self, source: bytes, request: protocol.Compile) -> protocol.Program:
        """Has the daemon compile `source`, through the request's source file; returns the answer."""
        fd = self.sources[request.source]
        os.ftruncate(fd, 0)
        os.pwrite(fd, source, 0)
        self.send(request)
        return self.expect(protocol.Program)

    def send_raw(self, packet: bytes) -> None:
        self.sock.send(packet)

    def hang_up(self) -> None:
        """Closes the connection; the process lives on."""
        self.sock.close()

    def die(self, how: str = "0") -> None:
        """Makes the process exit with a code, or "abort"."""
        self._leash.send(how.encode())

    def close(self) -> None:
        for fd in (*self.fds, *self.sources):
            os.close(fd)
        self.fds, self.sources = [], []
        self.sock.close()
        self._leash.close()


class WorkerHost:
    """The host to which worker doubles report. A context manager."""

    def __init__(self, folder: Path) -> None:
        path = folder / "workers"
        self._path = path
        self._doubles: list[WorkerDouble] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(os.fsencode(path))
        self._listener.listen(64)
        self._listener.settimeout(TIMEOUT_S)

    def command(self, _config: VmConfig, fd: int) -> tuple[str, ...]:
        """Command line that the daemon starts in place of a worker."""
        return (sys.executable, "-I", "-S", str(_STUB), str(self._path), "--fd", str(fd))

    def next(self) -> WorkerDouble:
        """Waits for the next worker that the daemon starts and that lives to report.

        :raise TimeoutError: the daemon starts no worker in time.
        """
        fds: list[int] = []
        while not fds:
            leash, _ = self._listener.accept()
            data, fds, _, _ = socket.recv_fds(leash, 64, 1)
            if not fds:
                leash.close()
        double = WorkerDouble(int(data), socket.socket(fileno=fds[0]), leash)
        self._doubles.append(double)
        return double

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for double in self._doubles:
            double.close()
