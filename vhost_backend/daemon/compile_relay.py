"""Relay of a worker's compile requests to the compile service, and of the results back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.compiler.job import LOOKED_AT
from vhost_backend.compiler.service import Compiler, CompileResult
from vhost_backend.daemon.engines import Choice
from vhost_backend.engines.registry import engine_class
from vhost_backend.fds import Fd
from vhost_backend.log import Logger
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.budgets import COMPILE_COST_S, IMAGE_BYTES, LOOK_COST_S
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.protocol import MAX_LOG_CHARS, Compile, HostProgram, Program
from virtio_proto.schema import LIMITS, ProgramKind

_OF_HOST: Final = "built-in functions"
"""In place of a VM's name: they are compiled once for all VMs. No VM has such a name."""
_SOURCES: Final = (ProgramKind.CUDA_SOURCE, ProgramKind.CUDA_UNITS)


@dataclass(slots=True)
class CompileCounts:
    """Programs that were asked for, by their end, and the time that they took."""

    compiled: int = 0
    cached: int = 0
    failed: int = 0
    """Programs with mistakes, or that were refused."""
    taken_ns: int = 0
    """Time from request to answer, of all programs together, in the queue for a compiler as well."""

    def count(self, result: CompileResult) -> None:
        """Counts a program that has ended."""
        self.taken_ns += int(result.duration_seconds * 1e9)
        if not result.ok:
            self.failed += 1
        elif result.from_cache:
            self.cached += 1
        else:
            self.compiled += 1


