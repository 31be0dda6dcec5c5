"""Compile service of all VMs: looks a program up in the caches, else queues one sandboxed compiler run for all callers.

    submit -> program in memory? -> on disk? -> slot (fair to VMs) -> compiler -> memory and disk -> all waiting callers

Nothing here blocks the event loop: disk access and large digests run in threads, compilers are processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from vhost_backend.compiler.cache import DiskCache, MemoryCache, Program
from vhost_backend.compiler.job import CompileJob, CompileRequest, Target
from vhost_backend.compiler.queue import FairSlots, Ticket
from vhost_backend.compiler.run import CompileLimits, CompileOutcome, run_compile
from vhost_backend.errors import DriverError, QuotaError
from vhost_backend.fds import Fd
from vhost_backend.log import Logger
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox import memfd
from vhost_backend.sandbox.terms import STRICT_MODES, SandboxMode
from virtio_proto.schema import LIMITS, ProgramKind

_T = TypeVar("_T")

Describe = Callable[[Target, ProgramKind, bytes, tuple[str, ...]], CompileJob]
"""Asks the target's engine for the job that compiles a program: (target, kind, source, options) -> job. It is called in a
thread, as the first call reads compiler and headers, which takes up to some seconds, and on the loop for a program that was
asked for before. The service makes one call at a time.

:raise DriverError: the engine does not compile it; the text goes to the guest.
"""

_INLINE_BYTES: Final = 128 << 10
"""Size up to which reading and hashing takes less time than starting a thread."""

_MAX_DESCRIBED: Final = 4096
"""Programs of which the service knows that their engine has looked at all that it needs for them."""


@dataclass(frozen=True, slots=True)
class CompileResult:
    """Outcome of a compilation. The receiver owns `image_fd`, a sealed memfd, None unless `ok`."""

    ok: bool
    image_fd: int | None
    log: str
    from_cache: bool
    duration_seconds: float


class Compiler(Protocol):
    """Interface of compilers that never block the caller: `CompileService`, or a stand-in for tests."""

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        """Starts compiling; takes over `source_fd`. Cancelling the future abandons the work.

        The receiver of the result owns its `image_fd`.
        """
        ...

    async def close(self) -> None:
        """Abandons all work; on return no compiler is running."""
        ...


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """Limits on running and waiting compilations."""

    max_running: int = max(2, (os.cpu_count() or 2) // 2)
    slice_seconds: float = 2.0
    """Time after which a compilation is stopped if others wait; nearly all take less."""
    max_waiting_per_vm: int = 32
    limits: CompileLimits = field(default_factory=CompileLimits)


@dataclass(frozen=True, slots=True)
class _FlightResult:
    """Result of a flight: a program, or only the compiler's log."""

    program: Program | None
    log: str
    from_cache: bool


class _Flight:
    """Program that is being obtained, shared by all callers that wait for it. Ends early when the last leaves."""

    def __init__(self, request: CompileRequest, key: str) -> None:
        self.request = request
        self.key = key
        self.ticket = Ticket()
        self.vms: list[str] = []
        self.is_queued = False
        self.waiting = 0
        self.task: asyncio.Task[_FlightResult] | None = None

    def leave(self) -> bool:
        """Counts a caller out. True if it was the last; the flight is then cancelled, or its program closed."""
        self.waiting -= 1
        if self.waiting > 0 or self.task is None:
            return False
        if not self.task.done():
            self.task.cancel()
        elif not self.task.cancelled() and self.task.exception() is None:
            program = self.task.result().program
            if program is not None:
                program.image.close()
        return True


