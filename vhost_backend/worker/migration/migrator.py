"""Answers the migration messages of the daemon (`vhost_backend.worker_protocol.migration_messages`).

Nothing here blocks the worker's main thread for long: lengthy work is done in slices, between which it serves the
daemon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from vhost_backend.engines.base import Engine, ProgramError
from vhost_backend.worker.migration.file import Transfer, TransferError
from vhost_backend.worker.migration.loader import Loader
from vhost_backend.worker.migration.plane import MigrationPlane
from vhost_backend.worker.migration.saver import Saver
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from vhost_backend.worker.programs import Programs
from vhost_backend.worker.registrations import Registrations
from vhost_backend.worker_protocol.codec import close_fds
from vhost_backend.worker_protocol.migration_messages import (
    Measured,
    MigrationHold,
    MigrationLoad,
    MigrationMeasure,
    MigrationMessage,
    MigrationRelease,
    MigrationSave,
    Saved,
)

REFUSALS = (DataPlaneError, ProgramError, TransferError)


class Answering(Protocol):
    """Messages to the daemon."""

    def ack(self, seq: int, error: str = "") -> None: ...

    def tell(self, message: Measured | Saved) -> None: ...


@dataclass(slots=True)
class _Hold:
    """Unanswered `MigrationHold`."""

    seq: int
    until: float
    holding: bool = False


@dataclass(slots=True)
class _Write:
    """Unanswered `MigrationSave`."""

    seq: int
    transfer: Transfer
    fd: int
    slices: Iterator[int]
    copied: int = 0


class Migrator:
    """Answers each message once; `step` continues unfinished ones."""

    def __init__(
        self,
        engine: Engine,
        plane: DataPlane,
        programs: Programs,
        *,
        registrations: Registrations,
        is_compiling: Callable[[], bool],
        daemon: Answering,
    ) -> None:
        """`is_compiling` is true while a request in flight waits for the compiler."""
        self._engine = engine
        self._plane = MigrationPlane(plane)
        self._programs = programs
        self._registrations = registrations
        self._is_compiling = is_compiling
        self._daemon = daemon
        self._hold: _Hold | None = None
        self._saver: Saver | None = None
        self._write: _Write | None = None

    def handle(self, message: MigrationMessage, fds: tuple[int, ...]) -> None:
        """Begins or executes a message; takes `fds` over."""
        match message:
            case MigrationHold():
                self._give_up_hold("another message to hold")
                self._hold = _Hold(message.seq, time.monotonic() + message.timeout_ms / 1000)
            case MigrationMeasure():
                self._answer(message.seq, self._measure)
            case MigrationSave():
                self._begin_write(message.seq, fds[0])
            case MigrationLoad():
                self._load(message.seq, fds[0])
            case MigrationRelease():
                self._release()
                self._daemon.ack(message.seq)

    def wait_ms(self, wait_ms: int | None) -> int | None:
        """Milliseconds until `step` has work, at most `wait_ms` (None: for ever)."""
        if self._write is not None:
            return 0
        if self._hold is None:
            return wait_ms
        left_ms = max(0, int((self._hold.until - time.monotonic()) * 1000) + 1)
        return left_ms if wait_ms is None else min(wait_ms, left_ms)

    def step(self) -> None:
        """Does one slice of unfinished work."""
        if self._hold is not None:
            self._step_hold(self._hold)
        if self._write is not None:
            self._step_write(self._write)

    # ---- holding ---------------------------------------------------------------------------------

    def _step_hold(self, hold: _Hold) -> None:
        """Holds the VM once no program is being compiled, so that it can compute during a compilation."""
        if not hold.holding and not self._is_compiling():
            hold.holding = True
            self._plane.hold()
        if hold.holding and self._plane.in_flight == 0:
            self._hold = None
            self._daemon.ack(hold.seq)
        elif time.monotonic() >= hold.until:
            what = "programs are being compiled" if not hold.holding else "they did not end in time"
            self._give_up_hold(f"{self._plane.in_flight} requests are in flight, and {what}")

    def _give_up_hold(self, reason: str) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            self._plane.release()
            self._daemon.ack(hold.seq, reason)

    def _release(self) -> None:
        self._give_up_hold("requests are taken again")
        self._end_write("given up")
        self._saver = None
        self._plane.release()

    def give_up(self) -> None:
        """Takes requests again: the daemon that migrated the VM is gone."""
        self._release()

    # ---- saving ----------------------------------------------------------------------------------

    def _measure(self) -> None:
        self._saver = Saver(self._engine, self._plane, self._programs, self._registrations)
        memory = self._saver.memory_bytes
        self._daemon.tell(Measured(memory, self._saver.size_bytes - memory))

    def _begin_write(self, seq: int, fd: int) -> None:
        self._end_write("another message to save")
        saver = self._saver
        try:
            transfer = None if saver is None else Transfer(fd, writable=True)
            error = "" if transfer else "nothing has been measured"
        except TransferError as refusal:
            transfer, error = None, str(refusal)
        if saver is None or transfer is None:
            close_fds((fd,))
            self._daemon.ack(seq, error)
        else:
            self._write = _Write(seq, transfer, fd, saver.write(transfer))

    def _step_write(self, write: _Write) -> None:
        try:
            write.copied += next(write.slices)
        except StopIteration:
            self._daemon.tell(Saved(write.copied))
            self._end_write("")
        except REFUSALS as error:
            self._end_write(str(error))

    def _end_write(self, error: str) -> None:
        write, self._write = self._write, None
        if write is not None:
            self._daemon.ack(write.seq, error)  # before unmapping, which takes time while the guest waits
            write.transfer.close()
            close_fds((write.fd,))

    # ---- loading ---------------------------------------------------------------------------------

    def _load(self, seq: int, fd: int) -> None:
        try:
            with Transfer(fd, writable=False) as transfer:
                Loader(self._engine, self._plane, self._programs, self._registrations, transfer).run()
                self._daemon.ack(seq)
        except REFUSALS as error:
            self._daemon.ack(seq, str(error))
        finally:
            close_fds((fd,))

    def _answer(self, seq: int, act: Callable[[], None]) -> None:
        try:
            act()
        except REFUSALS as error:
            self._daemon.ack(seq, str(error))
        else:
            self._daemon.ack(seq)
