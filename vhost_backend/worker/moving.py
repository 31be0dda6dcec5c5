"""A worker's part in moving its VM's work to another one: the messages of `vhost_backend.worker.moving_messages`.

Nothing here keeps the control thread long: what takes time is done in slices, between which it serves the daemon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from vhost_backend.engines.base import Engine, ProgramError
from vhost_backend.worker.codec import close_fds
from vhost_backend.worker.loading import Loading
from vhost_backend.worker.moving_messages import (
    Measured,
    MoveHold,
    MoveLoad,
    MoveMeasure,
    MoveMessage,
    MoveRelease,
    MoveSave,
    Saved,
)
from vhost_backend.worker.moving_plane import MovingPlane
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from vhost_backend.worker.programs import Programs
from vhost_backend.worker.saving import Saving
from vhost_backend.worker.transfer import Transfer, TransferError

REFUSALS = (DataPlaneError, ProgramError, TransferError)


class Answering(Protocol):
    """How the daemon is told."""

    def ack(self, seq: int, error: str = "") -> None: ...

    def tell(self, message: Measured | Saved) -> None: ...


@dataclass(slots=True)
class _Hold:
    """`MoveHold` that is not answered yet."""

    seq: int
    until: float
    holding: bool = False


@dataclass(slots=True)
class _Write:
    """`MoveSave` under way."""

    seq: int
    transfer: Transfer
    fd: int
    slices: Iterator[int]
    copied: int = 0


class Mover:
    """Answers each message once; `step` goes on with what is under way."""

    def __init__(
        self,
        engine: Engine,
        plane: DataPlane,
        programs: Programs,
        is_compiling: Callable[[], bool],
        daemon: Answering,
    ) -> None:
        """`is_compiling`: whether a request in flight waits for the compiler, which may take its time."""
        self._engine = engine
        self._plane = MovingPlane(plane)
        self._programs = programs
        self._is_compiling = is_compiling
        self._daemon = daemon
        self._hold: _Hold | None = None
        self._saving: Saving | None = None
        self._write: _Write | None = None

    def handle(self, message: MoveMessage, fds: tuple[int, ...]) -> None:
        """Takes `fds` over."""
        match message:
            case MoveHold():
                self._give_up_hold("another message to hold")
                self._hold = _Hold(message.seq, time.monotonic() + message.timeout_ms / 1000)
            case MoveMeasure():
                self._answer(message.seq, self._measure)
            case MoveSave():
                self._begin_write(message.seq, fds[0])
            case MoveLoad():
                self._load(message.seq, fds[0])
            case MoveRelease():
                self._release()
                self._daemon.ack(message.seq)

    def wait_ms(self, wait_ms: int | None) -> int | None:
        """How long there is nothing to do for `step`, but no longer than `wait_ms` (None: for ever)."""
        if self._write is not None:
            return 0
        if self._hold is None:
            return wait_ms
        left_ms = max(0, int((self._hold.until - time.monotonic()) * 1000) + 1)
        return left_ms if wait_ms is None else min(wait_ms, left_ms)

    def step(self) -> None:
        """A slice of work."""
        if self._hold is not None:
            self._step_hold(self._hold)
        if self._write is not None:
            self._step_write(self._write)

    # ---- holding ---------------------------------------------------------------------------------

    def _step_hold(self, hold: _Hold) -> None:
        """Programs that are being compiled are waited for first: others compute meanwhile."""
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
        self._saving = None
        self._plane.release()

    # ---- saving ----------------------------------------------------------------------------------

    def _measure(self) -> None:
        self._saving = Saving(self._engine, self._plane, self._programs)
        memory = self._saving.memory_bytes
        self._daemon.tell(Measured(memory, self._saving.size_bytes - memory))

    def _begin_write(self, seq: int, fd: int) -> None:
        self._end_write("another message to save")
        saving = self._saving
        try:
            transfer = None if saving is None else Transfer(fd, writable=True)
            error = "" if transfer else "nothing has been measured"
        except TransferError as refusal:
            transfer, error = None, str(refusal)
        if saving is None or transfer is None:
            close_fds((fd,))
            self._daemon.ack(seq, error)
        else:
            self._write = _Write(seq, transfer, fd, saving.write(transfer))

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
            self._daemon.ack(write.seq, error)  # unmapping takes its time, and a guest waits
            write.transfer.close()
            close_fds((write.fd,))

    # ---- loading ---------------------------------------------------------------------------------

    def _load(self, seq: int, fd: int) -> None:
        try:
            with Transfer(fd, writable=False) as transfer:
                Loading(self._engine, self._plane, self._programs, transfer).run()
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