class _Engines:
    """Asks engines for jobs without having the loop wait for what they read."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._one_at_a_time = asyncio.Lock()
        self._described: dict[bytes, None] = {}
        """Digests of what was asked, in the order in which it was asked last."""

    async def job(self, target: Target, kind: ProgramKind, source: bytes, options: tuple[str, ...]) -> CompileJob:
        """Returns the engine's job.

        :raise DriverError: as `Describe`.
        """
        if len(source) > _INLINE_BYTES:
            async with self._one_at_a_time:
                return await asyncio.to_thread(self._describe, target, kind, source, options)
        asked = hashlib.sha256(repr((target, kind, options)).encode() + source).digest()
        async with self._one_at_a_time:
            if asked in self._described:
                del self._described[asked]
                job = self._describe(target, kind, source, options)
            else:
                job = await asyncio.to_thread(self._describe, target, kind, source, options)
            self._described[asked] = None
        if len(self._described) > _MAX_DESCRIBED:
            del self._described[next(iter(self._described))]
        return job


class CompileService:
    """Compiles for all VMs, see the module. To be used on one event loop."""

    def __init__(
        self,
        describe: Describe,
        disk: DiskCache,
        *,
        mode: SandboxMode,
        log: Logger,
        policy: ServicePolicy | None = None,
        memory: MemoryCache | None = None,
        domains: Mapping[str, str] | None = None,
        quarters: Mapping[str, Quarters] | None = None,
    ) -> None:
        """`domains`: cache domains of VMs, by name; a VM that is not in it has a domain of its own.

        `quarters`: where the compilers of VMs run, by name; those of other VMs have no control group.
        """
        self._engines = _Engines(describe)
        self._disk = disk
        self._mode = mode
        self._log = log
        self._policy = policy or ServicePolicy()
        self._memory = MemoryCache() if memory is None else memory
        self._domains = dict(domains or {})
        self._quarters = dict(quarters or {})
        self._slots = FairSlots(self._policy.max_running, self._policy.max_waiting_per_vm)
        self._flights: dict[str, _Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.runs = 0
        """Number of compiler processes started; a program whose compilation was stopped for others counts twice."""

    def admit(self, vm: str, domain: str, quarters: Quarters, mode: SandboxMode) -> None:
        """Sets cache domain and quarters of a VM, before its first program; the sandbox gets as strict as `mode`."""
        self._domains[vm] = domain
        self._quarters[vm] = quarters
        if self._mode not in STRICT_MODES:
            self._mode = mode

    def dismiss(self, vm: str) -> None:
        """Forgets a VM that has no programs in work, and its programs in memory if no other VM has its domain."""
        domain = self._domains.pop(vm, None)
        if domain is not None and domain not in self._domains.values():
            self._memory.drop(domain)
        self._quarters.pop(vm, None)

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Task[CompileResult]:
        """Starts compiling; takes over `source_fd`, a file whose content is copied once, before anything else.

        Cancelling the task abandons the work; the compiler is killed when no other caller waits for it. The task
        raises `HostError` if this host cannot run compilers.
        """
        source = Fd(source_fd)
        task = self._spawn(self._serve(vm, kind, source, options, target))
        task.add_done_callback(lambda _: source.close())
        return task

    async def close(self) -> None:
        """Abandons all work, and returns once no compiler is running. Programs that are being stored are stored."""
        for flight in self._flights.values():
            if flight.task is not None:
                flight.task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._memory.close()

    async def _serve(
        self, vm: str, kind: ProgramKind, source_fd: Fd, options: tuple[str, ...], target: Target
    ) -> CompileResult:
        started = time.monotonic()
        try:
            source = await _read(source_fd)
            job = await self._engines.job(target, kind, source, options)
            request = CompileRequest(self._domains.get(vm, f"client {vm}"), source, kind.name, options, job)
            key = await _key(request)
            program = self._memory.get(key)
            if program is not None:
                return _result(_FlightResult(program, program.log, from_cache=True), started)
            flight = self._join(vm, request, key)
            try:
                return _result(await asyncio.shield(self._task_of(flight)), started)
            finally:
                if flight.leave():
                    self._forget(flight)
        except DriverError as error:
            return _result(_FlightResult(None, str(error), from_cache=False), started)

    def _join(self, vm: str, request: CompileRequest, key: str) -> _Flight:
        """Adds a caller of `vm` to the flight of `key`, which is made if it does not exist.

        :raise QuotaError: too many programs of the VM wait for a compiler already.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(request, key)
        if vm not in flight.vms:
            if flight.is_queued and flight.ticket.is_open:
                self._slots.enqueue(vm, flight.ticket)
            flight.vms.append(vm)
        flight.waiting += 1
        return flight

    def _task_of(self, flight: _Flight) -> asyncio.Task[_FlightResult]:
        if flight.task is None:
            flight.task = self._spawn(self._obtain(flight))
        return flight.task

    async def _obtain(self, flight: _Flight) -> _FlightResult:
        try:
            program = await asyncio.to_thread(self._disk.load, flight.key)
            if program is not None:
                self._remember(flight.key, program)
                return _FlightResult(program, program.log, from_cache=True)
            outcome = await self._compile(flight)
            if outcome.image_fd is None:
                return _FlightResult(None, outcome.log, from_cache=False)
            program = Program(Fd(outcome.image_fd), outcome.log)
            self._remember(flight.key, program)
            self._spawn(self._store(flight.key, _copy(program)))
            return _FlightResult(program, program.log, from_cache=False)
        finally:
            self._forget(flight)

    def _forget(self, flight: _Flight) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]

    async def _compile(self, flight: _Flight) -> CompileOutcome:
        """Compiles in a slot; once more if the first run is stopped for others.

        :raise QuotaError: none of the waiting VMs may queue.
        """
        self._queue(flight)
        outcome = await self._run_in_slot(flight)
        while outcome is None:
            flight.ticket = Ticket(is_long=True)
            self._queue(flight)
            outcome = await self._run_in_slot(flight)
        return outcome

    async def _run_in_slot(self, flight: _Flight) -> CompileOutcome | None:
        """Waits for a slot, and compiles in it; None: the run was stopped for others, and the compiler has ended."""
        ticket = flight.ticket
        try:
            await ticket.granted()
            self.runs += 1
            request = flight.request
            quarters = self._quarters_of(flight)
            run = self._spawn(run_compile(request.job, request.source, self._policy.limits, self._mode, quarters))
            loop = asyncio.get_running_loop()
            end_of_slice = loop.call_later(self._policy.slice_seconds, self._slots.end_slice, ticket)
            try:
                await asyncio.wait((run, ticket.stopped), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await _abandon(run)
                raise
            finally:
                end_of_slice.cancel()
            if run.done():
                return run.result()
            await _abandon(run)
            return None
        finally:
            if ticket.vm is not None:
                self._slots.release(ticket)

    def _quarters_of(self, flight: _Flight) -> Quarters:
        """Quarters of the VM whose turn it is, or of another that waits for the program if that has been dismissed."""
        known = [vm for vm in (flight.ticket.vm, *flight.vms) if vm in self._quarters]
        return NOWHERE if not known else self._quarters[known[0] or ""]

    def _queue(self, flight: _Flight) -> None:
        refusal: QuotaError | None = None
        for vm in flight.vms:
            try:
                self._slots.enqueue(vm, flight.ticket)
                flight.is_queued = True
            except QuotaError as error:
                refusal = error
        if refusal is not None and not flight.is_queued:
            raise refusal

    def _remember(self, key: str, program: Program) -> None:
        self._memory.put(key, _copy(program))

    async def _store(self, key: str, program: Program) -> None:
        """Stores a program on disk. A failure is only logged: it costs a compilation after the next start."""
        with program.image:
            try:
                await asyncio.to_thread(self._disk.store, key, program)
            except OSError as error:
                self._log.warning("program_not_stored", error=str(error))

    def _spawn(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _abandon(run: asyncio.Task[CompileOutcome]) -> None:
    """Ends a run; a result that it has nevertheless is dropped."""
    run.cancel()
    await asyncio.wait([run])
    if not run.cancelled() and run.exception() is None and (image_fd := run.result().image_fd) is not None:
        os.close(image_fd)


async def _read(fd: Fd) -> bytes:
    if os.fstat(fd.fileno()).st_size <= _INLINE_BYTES:
        return memfd.read(fd.fileno(), _INLINE_BYTES)
    return await asyncio.to_thread(memfd.read, fd.fileno(), LIMITS["MAX_SOURCE_BYTES"])


async def _key(request: CompileRequest) -> str:
    return request.key() if len(request.source) <= _INLINE_BYTES else await asyncio.to_thread(request.key)


def _copy(program: Program) -> Program:
    return Program(Fd(os.dup(program.image.fileno())), program.log)


def _result(result: _FlightResult, started: float) -> CompileResult:
    image = None if result.program is None else os.dup(result.program.image.fileno())
    return CompileResult(image is not None, image, result.log, result.from_cache, time.monotonic() - started)
