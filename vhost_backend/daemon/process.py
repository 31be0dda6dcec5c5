"""Worker process: spawned, watched through a pidfd, killed and always reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

from vhost_backend.config.daemon import VmConfig
from vhost_backend.engines.base import HostView
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import EngineError, HostError
from vhost_backend.sandbox.spawn import WORKER_ENVIRONMENT, worker_command


@dataclass(frozen=True, slots=True)
class Copying:
    """Start of a worker as a copy of a process that has loaded its modules."""

    options: Sequence[str]
    """Options of the launcher."""
    copy: Callable[[Sequence[str], int, int], int]
    """Starts a launcher with (options, the worker's socket, its stderr), as a child of ours; returns its process id. Raises
    `OSError`."""
    program: Callable[[int], Sequence[str]]
    """Builds the command line for a worker with this socket that is no copy, where none can be made."""


WorkerCommand: TypeAlias = Callable[[VmConfig, int], Sequence[str] | Copying]
"""Builds the command line of a VM's worker, which inherits the given descriptor, or tells how it starts without one."""

EXIT_FATAL: Final = 86
"""Exit code of a worker that could not go on, VGC_EXIT_FATAL of vgc_engine.h."""

EXIT_UNKNOWN: Final = 1 << 16
"""In place of the exit code of a worker that an earlier daemon has started, and of which nobody has told it."""
_STATUS_WAIT_S: Final = 0.2
"""Longest time to wait for the exit status of such a worker."""

KILL_GRACE_S: Final = 0.1
"""Time between SIGTERM, on which the launcher kills its worker's processes, and SIGKILL for the launcher itself."""

STDERR_TAIL_BYTES: Final = 4096
_PASSED_ON: Final = (
    *("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS"),  # for builds with sanitizers
    "LD_LIBRARY_PATH",  # some container images put the NVIDIA driver there
)


def sandboxed_worker(config: VmConfig, fd: int) -> Sequence[str]:
    """Builds the command line of a worker in its sandbox, with the files and devices that its engine needs.

    :raise HostError: the host cannot isolate the worker as configured, or what the engine needs must not be shown to it.
    """
    return walled(config, (sys.executable, "-m", "vhost_backend.worker", "--fd", str(fd)), fd)


def walled(config: VmConfig, argv: Sequence[str], fd: int) -> Sequence[str]:
    """Builds the command line of the launcher that runs `argv` as `sandboxed_worker` runs a worker.

    :raise HostError: as there.
    """
    view = host_view(config)
    try:
        return worker_command(
            argv,
            kept_fds=(fd,),
            mode=config.sandbox,
            readonly_paths=view.paths,
            devices=view.devices,
            proc=view.proc,
            quarters=config.quarters,
        )
    except ValueError as error:
        raise HostError(str(error)) from error


def host_view(config: VmConfig) -> HostView:
    """Parts of the host that the engine of a VM's worker needs.

    :raise HostError: this host does not have them.
    """
    try:
        return engine_class(config.engine.kind).view(config.engine.options)
    except (EngineError, ValueError) as error:
        raise HostError(str(error)) from error


def environment() -> dict[str, str]:
    """Environment of a worker, without anything else: guest code in it must find no secrets."""
    return {**WORKER_ENVIRONMENT, **{key: os.environ[key] for key in _PASSED_ON if key in os.environ}}


class _Copy:
    """A child of ours that another process has made; as much of `subprocess.Popen` as is needed."""

    def __init__(self, how: Copying, fd: int) -> None:
        """:raise OSError: it does not start."""
        stderr, theirs = os.pipe()
        self.stderr = os.fdopen(stderr, "rb", buffering=0)
        try:
            self.pid = how.copy(how.options, fd, theirs)
        except OSError:
            self.stderr.close()
            raise
        finally:
            os.close(theirs)
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """:raise subprocess.TimeoutExpired: it has not ended in time."""
        poll = select.poll()
        pidfd = os.pidfd_open(self.pid)
        try:
            poll.register(pidfd, select.POLLIN)
            poll.poll(None if timeout is None else timeout * 1000)
        finally:
            os.close(pidfd)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return code


class _Orphan:
    """A worker that an earlier daemon has started; as much of `subprocess.Popen` as is needed."""

    def __init__(self, pid: int, pidfd: int, stderr: int) -> None:
        """Takes `stderr` over; `pidfd` stays the caller's."""
        self.pid = pid
        self.stderr = os.fdopen(stderr, "rb", buffering=0)
        self.status: int | None = None
        """Wait status, once the keeper has told it."""
        self._pidfd = pidfd

    def poll(self) -> int | None:
        if self.status is not None:
            return os.waitstatus_to_exitcode(self.status)
        return EXIT_UNKNOWN if _is_readable(self._pidfd, 0) else None

    def wait(self, timeout: float | None = None) -> int:
        """:raise subprocess.TimeoutExpired: it has not ended in time."""
        _is_readable(self._pidfd, timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return code


def _is_readable(fd: int, timeout_s: float | None) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


@dataclass(frozen=True, slots=True)
class Kept:
    """Worker process of an earlier daemon: what this one has of it, and owns."""

    pid: int
    pidfd: int
    sock: socket.socket
    stderr: int
    first_seq: int
    """Number from which messages of this daemon count."""
    watch: Callable[[int, Callable[[int], None]], None]
    """Has a function called with the wait status of a process once it has ended."""


class WorkerProcess:
    """Running worker process. `on_exit` is called once, from the loop, after the process has been reaped.

    `on_words` is called when something was written to its stderr; the launcher does so when a signal stops the worker.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str] | Copying] | Kept,
        on_exit: Callable[[], None],
        on_words: Callable[[], None],
    ) -> None:
        """Starts the process of `command`, which gets one end of a socket pair; the other, `self.sock`, is the caller's. Or
        takes over one that an earlier daemon has started.

        :raise OSError: the host cannot start the process.
        :raise HostError: the host cannot isolate the process.
        """
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._on_words = on_words
        self._tail = bytearray()
        self._process: subprocess.Popen[bytes] | _Copy | _Orphan
        self._late: asyncio.TimerHandle | None = None
        if isinstance(command, Kept):
            self.sock, self.pidfd = command.sock, command.pidfd
            self._process = orphan = _Orphan(command.pid, command.pidfd, command.stderr)
            command.watch(orphan.pid, lambda status: self._on_told(orphan, status))
        else:
            self.sock, self._process = _started(command)
            self.pidfd = os.pidfd_open(self._process.pid)
        self.pid = self._process.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.stderr: IO[bytes] = self._process.stderr  # type: ignore[assignment]  # it is a PIPE
        os.set_blocking(self.stderr.fileno(), False)
        self._loop.add_reader(self.stderr, self._read_stderr)
        self._loop.add_reader(self.pidfd, self._on_end)

    def kill(self) -> None:
        """Kills the process without waiting; `exited` follows within moments. Does nothing if it has exited."""
        self._signal(signal.SIGTERM)
        self._loop.call_later(KILL_GRACE_S, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError):  # the keeper has reaped it
                signal.pidfd_send_signal(self.pidfd, number)

    def kill_and_reap(self) -> None:
        """Kills the process and waits for its end without the loop; a killed process does not take long."""
        if not self.exited.done():
            self.kill()
            try:
                self._process.wait(KILL_GRACE_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
            self._reap()

    def last_words(self) -> str:
        """Last part of the process's stderr."""
        return self._tail.decode(errors="replace").strip()

    def _read_stderr(self) -> None:
        """Drains the pipe, so that a worker that floods it neither blocks nor uses memory."""
        data = self.stderr.read(STDERR_TAIL_BYTES * 4)
        if data == b"":
            self._loop.remove_reader(self.stderr)
        self._tail += data or b""
        del self._tail[:-STDERR_TAIL_BYTES]
        if data:
            self._on_words()

    def _on_end(self) -> None:
        if not isinstance(self._process, _Orphan):
            self._reap()
            return
        self._loop.remove_reader(self.pidfd)
        self._late = self._loop.call_later(_STATUS_WAIT_S, self._reap)  # the keeper reaps it, and tells

    def _on_told(self, orphan: _Orphan, status: int) -> None:
        orphan.status = status
        if not self.exited.done():
            self._reap()

    def _reap(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        if self._late is not None:
            self._late.cancel()
        self._loop.remove_reader(self.pidfd)
        os.close(self.pidfd)
        self._read_stderr()
        self._loop.remove_reader(self.stderr)
        self.stderr.close()
        self.exited.set_result(code)
        self._on_exit()


def _started(
    command: Callable[[int], Sequence[str] | Copying],
) -> tuple[socket.socket, subprocess.Popen[bytes] | _Copy]:
    """Starts the process of `command`; returns our end of its socket, too.

    :raise OSError, HostError: as `WorkerProcess`.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as undo:
        undo.callback(ours.close)
        with theirs:
            how = command(theirs.fileno())
            if not isinstance(how, Copying):
                process = _program(how, theirs.fileno())
                undo.pop_all()
                return ours, process
            with contextlib.suppress(OSError):
                copy = _Copy(how, theirs.fileno())
                undo.pop_all()
                return ours, copy
    return _started(how.program)  # with another socket: a copy may have this one of which we do not know


def _program(argv: Sequence[str], fd: int) -> subprocess.Popen[bytes]:
    """:raise OSError: it does not start."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(fd,),
        env=environment(),
        start_new_session=True,
    )


def worker_of(pid: int) -> int:
    """Number of the worker that the daemon started as `pid`: a launcher with the worker as its child, or the worker."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if not _is_init(child):
                return int(child)
    return pid


def _is_init(pid: str) -> bool:
    """True if a process is the first one of a PID namespace: guest code may give its process that one's name, not its number
    [pid_namespaces(7); proc_pid_status(5), "NSpid"].

    :raise OSError: it is gone.
    """
    for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
        if line.startswith(b"NSpid:"):
            numbers = line.split()[1:]
            return len(numbers) > 1 and numbers[-1] == b"1"
    return False


def describe_exit(code: int) -> str:
    """Describes an exit code in words."""
    if code == EXIT_FATAL:
        return f"ended itself (exit code {code}): the guest's code faulted or ran too long, or the GPU was lost"
    if code == EXIT_UNKNOWN:
        return "has ended, and the vgcd that had started it before"
    if code >= 0:
        return f"exited with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
