"""Cold requests, which Python serves: loading and unloading programs, lookups, marks, the end of a context."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from vhost_backend.engines.base import CodeRange, Engine
from vhost_backend.errors import DriverError
from vhost_backend.worker.function_list import list_payload
from vhost_backend.worker.host_programs import HostPrograms
from vhost_backend.worker.marks import check_body, parse_marks
from vhost_backend.worker.plane import ColdRequest, DataPlane
from vhost_backend.worker.programs import (
    Function,
    LoadedEntry,
    Programs,
    function_payload,
    global_payload,
    program_table,
)
from vhost_backend.worker.registrations import Candidate, Registrations
from vhost_backend.worker.sources import SourceFiles
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.codec import close_fds
from vhost_backend.worker_protocol.marks import MarkBudget
from vhost_backend.worker_protocol.program_terms import MAX_OPTION_CHARS, MAX_OPTIONS
from vhost_backend.worker_protocol.protocol import Compile, HostProgram, Program, WorkerMessage
from vhost_backend.worker_protocol.registration_messages import Register, Restore, Unregister, digest_of
from virtio_proto import schema
from virtio_proto.schema import LIMITS, Opcode, ProgramFlag, ProgramKind, Status

SETTLE_MS: Final = 1
"""Interval at which an engine that was not ready is asked again; the worker serves the daemon meanwhile."""

SendToDaemon = Callable[[WorkerMessage], None]


@dataclass(frozen=True, slots=True)
class _Change:
    act: Callable[[], None]
    fds: Sequence[int]
    request: ColdRequest | None
    """Request that is answered with the error if `act` raises one; None: it raises none."""


class ChangeQueue:
    """Queue of program changes that wait until the engine is ready for them; done in order of arrival."""

    def __init__(self, engine: Engine, plane: DataPlane) -> None:
        self._engine = engine
        self._plane = plane
        self._held: deque[_Change] = deque()

    def add(self, act: Callable[[], None], fds: Sequence[int] = (), request: ColdRequest | None = None) -> None:
        """Has `act` called once the engine is ready; takes `fds` over. `settle` must follow.

        `request` is answered with the `DriverError` that `act` raises.
        """
        self._held.append(_Change(act, fds, request))

    def settle(self) -> bool:
        """Makes the queued changes if the engine is ready. False: changes are left, call again after `SETTLE_MS`."""
        if not self._held:
            return True
        if not self._engine.pause():
            return False
        try:
            while self._held:
                self._do(self._held.popleft())
        finally:
            self._engine.resume()
        return True

    def close(self) -> None:
        """Drops the queued changes; their requests are not completed."""
        if self._held:
            self._engine.resume()
        while self._held:
            close_fds(self._held.popleft().fds)

    def _do(self, change: _Change) -> None:
        try:
            change.act()
        except DriverError as error:
            assert change.request is not None
            self._plane.complete(change.request.token, error.status, text=str(error))
        finally:
            close_fds(change.fds)


@dataclass(frozen=True, slots=True)
class _Load:
    """PROGRAM_LOAD that is under way."""

    request: ColdRequest
    asked: Compile
    """Request to the daemon, with the number of the file that carries the source."""
    to_register: Candidate | None
    """None: the program is the context's."""


