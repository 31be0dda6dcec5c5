"""Relay of a worker's compile requests to the compile service, and of the results back."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Final

from vhost_backend.compiler.service import Compiler, CompileResult
from vhost_backend.daemon.engines import Choice
from vhost_backend.log import Logger
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.protocol import MAX_LOG_CHARS, Compile, Program
from virtio_proto.schema import LIMITS, ProgramKind

MAX_PENDING: Final = 64
"""Compilations of one worker at once."""


class CompileRelay:
    """Compilations of one worker. Closing the relay abandons them."""

    def __init__(self, choice: Choice, compiler: Compiler, link: WorkerLink, log: Logger) -> None:
        self._vm = choice.config.name
        self._target = choice.target
        self._takes_binaries = choice.config.engine.options.get("binaries") is True
        self._compiler = compiler
        self._link = link
        self._log = log
        self._pending: set[asyncio.Future[CompileResult]] = set()

    def submit(self, request: Compile, source_fd: int) -> None:
        """Takes over `source_fd`. The worker always gets an answer if it still lives then."""
        problem = self._problem(request, source_fd)
        if problem:
            os.close(source_fd)
            self._answer(request.request, ok=False, log=problem, from_cache=False)
            return
        kind = ProgramKind(request.program_kind)
        future = self._compiler.submit(self._vm, kind, source_fd, request.options, self._target)
        self._pending.add(future)
        future.add_done_callback(lambda done: self._on_done(request.request, done))

    def close(self) -> None:
        for future in list(self._pending):
            future.cancel()

    def _problem(self, request: Compile, source_fd: int) -> str:
        """Reason why the request is refused without compiling; "" if it is not."""
        if len(self._pending) >= MAX_PENDING:
            return f"{MAX_PENDING} programs of this VM are being compiled already; wait for some to finish"
        if request.program_kind not in tuple(ProgramKind):
            return f"program kind {request.program_kind} is unknown; allowed: {', '.join(k.name for k in ProgramKind)}"
        kind = ProgramKind(request.program_kind)
        if kind != ProgramKind.CUDA_SOURCE and self._target.engine == "cuda" and not self._takes_binaries:
            return (
                f"this VM may not load a {kind.name}: its programs are compiled from source. "
                "To allow it, the host's configuration needs 'binaries: true' among the options of the VM's engine"
            )
        status = os.fstat(source_fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMITS["MAX_SOURCE_BYTES"]:
            return f"the source is not a file of at most {LIMITS['MAX_SOURCE_BYTES']} bytes"
        return ""

    def _on_done(self, request: int, done: asyncio.Future[CompileResult]) -> None:
        self._pending.discard(done)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._log.error("compile_service_failed", error=f"{error!r:.500}", guest=True)
            self._answer(request, ok=False, log=f"the host could not compile: {error}", from_cache=False)
            return
        result = done.result()
        image = result.image_fd if result.ok else None
        try:
            fds = () if image is None else (image,)
            self._answer(request, image is not None, result.log, result.from_cache, fds)
        finally:
            if result.image_fd is not None:
                os.close(result.image_fd)

    def _answer(self, request: int, ok: bool, log: str, from_cache: bool, fds: tuple[int, ...] = ()) -> None:
        def build(seq: int) -> Program:
            size = min(len(log.encode(errors="replace")), (1 << 32) - 1)
            return Program(seq, request, ok, log[:MAX_LOG_CHARS], size, from_cache)

        try:
            self._link.tell(build, fds)
        except codec.ProtocolError as error:
            self._log.error("program_not_sent", error=str(error))