class CompileRelay:
    """Compilations of one worker. Closing the relay abandons them."""

    def __init__(
        self,
        choice: Choice,
        compiler: Compiler,
        link: WorkerLink,
        log: Logger,
        sources: Sequence[Fd],
        *,
        counts: CompileCounts,
    ) -> None:
        """Takes `sources` over, the worker's source files. `counts`: of the VM's programs."""
        self._counts = counts
        self._vm = choice.config.name
        self._target = choice.target
        self._takes_binaries = choice.config.engine.options.get("binaries") is True
        self._compiler = compiler
        self._link = link
        self._log = log
        self._sources = sources
        self._pending: dict[int, asyncio.Future[CompileResult]] = {}
        """Compilations in progress, by the number of their source file."""
        self._pending_host: dict[str, asyncio.Future[CompileResult]] = {}
        """Compilations of the host's own programs, by name."""
        self._sent_bytes = 0
        """Bytes of images that were sent since the worker was last seen to have read everything."""

    def submit(self, request: Compile) -> None:
        """Starts a compilation. The worker always gets an answer if it still lives then.

        A worker that names a source file which is at the compiler is condemned: only a forged request does that.
        """
        self._link.charge(COMPILE_COST_S + LOOK_COST_S * min(self._size(request), LOOKED_AT))
        if request.source in self._pending:
            self._link.condemn(f"asked for two compilations with source file {request.source} at a time")
            return
        problem = self._problem(request)
        if problem:
            self._counts.failed += 1
            self._answer(request.request, ok=False, log=problem, from_cache=False)
            return
        source_fd = os.dup(self._sources[request.source].fileno())
        future = self.compile(request.program_kind, source_fd, request.options)
        self._pending[request.source] = future
        future.add_done_callback(lambda done: self._on_done(request, done))

    def submit_host(self, request: HostProgram) -> None:
        """Starts a compilation of a program of the host's own, which is answered like another.

        A worker that names none, or one that is at the compiler, is condemned: only a forged request does that.
        """
        self._link.charge(COMPILE_COST_S)
        source = engine_class(self._target.engine).host_source(request.name)
        if source is None or request.name in self._pending_host:
            self._link.condemn(f"asked for the host's program {request.name}, which it cannot need")
            return
        if problem := self._backlog():
            self._answer(request.request, ok=False, log=problem, from_cache=False)
            return
        source_fd = memfd.create("vgc-host-program", source)
        future = self._compiler.submit(_OF_HOST, ProgramKind.CUDA_SOURCE, source_fd, (), self._target)
        self._pending_host[request.name] = future
        future.add_done_callback(lambda done: self._on_host_done(request, done))

    def compile(self, kind: int, source_fd: int, options: tuple[str, ...]) -> asyncio.Future[CompileResult]:
        """Compiles for the VM; takes over `source_fd`. The caller closes the image."""
        return self._compiler.submit(self._vm, ProgramKind(kind), source_fd, options, self._target)

    def source(self, number: int) -> bytes:
        """Copy of a source file of the worker's."""
        self._link.charge(LOOK_COST_S * os.fstat(self._sources[number].fileno()).st_size)
        return memfd.read(self._sources[number].fileno(), LIMITS["MAX_SOURCE_BYTES"])

    @property
    def pending(self) -> int:
        """Number of programs that compile, or wait for a compiler."""
        return len(self._pending) + len(self._pending_host)

    def close(self) -> None:
        for future in (*self._pending.values(), *self._pending_host.values()):
            future.cancel()
        for source in self._sources:
            source.close()

    def _problem(self, request: Compile) -> str:
        """Reason why the request is refused without compiling; "" if it is not."""
        if problem := self._backlog():
            return problem
        size = self._size(request)
        if size > LIMITS["MAX_SOURCE_BYTES"]:
            return f"the source has {size} bytes; allowed: {LIMITS['MAX_SOURCE_BYTES']}"
        return self.refusal_of(request.program_kind)

    def _backlog(self) -> str:
        """Reason why the worker gets no further program for now: it leaves too many unread; "" if it does not."""
        if self._sent_bytes >= IMAGE_BYTES and not self._link.all_read:
            return f"{self._sent_bytes} bytes of programs have not been taken yet; allowed: {IMAGE_BYTES}"
        return ""

    def refusal_of(self, number: int) -> str:
        """Reason why the VM may not load programs of a kind; "" if it may."""
        if number not in tuple(ProgramKind):
            return f"program kind {number} is unknown; allowed: {', '.join(k.name for k in ProgramKind)}"
        kind = ProgramKind(number)
        if kind not in _SOURCES and self._target.engine == "cuda" and not self._takes_binaries:
            return (
                f"this VM may not load a {kind.name}: its programs are compiled from source. "
                "To allow it, the host's configuration needs 'binaries: true' among the options of the VM's engine"
            )
        return ""

    def _size(self, request: Compile) -> int:
        return os.fstat(self._sources[request.source].fileno()).st_size

    def _on_done(self, asked: Compile, done: asyncio.Future[CompileResult]) -> None:
        del self._pending[asked.source]
        result = self._result_of(asked.request, done)
        if result is not None:
            self._counts.count(result)
            self._pass_on(asked.request, result)
        elif not done.cancelled():
            self._counts.failed += 1

    def _on_host_done(self, asked: HostProgram, done: asyncio.Future[CompileResult]) -> None:
        del self._pending_host[asked.name]
        result = self._result_of(asked.request, done)
        if result is not None:
            self._pass_on(asked.request, result)

    def _result_of(self, request: int, done: asyncio.Future[CompileResult]) -> CompileResult | None:
        """Result of a compilation; None: it was abandoned, or failed in a way that was answered here."""
        if done.cancelled():
            return None
        error = done.exception()
        if error is None:
            return done.result()
        self._log.error("compile_service_failed", error=f"{error!r:.500}", guest=True)
        self._answer(request, ok=False, log="the host could not compile; its log has the reason", from_cache=False)
        return None

    def _pass_on(self, request: int, result: CompileResult) -> None:
        """Answers with a result, and closes its image."""
        image = result.image_fd if result.ok else None
        try:
            fds = () if image is None else (image,)
            self._count_image(image)
            self._answer(request, image is not None, result.log, result.from_cache, fds)
        finally:
            if result.image_fd is not None:
                os.close(result.image_fd)

    def _count_image(self, image_fd: int | None) -> None:
        """Counts an image that is about to be sent: it stays in memory until the worker has taken it."""
        if self._link.all_read:
            self._sent_bytes = 0
        if image_fd is not None:
            self._sent_bytes += os.fstat(image_fd).st_size

    def _answer(self, request: int, ok: bool, log: str, from_cache: bool, fds: tuple[int, ...] = ()) -> None:
        def build(seq: int) -> Program:
            size = min(len(log.encode(errors="replace")), (1 << 32) - 1)
            return Program(seq, request, ok, log[:MAX_LOG_CHARS], size, from_cache)

        try:
            self._link.tell(build, fds)
        except codec.ProtocolError as error:
            self._log.error("program_not_sent", error=str(error))
