"""Programs that the guest registers for the whole VM.

The daemon keeps their sources: the guest is answered once it has, and a new worker gets from it the programs that the last
one had (`Registrations.restore`). A program that does not compile or load any more stays in the table, without functions,
until the guest unregisters it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from vhost_backend.engines.base import FunctionInfo
from vhost_backend.errors import DriverError
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from vhost_backend.worker.programs import OF_VM, LoadedEntry, Programs
from vhost_backend.worker_protocol.codec import close_fds
from vhost_backend.worker_protocol.registration_messages import (
    MAX_SIGNATURE,
    MAX_SIGNATURES,
    Register,
    Registered,
    Restore,
    Unregister,
)
from virtio_proto.parameter_text import signature
from virtio_proto.schema import Status

_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_MAX_REQUEST: Final = (1 << 32) - 1


def signature_of(info: FunctionInfo) -> str:
    """Name and parameters of a function, for people: ``saxpy(int32, float32, pointer)``."""
    kinds_and_sizes = zip(info.kinds(), (size for _, size in info.params), strict=True)
    return _UNPRINTABLE.sub("?", signature(info.short_name, kinds_and_sizes))[:MAX_SIGNATURE]


def name_in(signature: str) -> str:
    """Function's name in its signature."""
    return signature.partition("(")[0]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Program that a guest wants to register: its content, and the file that carries it."""

    kind: int
    options: tuple[str, ...]
    digest: bytes
    source_number: int
    keep: bool


@dataclass(frozen=True, slots=True)
class Registration:
    """Registered program. `number` is the daemon's; `program` the id by which this worker's guest unloads it."""

    number: int
    program: int
    digest: bytes
    keep: bool
    problem: str = ""
    """Reason why it has no functions any more; "" if it has."""
    signatures: tuple[str, ...] = ()
    """Functions that it had, if it has a problem."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Registration whose turn comes."""

    candidate: Candidate
    image_fd: int
    done: Callable[[LoadedEntry | DriverError], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Registration that the daemon has not answered."""

    waiting: _Waiting
    entry: LoadedEntry
    message: Register
    is_new: bool
    """It has loaded the program."""


class Link(Protocol):
    """The daemon, and changes of programs, which wait for the engine."""

    def send(self, message: Register | Unregister) -> None: ...

    def change(self, act: Callable[[], None], fds: Sequence[int] = ()) -> None:
        """Calls `act` once the engine is ready; takes `fds` over."""
        ...


class Registrations:
    """Table of the VM's registered programs. Registers one program after the other."""

    def __init__(self, programs: Programs, plane: DataPlane, link: Link) -> None:
        self._programs = programs
        self._plane = plane
        self._link = link
        self._by_digest: dict[bytes, Registration] = {}
        self._by_program: dict[int, Registration] = {}
        self._entries: dict[int, LoadedEntry] = {}
        """Programs that have functions, by id."""
        self._queue: deque[_Waiting] = deque()
        self._is_under_way = False
        """True from when a registration has its turn to its end."""
        self._asked: _Asked | None = None
        self._request = 0
        """Number of the last `Register`."""

    def __iter__(self) -> Iterator[tuple[Registration, LoadedEntry | None]]:
        """Iterates over the registrations in their order, each with its program; None: it has a problem."""
        return ((one, self._entries.get(one.program)) for one in self._by_program.values())

    def is_busy(self) -> bool:
        """True while a guest waits for a registration."""
        return self._is_under_way or bool(self._queue)

    # ---- for the guest ---------------------------------------------------------------------------

    def register(self, candidate: Candidate, image_fd: int, done: Callable[[LoadedEntry | DriverError], None]) -> None:
        """Loads a program for the VM, and has the daemon keep it; then calls `done`, with the reason if it failed.

        A program that is registered already is not loaded again. `image_fd` is copied.
        """
        self._queue.append(_Waiting(candidate, os.dup(image_fd), done))
        self._go_on()

    def unload(self, program: int) -> bool:
        """Unregisters a program of which no launch is in flight; false: it is no registered one."""
        registration = self._by_program.pop(program, None)
        if registration is None:
            return False
        self._by_digest.pop(registration.digest, None)
        if self._entries.pop(program, None) is None:
            self._plane.remove_program(program)
        else:
            self._programs.remove(program)
        self._link.send(Unregister(registration.number))
        return True

    def problem_of(self, name: str) -> DriverError | None:
        """Error for a function that a registered program had; None: none had it."""
        for registration in self._by_program.values():
            if registration.problem and name in map(name_in, registration.signatures):
                return DriverError(
                    Status.COMPILE_FAILED,
                    f"function '{name[:200]}' is registered, but its program cannot be loaded any more; "
                    f"register it anew. The reason: {registration.problem}",
                )
        return None

    def ask_again(self) -> None:
        """Asks another daemon for what the one before has not answered."""
        if self._asked is not None:
            self._link.send(self._asked.message)

    # ---- for the daemon --------------------------------------------------------------------------

    def on_registered(self, answer: Registered) -> None:
        """Handles the daemon's answer to a `Register`."""
        asked, self._asked = self._asked, None
        if asked is None or answer.request != self._request:
            return
        entry, candidate = asked.entry, asked.waiting.candidate
        if answer.number != 0:
            known = self._by_digest.get(candidate.digest)
            keep = candidate.keep or (known is not None and known.keep)
            self._drop_broken(candidate.digest)
            self._note(Registration(answer.number, entry.id, candidate.digest, keep), entry)
            self._end(asked.waiting, entry)
            return
        refusal = DriverError(Status.RESOURCES_EXHAUSTED, answer.why)
        if not asked.is_new:
            self._end(asked.waiting, refusal)
            return

        def undo() -> None:
            self._programs.remove(entry.id)
            self._end(asked.waiting, refusal)

        self._link.change(undo)

    def restore(self, message: Restore, fds: tuple[int, ...]) -> str:
        """Registers a program that an earlier worker had; returns why it has no functions any more, or "".

        Takes `fds` over. A guest that has registered it meanwhile has it already.
        """
        try:
            if message.digest in self._by_digest:
                return ""
            if fds:
                entry = self._loaded(fds[0])
                self._note(Registration(message.number, entry.id, message.digest, message.keep), entry)
                return ""
            problem = message.log or "unknown"
        except DriverError as error:
            problem = str(error)
        finally:
            close_fds(fds)
        self._add_broken(message, problem)
        return problem

    def _add_broken(self, message: Restore, problem: str) -> None:
        """Notes a program that has no functions any more. Without room in the table it is not noted."""
        try:
            program = self._plane.add_program(OF_VM, 0)
        except DataPlaneError:
            return
        keep, signatures = message.keep, message.signatures
        self._note(Registration(message.number, program, message.digest, keep, problem, signatures), None)

    def add_migrated(self, registration: Registration) -> None:
        """Notes a registered program from another worker, which has its id in the data plane already."""
        found = (entry for entry in self._programs if entry.id == registration.program)
        self._note(registration, None if registration.problem else next(found))

    # ----------------------------------------------------------------------------------------------

    def _note(self, registration: Registration, entry: LoadedEntry | None) -> None:
        self._by_digest[registration.digest] = registration
        self._by_program[registration.program] = registration
        if entry is not None:
            self._entries[entry.id] = entry

    def _drop_broken(self, digest: bytes) -> None:
        """Forgets a program that had no functions: it is registered anew."""
        known = self._by_digest.get(digest)
        if known is not None and known.problem:
            del self._by_program[known.program]
            self._plane.remove_program(known.program)

    def _go_on(self) -> None:
        """Begins the next registration, unless one is under way."""
        if self._is_under_way or not self._queue:
            return
        self._is_under_way = True
        waiting = self._queue.popleft()
        self._link.change(lambda: self._load(waiting), (waiting.image_fd,))

    def _end(self, waiting: _Waiting, result: LoadedEntry | DriverError) -> None:
        self._is_under_way = False
        waiting.done(result)
        self._go_on()

    def _load(self, waiting: _Waiting) -> None:
        """Loads the program if it is new, and asks the daemon to keep it."""
        candidate = waiting.candidate
        known = self._by_digest.get(candidate.digest)
        entry = None if known is None else self._entries.get(known.program)
        if entry is not None and known is not None and known.keep >= candidate.keep:
            self._end(waiting, entry)
            return
        is_new = entry is None
        try:
            entry = entry or self._loaded(waiting.image_fd)
        except DriverError as error:
            self._end(waiting, error)
            return
        self._request = self._request % _MAX_REQUEST + 1
        message = Register(
            self._request,
            candidate.kind,
            candidate.options,
            candidate.source_number,
            candidate.keep,
            len(entry.functions),
            tuple(signature_of(function.info) for function in entry.functions[:MAX_SIGNATURES]),
        )
        self._asked = _Asked(waiting, entry, message, is_new=is_new)
        self._link.send(message)

    def _loaded(self, image_fd: int) -> LoadedEntry:
        """Loads a program for the VM.

        :raise DriverError: it cannot be loaded.
        """
        return self._programs.add(OF_VM, image_fd, os.fstat(image_fd).st_size)
