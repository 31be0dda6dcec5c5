"""Programs of the engine's own: what its built-in functions run, compiled by the daemon when they first need it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from vhost_backend.engines.base import Engine
from vhost_backend.errors import DriverError
from vhost_backend.worker.programs import OF_HOST, Programs
from vhost_backend.worker_protocol.codec import close_fds
from vhost_backend.worker_protocol.protocol import HostProgram, Program
from virtio_proto.schema import Status


class Link(Protocol):
    """The daemon, and changes of programs, which wait for the engine."""

    def send(self, message: HostProgram) -> None: ...

    def change(self, act: Callable[[], None], fds: Sequence[int] = ()) -> None:
        """Calls `act` once the engine is ready; takes `fds` over."""
        ...


class HostPrograms:
    """Gets the programs that operations of the engine wait for."""

    def __init__(self, engine: Engine, programs: Programs, link: Link) -> None:
        self._engine = engine
        self._programs = programs
        self._link = link
        self._asked: dict[int, str] = {}
        """Names of the programs that the daemon was asked for, by request number."""

    def is_busy(self) -> bool:
        """True while the daemon was asked for a program."""
        return bool(self._asked)

    def ask(self, number: Callable[[], int]) -> None:
        """Asks the daemon for the programs that nobody was asked for yet; `number` makes request numbers."""
        for name in self._engine.wanted_programs():
            request = number()
            self._asked[request] = name
            self._link.send(HostProgram(request, name))

    def ask_again(self) -> None:
        """Asks another daemon for the programs that the one before has not answered."""
        for request, name in self._asked.items():
            self._link.send(HostProgram(request, name))

    def on_program(self, answer: Program, fds: tuple[int, ...]) -> bool:
        """Handles the daemon's answer, and takes `fds` over; false: it answers something else."""
        name = self._asked.pop(answer.request, None)
        if name is None:
            return False
        if answer.ok:
            self._link.change(lambda: self._load(name, fds[0]), fds)
            return True
        close_fds(fds)
        text = f"the host cannot compile its kernels: {answer.log}"
        self._engine.refuse_program(name, DriverError(Status.COMPILE_FAILED, text))
        return True

    def _load(self, name: str, image_fd: int) -> None:
        try:
            entry = self._programs.add(OF_HOST, image_fd, os.fstat(image_fd).st_size)
        except DriverError as error:
            self._engine.refuse_program(name, error)
            return
        try:
            self._engine.use_program(name, entry.loaded)
        except DriverError as error:
            self._programs.remove(entry.id)
            self._engine.refuse_program(name, error)
