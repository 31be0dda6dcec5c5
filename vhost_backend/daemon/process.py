"""A worker process: spawned, watched through a pidfd, killed and always reaped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

WORKER_COMMAND: Final = (sys.executable, "-m", "vhost_backend.worker")
STDERR_TAIL_BYTES: Final = 4096
_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[2]
_KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")


def _environment() -> dict[str, str]:
    """Only what a worker needs: it may run guest code, which must find no secrets here."""
    kept = {key: os.environ[key] for key in _KEPT_VARIABLES if key in os.environ}
    kept |= {key: value for key, value in os.environ.items() if key.startswith("VGC_")}
    paths = [str(_PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


class WorkerProcess:
    """One running worker. `on_exit` is called once, from the loop, after it has been reaped."""

    def __init__(self, command: Sequence[str], on_exit: Callable[[], None]) -> None:
        """Spawns it, connected to `self.sock`, which the caller owns.

        :raise OSError: when the host cannot start it.
        """
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._tail = bytearray()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    [*command, "--fd", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    env=_environment(),
                    start_new_session=True,
                )
        except OSError:
            self.sock.close()
            raise
        self.pid = self._process.pid
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._stderr: IO[bytes] = self._process.stderr  # type: ignore[assignment]  # it is a PIPE
        os.set_blocking(self._stderr.fileno(), False)
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._stderr, self._read_stderr)
        self._loop.add_reader(self._pidfd, self._reap)

    def kill(self) -> None:
        """Sends SIGKILL; `exited` follows. Nothing happens if it has exited."""
        if not self.exited.done():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def kill_and_reap(self) -> None:
        """Kills it and waits, for when the loop ends: a killed process does not take long."""
        if not self.exited.done():
            self.kill()
            self._process.wait()
            self._reap()

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._tail.decode(errors="replace").strip()

    def _read_stderr(self) -> None:
        """Drains the pipe, so that a worker that floods it neither blocks nor fills anything."""
        data = self._stderr.read(STDERR_TAIL_BYTES * 4)
        if data == b"":
            self._loop.remove_reader(self._stderr)
        self._tail += data or b""
        del self._tail[:-STDERR_TAIL_BYTES]

    def _reap(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._read_stderr()
        self._loop.remove_reader(self._stderr)
        self._stderr.close()
        self.exited.set_result(code)
        self._on_exit()


def describe_exit(code: int) -> str:
    """`code` as a person would say it."""
    if code >= 0:
        return f"exited with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
