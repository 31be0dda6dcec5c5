"""Takeover of a worker that an earlier daemon has started: its process and files, and its first words to this daemon."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.daemon.process import KILL_GRACE_S, Kept, WorkerProcess
from vhost_backend.daemon.records import WorkerRecord
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.keeper.client import Keeper
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import Compile, HostProgram, Ready, WorkerMessage
from vhost_backend.worker_protocol.registration_messages import Register

MAX_TAKEOVERS: Final = 1 << 11
SEQ_BITS: Final = 20
"""Messages of one daemon to a worker that it has taken over are told from another's by the bits of their numbers above these."""


@dataclass(frozen=True, slots=True)
class _Number:
    """Descriptor that something else owns."""

    owner: object
    number: int

    def fileno(self) -> int:
        return self.number


def descriptors(process: WorkerProcess, link: WorkerLink, files: Sequence[Fd]) -> dict[str, HasFileno]:
    """Descriptors of a worker that the next daemon needs, by name: of its process, its link and its source files."""
    there: dict[str, HasFileno] = {f"source{number}": file for number, file in enumerate(files)}
    return {**there, "link": link, "pidfd": _Number(process, process.pidfd), "stderr": process.stderr}


def process_of(record: WorkerRecord, fds: dict[str, Fd], keeper: Keeper) -> tuple[Kept, tuple[Fd, ...]]:
    """Worker process of an earlier daemon, and its source files, out of its `descriptors`; the caller owns all of it."""
    process = Kept(
        record.pid,
        fds.pop("pidfd").release(),
        socket.socket(fileno=fds.pop("link").release()),
        fds.pop("stderr").release(),
        (record.takeovers + 1) % MAX_TAKEOVERS + 1 << SEQ_BITS,
        keeper.watch_exit,
    )
    return process, tuple(fds.pop(f"source{number}") for number in range(NUM_SOURCES))


def end(fds: dict[str, Fd]) -> None:
    """Ends a worker that an earlier daemon has left and this one does not take over, by its `descriptors`, which are closed."""
    pidfd = fds.pop("pidfd", None)
    for fd in fds.values():
        fd.close()
    if pidfd is not None:
        _signal(pidfd, signal.SIGTERM)
        asyncio.get_running_loop().call_later(KILL_GRACE_S, _kill, pidfd)


def _kill(pidfd: Fd) -> None:
    _signal(pidfd, signal.SIGKILL)
    pidfd.close()


def _signal(pidfd: Fd, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd.fileno(), number)


class WorkerTakeover:
    """Takeovers of one worker; a worker that this daemon has started has had none."""

    def __init__(self) -> None:
        self.count = 0
        """Daemons that have taken the worker over."""
        self._link: WorkerLink | None = None
        self._is_silent = False
        """True while the worker has not said `Resumed`: its requests are another daemon's."""

    def begin(self, link: WorkerLink, takeovers: int, patience_s: float, grant: int | None) -> None:
        """Has a worker resume that was taken over before, `takeovers` times. It is lost if it does not in `patience_s`.

        Messages that follow need not wait for that: the worker reads them later. `grant`: descriptor of the grant for its
        gate; None: it takes no turns.
        """
        self.count = takeovers + 1
        self._link = link
        self._is_silent = True
        fds = () if grant is None else (grant,)
        link.post(lambda seq: protocol.Resume(seq, bool(fds)), fds, patience_s)

    def end_silence(self, link: WorkerLink) -> bool:
        """Notes that a worker has said `Resumed`; False: nobody has asked it."""
        was_silent = self._is_silent and link is self._link
        if was_silent:
            self._is_silent = False
        return was_silent

    def is_for_another(self, link: WorkerLink, message: WorkerMessage) -> bool:
        """True if a worker has said to the daemon before what it says to this one again."""
        if link is not self._link:
            return False
        return isinstance(message, Ready) or (self._is_silent and isinstance(message, Compile | HostProgram | Register))