class ColdServer:
    """Takes cold requests from the data plane and completes each exactly once."""

    def __init__(self, engine: Engine, plane: DataPlane, send: SendToDaemon, sources: SourceFiles) -> None:
        """Takes `sources` over."""
        self._plane = plane
        self._send = send
        self.programs = Programs(engine, plane)
        self.programs.name_code = self._name_code
        self._changes = ChangeQueue(engine, plane)
        self.registrations = Registrations(self.programs, plane, self)
        self._host_programs = HostPrograms(engine, self.programs, self)
        self._sources = sources
        self._waiting: deque[ColdRequest] = deque()
        """Loads whose source has not been sent yet; it stays in guest memory until a file is free."""
        self._compiling: dict[int, _Load] = {}
        """Loads at the compiler, by request number."""
        self._last_number = 0
        self._mark_budget = MarkBudget()
        self._serve: Mapping[int, Callable[[ColdRequest], None]] = {
            Opcode.PROGRAM_LOAD: self._program_load,
            Opcode.PROGRAM_UNLOAD: self._program_unload,
            Opcode.FUNCTION_LOOKUP: self._function_lookup,
            Opcode.GLOBAL_LOOKUP: self._global_lookup,
            Opcode.FUNCTION_LIST: self._function_list,
            Opcode.CALL: self._unknown_call,
            Opcode.CONTEXT_DESTROY: self._context_destroy,
            Opcode.MARKS: self._pass_marks,
        }

    def close(self) -> None:
        """Unloads every program; only after the data plane has stopped."""
        self._changes.close()
        self.programs.close()
        self._sources.close()

    def _name_code(self, program: int, code: tuple[CodeRange, ...]) -> None:
        ranges = tuple(protocol.CodeRange(one.address, one.size, one.name) for one in code)
        self._send(protocol.CodeNames(program, ranges))

    def serve(self) -> None:
        """Serves all cold requests that have arrived, and asks the daemon for programs that the engine waits for.

        `settle` completes requests that wait for the engine.
        """
        while (request := self._plane.take_cold()) is not None:
            try:
                self._serve[request.opcode](request)
            except DriverError as error:
                self._plane.complete(request.token, error.status, text=str(error))
        self._host_programs.ask(self._number)
        self.settle()

    def is_compiling(self) -> bool:
        """True while a load waits for the compiler, or for a file to send its source in."""
        is_loading = self._compiling or self._waiting
        return bool(is_loading or self.registrations.is_busy() or self._host_programs.is_busy())

    def ask_again(self) -> None:
        """Asks another daemon for all that the one before has not answered."""
        for load in self._compiling.values():
            self._send(load.asked)
        self._host_programs.ask_again()
        self.registrations.ask_again()

    def restore(self, message: Restore, fds: tuple[int, ...], ack: Callable[[int, str], None]) -> None:
        """Registers a program that an earlier worker had, and then acknowledges the message, or says why it could not.

        Takes `fds` over.
        """

        def act() -> None:
            ack(message.seq, self.registrations.restore(message, fds))

        self._changes.add(act)
        self.settle()

    def settle(self) -> bool:
        """Goes on with requests that wait for the engine. False: call again after `SETTLE_MS`."""
        return self._changes.settle()

    def on_program(self, answer: Program, fds: tuple[int, ...]) -> None:
        """Handles the daemon's answer to a `Compile` or `HostProgram`. Takes `fds` over."""
        if not self._host_programs.on_program(answer, fds):
            self._on_compiled(answer, fds)
        self.settle()

    def _on_compiled(self, answer: Program, fds: tuple[int, ...]) -> None:
        load = self._compiling.pop(answer.request, None)
        if load is None:
            close_fds(fds)
        elif not answer.ok:
            close_fds(fds)
            self._reply(load.request, answer.log.encode(), Status.COMPILE_FAILED, full_bytes=answer.log_bytes)
            self._free_source(load.asked.source)
        elif load.to_register is not None:
            self._register(load, load.to_register, answer.log, fds[0])
            close_fds(fds)
        else:
            self._changes.add(lambda: self._load(load, answer.log, fds[0]), fds, load.request)

    # ---- Link of registrations and of the engine's programs ---------------------------------------

    def send(self, message: Register | Unregister | HostProgram) -> None:
        self._send(message)

    def change(self, act: Callable[[], None], fds: Sequence[int] = ()) -> None:
        self._changes.add(act, fds)

    # ---- programs --------------------------------------------------------------------------------

    def _program_load(self, request: ColdRequest) -> None:
        self._waiting.append(request)
        self._compile_waiting()

    def _compile_waiting(self) -> None:
        """Sends sources in order of arrival while files are free."""
        while self._waiting and self._sources.any_free:
            request = self._waiting.popleft()
            try:
                self._compile(request)
            except DriverError as error:
                self._plane.complete(request.token, error.status, text=str(error))

    def _compile(self, request: ColdRequest) -> None:
        body = schema.BODY_PROGRAM_LOAD.construct.parse(request.body)
        start = schema.REQUEST.size_bytes + schema.BODY_PROGRAM_LOAD.size_bytes
        _check_size("options", body.options_len, LIMITS["MAX_OPTIONS_BYTES"])
        _check_size("source", body.source_len, LIMITS["MAX_SOURCE_BYTES"])
        _check_total(request, start + body.options_len + body.source_len)
        if body.kind not in tuple(ProgramKind):
            raise DriverError(Status.UNSUPPORTED, f"program kind {body.kind}; allowed: {[int(k) for k in ProgramKind]}")
        options = _parse_options(self._plane.read(request.token, start, body.options_len))
        source = self._plane.read(request.token, start + body.options_len, body.source_len)
        number = self._number()
        message = Compile(number, request.context, body.kind, options, self._sources.write(source))
        self._compiling[number] = _Load(request, message, _candidate(body, options, source, message.source))
        self._send(message)

    def _number(self) -> int:
        """Number for a request to the daemon."""
        self._last_number = self._last_number + 1 & 0xFFFF_FFFF
        return self._last_number

    def _load(self, load: _Load, log: str, image_fd: int) -> None:
        """Loads an image. The file of its source is free only after that, so that few images wait for the engine."""
        try:
            entry = self.programs.add(load.request.engine_context, image_fd, os.fstat(image_fd).st_size)
            self._reply(load.request, program_table(entry, log), value=entry.id)
        finally:
            self._free_source(load.asked.source)

    def _register(self, load: _Load, candidate: Candidate, log: str, image_fd: int) -> None:
        """Registers an image. The daemon needs the file of its source until then."""

        def done(result: LoadedEntry | DriverError) -> None:
            if isinstance(result, DriverError):
                self._plane.complete(load.request.token, result.status, text=str(result))
            else:
                self._reply(load.request, program_table(result, log), value=result.id)
            self._free_source(load.asked.source)

        self.registrations.register(candidate, image_fd, done)

    def _free_source(self, number: int) -> None:
        self._sources.release(number)
        self._compile_waiting()

    def _program_unload(self, request: ColdRequest) -> None:
        program = schema.BODY_PROGRAM_UNLOAD.construct.parse(request.body).program

        def unload() -> None:
            if not self.registrations.unload(program):
                self.programs.remove(program)
            self._plane.complete(request.token)

        self._changes.add(unload)

    def _context_destroy(self, request: ColdRequest) -> None:
        if self.programs.any_of(request.engine_context):
            self._changes.add(lambda: self._finish_destroy(request))
        else:
            self._finish_destroy(request)

    def _finish_destroy(self, request: ColdRequest) -> None:
        self.programs.remove_context(request.engine_context)
        self._plane.free_context(request.engine_context)
        self._plane.complete(request.token)

    # ---- marks -----------------------------------------------------------------------------------

    def _pass_marks(self, request: ColdRequest) -> None:
        body = schema.BODY_MARKS.construct.parse(request.body)
        start = schema.REQUEST.size_bytes + schema.BODY_MARKS.size_bytes
        check_body(body)
        _check_total(request, start + body.marks_len)
        marks = parse_marks(body, self._plane.read(request.token, start, body.marks_len))
        dropped = self._mark_budget.take(len(marks.marks), marks.dropped)
        if dropped >= 0:
            self._send(msgspec.structs.replace(marks, dropped=dropped))
        self._plane.complete(request.token, value=len(marks.marks) if dropped >= 0 else 0)

    # ---- lookups ---------------------------------------------------------------------------------

    def _function_lookup(self, request: ColdRequest) -> None:
        function = self._find_function(request, *self._name(request))
        self._reply(request, function_payload(function), value=function.id)

    def _find_function(self, request: ColdRequest, program: int, name: str) -> Function:
        """Finds a function.

        :raise DriverError: nothing has this name; the text has the reason if something had it.
        """
        try:
            return self.programs.find_function(request.engine_context, program, name)
        except DriverError as error:
            raise self.registrations.problem_of(name) or error from None

    def _unknown_call(self, request: ColdRequest) -> None:
        """Answers a CALL by a name that the data plane does not know."""
        body = schema.BODY_CALL.construct.parse(request.body)
        start = schema.REQUEST.size_bytes + schema.BODY_CALL.size_bytes
        name = self._plane.read(request.token, start, body.name_len).decode(errors="replace")
        self._find_function(request, 0, name)
        raise DriverError(Status.NOT_FOUND, f"function '{name[:200]}' has been loaded this very moment: call it again")

    def _function_list(self, request: ColdRequest) -> None:
        body = schema.BODY_FUNCTION_LIST.construct.parse(request.body)
        built_in = self.programs.built_in.values()
        payload = list_payload(self.registrations, built_in, self._plane, body.first, request.writable_len)
        self._reply(request, payload)

    def _global_lookup(self, request: ColdRequest) -> None:
        variable = self.programs.find_global(request.engine_context, *self._name(request))
        self._reply(request, global_payload(variable), value=variable.address)

    def _name(self, request: ColdRequest) -> tuple[int, str]:
        body = schema.BODY_LOOKUP.construct.parse(request.body)
        start = schema.REQUEST.size_bytes + schema.BODY_LOOKUP.size_bytes
        _check_size("name", body.name_len, LIMITS["MAX_NAME"])
        _check_total(request, start + body.name_len)
        return body.program, self._plane.read(request.token, start, body.name_len).decode(errors="replace")

    def _reply(
        self, request: ColdRequest, payload: bytes, status: Status = Status.OK, value: int = 0, full_bytes: int = 0
    ) -> None:
        """Answers with as much of the payload as fits; if it is cut, `aux` is its whole length."""
        fits = payload[: request.writable_len]
        whole = max(len(payload), full_bytes)
        self._plane.write(request.token, fits)
        cut = whole if len(fits) < whole else 0
        self._plane.complete(request.token, status, value=value, aux=cut, payload_len=len(fits))


