"""The real daemon on a thread of the test's process, with compilers and workers that the test chooses."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import Compiler, CompileResult
from vhost_backend.config.daemon import DaemonConfig, SandboxMode
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.fork_server import ForkServer
from vhost_backend.daemon.gpus import Survey
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.process import WorkerCommand
from vhost_backend.daemon.server import Daemon
from vhost_backend.daemon.supervisor import RestartPolicy
from virtio_proto.schema import ProgramKind

TIMEOUT_S: Final = ANSWERS_WITHIN_S
SANDBOX: Final[SandboxMode] = "off" if "libasan" in os.environ.get("LD_PRELOAD", "") else "best-effort"
"""Limits for workers of tests that are not about the sandbox: a sanitizer needs more address space than the default."""

_T = TypeVar("_T")


class FakeCompiler:
    """Compile service that answers at once: the image is the source, unless the source contains ``error``."""

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        source = os.pread(source_fd, 1 << 20, 0)
        future: asyncio.Future[CompileResult] = asyncio.get_running_loop().create_future()
        if b"error" in source:
            os.close(source_fd)
            future.set_result(
                CompileResult(ok=False, image_fd=None, log="line 1: error", from_cache=False, duration_seconds=0)
            )
        else:
            log = f"{vm} {kind.name} {' '.join(options)} {target.engine}"
            future.set_result(CompileResult(True, source_fd, log, from_cache=True, duration_seconds=0))
        return future

    async def close(self) -> None:
        """Does nothing: no compiler is ever running."""


async def no_gpus(_driver: str | None, _device: str | None) -> Survey:
    """The devices of a host without a GPU."""
    return Survey(problem="no NVIDIA driver")


class DaemonThread:
    """Runs a daemon until the `with` block ends. An error of the daemon is raised there.

    So is what its loop reports: a transition of a VM that the table does not have, an error in a callback, a task's
    error that nothing has asked for.
    """

    def __init__(
        self,
        config: DaemonConfig,
        command: WorkerCommand,
        policy: RestartPolicy | None = None,
        compiler: Compiler | None = None,
        engines: Engines | None = None,
        *,
        pace: Pace | None = None,
        handed_over: Mapping[str, socket.socket] | None = None,
        forks: ForkServer | None = None,
        **options: Any,
    ) -> None:
        """`pace`: of the workers' heartbeat. Without one, a worker that a test holds up is left alone. `options`: further ones
        of `Daemon`.
        """
        self._make: Callable[[], Daemon] = lambda: Daemon(
            config,
            compiler or FakeCompiler(),
            engines or Engines(no_gpus, lambda *_: None),
            handed_over,
            command=command,
            forks=forks,
            policy=policy,
            pace=pace,
            **options,
        )
        self._started: Future[tuple[Daemon, asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="daemon")
        self._error: BaseException | None = None
        self._loop_errors: list[BaseException] = []

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._loop_errors.append(context.get("exception") or RuntimeError(str(context)))

    async def _main(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        daemon = self._make()
        task = asyncio.create_task(daemon.run())
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop: the sockets are bound in the task's first step
        self._started.set_result((daemon, asyncio.get_running_loop(), task))
        try:
            await task
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001  raised in the test
            self._error = error

    def ask(self, question: Callable[[Daemon], _T]) -> _T:
        """Calls `question` on the daemon's thread and returns its result."""
        daemon, loop, _ = self._started.result(TIMEOUT_S)

        async def answer() -> _T:
            return question(daemon)

        return asyncio.run_coroutine_threadsafe(answer(), loop).result(TIMEOUT_S)

    def begin(self, work: Callable[[Daemon], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Starts `work` on the daemon's thread, without waiting for it."""
        daemon, loop, _ = self._started.result(TIMEOUT_S)
        return asyncio.run_coroutine_threadsafe(work(daemon), loop)

    def join(self) -> None:
        """Returns when the daemon has ended by itself."""
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the daemon does not end"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, loop, task = self._started.result(TIMEOUT_S)
        if self._thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        self.join()
        if self._error is not None and error is None:
            raise self._error
        if self._loop_errors and error is None:
            raise self._loop_errors[0]
