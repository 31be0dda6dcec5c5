"""The daemon's side of the fork server, which starts workers as copies of itself (`vhost_backend.worker.fork_server`)."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.cores import lists, threads
from vhost_backend.cores.pool import CorePool
from vhost_backend.daemon.process import Copying, environment, sandboxed_worker, walled
from vhost_backend.log import get_logger
from vhost_backend.worker_protocol.copying import JOB_FD, MAX_ANSWER_BYTES, READY

START_TIMEOUT_S: Final = 30.0
"""Time in which the server has loaded the modules of workers; without it, workers load their own."""
ANSWER_TIMEOUT_S: Final = 5.0
"""Time in which a process is copied. The daemon waits for it as for the start of a program."""
_LOOK_S: Final = 0.01
"""Time after which it looks whether a signal has stopped the server that it waits for."""

RESTART_S: Final = 10.0
"""Time after which a server that was lost is started again."""


def modules_of(config: DaemonConfig) -> tuple[str, ...]:
    """Modules that the workers of a daemon are likely to need, beside those of every worker."""
    control = ("vhost_backend.worker.channels.thread",) if config.control.is_on else ()
    return ("vhost_backend.engines.cpu.engine", "vhost_backend.engines.cpu.builtins.preload", *control)


class ForkServer:
    """Starts workers that share the memory of their modules. Where it cannot, each worker is a program of its own."""

    def __init__(self, modules: Sequence[str], cores: CorePool | None = None) -> None:
        """`modules`: those that it loads beside a worker's own. `cores`: it keeps off those that VMs have for their own."""
        self._modules = tuple(modules)
        self._cores = cores
        self._placed = contextlib.ExitStack()
        self._log = get_logger()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.is_ready = False
        """True if it starts workers."""
        self._again: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts the server, and waits until it can be asked. A failure is logged; then workers start without it."""
        loop = asyncio.get_running_loop()
        try:
            sock = self._open()
            said = await asyncio.wait_for(loop.sock_recv(sock, MAX_ANSWER_BYTES), START_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            self._lose(repr(error))
            return
        if said != READY:
            self._lose("it has ended")
            return
        loop.add_reader(sock, self._lose, "it has ended")  # it says nothing that is not asked
        self.is_ready = True

    def close(self) -> None:
        """Ends the server; workers go on."""
        for waiting in (self._again, self._starting):
            if waiting is not None:
                waiting.cancel()
        self._end()

    def worker(self, config: VmConfig, fd: int) -> Sequence[str] | Copying:
        """A `WorkerCommand` that does as `sandboxed_worker`, with a copy of the server where that is ready, and runs.

        :raise HostError: as there.
        """
        if not self.is_ready:
            return sandboxed_worker(config, fd)
        if self._is_stopped():
            means = "workers load their modules by themselves until it goes on"
            self._log.warning("fork_server_stopped", pid=self.pid, means=means)
            return sandboxed_worker(config, fd)
        _launcher, *options = walled(config, (), JOB_FD)
        return Copying(options, self._copy, lambda fd: sandboxed_worker(config, fd))

    def _copy(self, options: Sequence[str], kept: int, errors: int) -> int:
        sock = self._socket
        if sock is None:
            raise OSError("the fork server has ended")
        try:
            socket.send_fds(sock, [b"\0".join(option.encode() for option in options)], [kept, errors])
            self._await_answer(sock)
            answer = sock.recv(MAX_ANSWER_BYTES)
        except OSError as error:
            answer = self._last_answer(sock)
            self._lose(repr(error))
        else:
            if not answer:
                self._lose("it has ended")
        if not answer.isdigit():
            raise OSError(answer.decode(errors="replace") or "the fork server has ended")
        return int(answer)

    def _await_answer(self, sock: socket.socket) -> None:
        """Waits until the server has answered, or has ended.

        :raise OSError: a signal has stopped it meanwhile, or it takes too long.
        """
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        while not select.select([sock], [], [], _LOOK_S)[0]:
            if self._is_stopped():
                raise OSError("a signal has stopped it")
            if time.monotonic() >= until_s:
                raise TimeoutError(f"it has not answered for {ANSWER_TIMEOUT_S:g} s")

    def _is_stopped(self) -> bool:
        """True if a signal has stopped the server."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False

    def _last_answer(self, sock: socket.socket) -> bytes:
        """Ends the server; returns what it has answered in the meantime, as a launcher that it has started is our child."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        sock.setblocking(False)
        try:
            return sock.recv(MAX_ANSWER_BYTES)
        except OSError:
            return b""

    def _open(self) -> socket.socket:
        """:raise OSError: no process can be started."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        argv = [sys.executable, "-m", "vhost_backend.worker.fork_server", "--fd", str(theirs.fileno()), *self._modules]
        with theirs:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment(),
                start_new_session=True,
            )
        if self._cores is not None:
            self._placed.enter_context(self._cores.watched(partial(self._move, self._process.pid, self._cores)))
        return self._socket

    def _move(self, pid: int, cores: CorePool) -> None:
        """Has the server, and so the workers that it starts, run where the daemon does."""
        try:
            threads.settle(pid, cores.shared)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        except OSError as error:
            self._log.warning("fork_server_not_moved", pid=pid, cores=lists.shown(cores.shared), why=str(error))

    def _lose(self, reason: str) -> None:
        means = "workers load their modules by themselves, and share no memory of them"
        self._log.warning("fork_server_lost", reason=reason, means=means, again_after_s=RESTART_S)
        self._end()
        self._again = asyncio.get_running_loop().call_later(RESTART_S, self.start_soon)

    def start_soon(self) -> None:
        """Starts the server while the daemon goes on; until it is ready, workers start without it."""
        self._starting = asyncio.get_running_loop().create_task(self.start())

    def _end(self) -> None:
        self.is_ready = False
        self._placed.close()
        sock, self._socket = self._socket, None
        process, self._process = self._process, None
        if sock is not None:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        if process is not None:
            process.kill()
            process.wait()