def _candidate(body: Any, options: tuple[str, ...], source: bytes, source_number: int) -> Candidate | None:
    """Program that is to be registered; None: it is the context's."""
    if not body.flags & ProgramFlag.REGISTER:
        return None
    digest = digest_of(body.kind, options, source)
    return Candidate(body.kind, options, digest, source_number, bool(body.flags & ProgramFlag.KEEP))


def _check_size(what: str, size: int, maximum: int) -> None:
    if size > maximum:
        raise DriverError(Status.INVALID_ARGUMENT, f"{size} bytes of {what}; allowed: {maximum}")


def _check_total(request: ColdRequest, expected: int) -> None:
    if request.readable_len != expected:
        raise DriverError(Status.BAD_REQUEST, f"a request of {request.readable_len} bytes announces {expected} bytes")


def _parse_options(raw: bytes) -> tuple[str, ...]:
    """Splits NUL-terminated options.

    :raise DriverError: the options are not NUL-terminated UTF-8 strings, or too many.
    """
    if raw and not raw.endswith(b"\0"):
        raise DriverError(Status.BAD_REQUEST, "the last option does not end in NUL")
    try:
        options = tuple(part.decode() for part in raw.split(b"\0")[:-1])
    except UnicodeDecodeError:
        raise DriverError(Status.BAD_REQUEST, "an option is not UTF-8") from None
    if len(options) > MAX_OPTIONS:
        raise DriverError(Status.INVALID_ARGUMENT, f"{len(options)} options; allowed: {MAX_OPTIONS}")
    longest = max(map(len, options), default=0)
    if longest > MAX_OPTION_CHARS:
        raise DriverError(Status.INVALID_ARGUMENT, f"an option of {longest} characters; allowed: {MAX_OPTION_CHARS}")
    return options
