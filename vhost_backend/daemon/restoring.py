"""Gives a new worker the programs that its VM has registered, before it serves the guest."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vhost_backend.compiler.service import CompileResult
from vhost_backend.daemon.compile_relay import CompileRelay
from vhost_backend.daemon.registrations import RegisteredProgram, Registrations
from vhost_backend.log import Logger
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.registration_messages import MAX_LOG_CHARS, Restore

PATIENCE_S: Final = 10.0
"""Longest time that the guest waits for programs which the new worker gets: nearly all of them are in the cache."""
ANSWER_S: Final = 86_400.0
"""Longest time for the worker's answer: after `PATIENCE_S`, loading waits for the guest's kernels. Others watch whether it lives."""
_AT_A_TIME: Final = 8
"""Programs that are compiled at a time; fewer than a VM may have waiting for a compiler."""


class Restoring:
    """Restores the programs of one worker, in the order in which they were registered."""

    def __init__(
        self,
        registrations: Registrations,
        compilations: CompileRelay,
        link: WorkerLink,
        log: Logger,
        done: Callable[[], None],
    ) -> None:
        """`done` is called once: when the worker has all programs, or after `PATIENCE_S`."""
        self._registrations = registrations
        self._compilations = compilations
        self._link = link
        self._log = log
        self._done: Callable[[], None] | None = done
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PATIENCE_S, self._tell)
        self._task = loop.create_task(self._run())

    def close(self) -> None:
        """Abandons what is left; `done` is not called any more."""
        self._done = None
        self._timer.cancel()
        self._task.cancel()

    def _tell(self) -> None:
        done, self._done = self._done, None
        self._timer.cancel()
        if done is not None:
            done()

    async def _run(self) -> None:
        waiting: deque[_Compiling] = deque()
        broken = 0
        try:
            for number, program in self._registrations:
                waiting.append(_Compiling(number, program, self._compile(program)))
                if len(waiting) == _AT_A_TIME:
                    broken += not await self._give(waiting.popleft())
            while waiting:
                broken += not await self._give(waiting.popleft())
        finally:
            for one in waiting:
                one.abandon()
        self._log.info("programs_restored", programs=len(self._registrations), broken=broken)
        self._tell()

    def _compile(self, program: RegisteredProgram) -> asyncio.Future[CompileResult]:
        if refusal := self._compilations.refusal_of(program.kind):
            refused: asyncio.Future[CompileResult] = asyncio.get_running_loop().create_future()
            refused.set_result(_no_image(refusal))
            return refused
        return self._compilations.compile(program.kind, memfd.create("vgc-registered", program.source), program.options)

    async def _give(self, one: _Compiling) -> bool:
        """Gives the worker one program, once it is compiled; false: it has no functions of it."""
        number, program = one.number, one.program
        try:
            result = await one.result
        except Exception as error:  # noqa: BLE001  whatever it is, the guest's other programs come next
            self._log.error("compile_service_failed", error=f"{error!r:.500}", guest=True)
            result = _no_image("the host could not compile it; its log has the reason")
        image, log = result.image_fd, result.log[:MAX_LOG_CHARS]
        keep = self._registrations.is_kept(number)

        def build(seq: int) -> Restore:
            return Restore(seq, number, program.digest, keep, image is not None, log, program.signatures)

        try:
            ack = await self._link.post(build, () if image is None else (image,), ANSWER_S)
        finally:
            if image is not None:
                os.close(image)
        problem = "" if ack is None or ack.ok else ack.error or "unknown"
        self._registrations.note_problem(number, problem)
        if problem:
            self._log.warning("registered_program_broken", number=number, why=problem[:500], guest=True)
        return not problem


@dataclass(frozen=True, slots=True)
class _Compiling:
    """Program that is being compiled for the worker."""

    number: int
    program: RegisteredProgram
    result: asyncio.Future[CompileResult]

    def abandon(self) -> None:
        """Stops the compilation, and drops its image if there is one."""
        if not self.result.done():
            self.result.cancel()
        elif not self.result.cancelled() and self.result.exception() is None:
            image = self.result.result().image_fd
            if image is not None:
                os.close(image)


def _no_image(why: str) -> CompileResult:
    return CompileResult(ok=False, image_fd=None, log=why, from_cache=False, duration_seconds=0.0)
