"""Keeps a worker running for one VM: starts it, notices its death, replaces it; holds a second one while work moves.

A worker that dies is replaced at once; one that dies again and again is replaced ever more slowly. If it does so
before it is ready, which is the host's trouble and not the guest's, the health goes from RECOVERING to FAILED. What a new worker must be told is its owner's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from vhost_backend.daemon.link import WorkerLink
from vhost_backend.daemon.process import WorkerProcess, describe_exit
from vhost_backend.errors import HostError
from vhost_backend.log import Logger
from vhost_backend.worker.protocol import Ready, WorkerMessage
from virtio_proto.schema import Health

KILL_WAIT_S: Final = 0.02
"""A killed process is gone within this time unless the kernel is busy tearing down its memory."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a worker counts as crashing in a loop, and how fast it is then replaced."""

    quick_death_s: float = 10.0
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    longest_served_delay_s: float = 1.0
    """After a worker that was ready: its guest has a faulty kernel, and shall try the next one in a moment."""
    failed_after: int = 5

    def delay_s(self, quick_deaths: int, *, served: bool = False) -> float:
        """Nothing after the first quick death, then doubling."""
        if quick_deaths <= 1:
            return 0.0
        longest = min(self.longest_delay_s, self.longest_served_delay_s) if served else self.longest_delay_s
        return min(longest, self.first_delay_s * 2.0 ** min(quick_deaths - 2, 32))


class Owner(Protocol):
    """Whom the supervisor keeps informed. Called from the loop; must not block, and only `worker_started` may raise."""

    def worker_started(self, link: WorkerLink) -> None:
        """A process runs and knows nothing yet: send its `Setup`.

        :raise OSError: the host has not what it takes; the worker is killed, and tried again like one that died.
        """
        ...

    def worker_said(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        """Any message but an ack; `fds` are the owner's."""
        ...

    def worker_died(self, health: Health) -> None:
        """It is gone and reaped; another follows unless the supervisor was stopped."""
        ...

    def second_died(self, how: str) -> None:
        """The second worker is gone and reaped, of itself."""
        ...


@dataclass(eq=False, slots=True)
class _Worker:
    """A process and the link to it."""

    started_at: float
    process: WorkerProcess = field(init=False)
    link: WorkerLink = field(init=False)
    blameless: bool = False
    served: bool = False


class Supervisor:
    """One worker process at a time, and for a while a second one that may take its place.

    `generation` counts those that came after a death: a second worker is of the generation of the first.
    """

    def __init__(
        self,
        owner: Owner,
        log: Logger,
        command: Callable[[int], Sequence[str]],
        policy: RestartPolicy | None = None,
    ) -> None:
        self._owner = owner
        self._log = log
        self._command = command
        self._policy = policy or RestartPolicy()
        self._wanted = False
        self._worker: _Worker | None = None
        self._second: _Worker | None = None
        self._leaving: set[_Worker] = set()
        """Killed, not reaped yet, and of no interest to anybody."""
        self._timer: asyncio.TimerHandle | None = None
        self._quick_deaths = 0
        self._blameless = self._served = False  # of the last one
        self.ended_by_us = False
        """Whether the last worker that went did so because it was to be replaced, or none was wanted any more."""
        self.generation = 0

    @property
    def pid(self) -> int | None:
        return None if self._worker is None else self._worker.process.pid

    def start(self) -> None:
        """Wants a worker from now on."""
        self._wanted = True
        self._quick_deaths = 0
        if self._worker is None and self._timer is None:
            self._spawn()

    async def stop(self) -> None:
        """Wants none; returns when it is gone, and every other one."""
        self._wanted = False
        self._cancel_timer()
        self.drop_second()
        workers = [*self._leaving, *([] if self._worker is None else [self._worker])]
        for worker in workers:
            worker.process.kill()
        if workers:
            await asyncio.wait([worker.process.exited for worker in workers])  # cancelled or not, they stay as they are

    async def replace(self, reason: str) -> None:
        """Kills the worker, which did nothing wrong by itself; waits for its end, but not for long."""
        worker = self._worker
        if worker is None:
            return
        self._log.info("worker_replaced", pid=worker.process.pid, reason=reason)
        worker.blameless = True
        worker.process.kill()
        await asyncio.wait([worker.process.exited], timeout=KILL_WAIT_S)

    def close(self) -> None:
        """As `stop`, but waits without the loop: for the end of the program."""
        self._wanted = False
        self._cancel_timer()
        self.drop_second()
        for worker in [*self._leaving, *([] if self._worker is None else [self._worker])]:
            worker.process.kill_and_reap()

    # ---- a second worker -------------------------------------------------------------------------

    def start_second(self, command: Callable[[int], Sequence[str]]) -> WorkerLink:
        """Starts another worker beside the first; the owner tells it what to be.

        :raise OSError: when the host cannot start it.
        :raise HostError: when the host cannot isolate it.
        """
        assert self._second is None  # one migration at a time
        self._second = self._launch(command)
        self._log.info("second_worker_started", pid=self._second.process.pid, guest=True)
        return self._second.link

    def adopt_second(self) -> None:
        """The second worker is the worker from now on; the first is ended, and nobody told."""
        assert self._worker is not None
        assert self._second is not None
        first, self._worker, self._second = self._worker, self._second, None
        self._log.info("worker_changed", pid=self._worker.process.pid, instead_of=first.process.pid, guest=True)
        self._leave(first)

    def drop_second(self) -> None:
        """Ends the second worker, if there is one, and nobody is told."""
        second, self._second = self._second, None
        if second is not None:
            self._leave(second)

    def _leave(self, worker: _Worker) -> None:
        worker.link.close()
        self._leaving.add(worker)
        worker.process.kill()

    # ----------------------------------------------------------------------------------------------

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _launch(self, command: Callable[[int], Sequence[str]]) -> _Worker:
        """:raise OSError, HostError: as `start_second`."""
        worker = _Worker(asyncio.get_running_loop().time())
        worker.process = WorkerProcess(command, lambda: self._on_exit(worker))
        worker.link = WorkerLink(
            worker.process.sock,
            lambda message, fds: self._on_message(worker, message, fds),
            lambda reason: self._on_lost(worker, reason),
        )
        return worker

    def _spawn(self) -> None:
        self._timer = None
        self.generation += 1
        self._blameless = self._served = False
        try:
            worker = self._launch(self._command)
        except (OSError, HostError) as error:
            self._log.error("worker_not_started", error=str(error))
            self._schedule(quick=True)
            return
        self._worker = worker
        self._log.info("worker_started", pid=worker.process.pid, generation=self.generation, guest=True)
        try:
            self._owner.worker_started(worker.link)
        except OSError as error:
            self._log.error("worker_not_set_up", pid=worker.process.pid, error=str(error))
            worker.process.kill()

    def _on_message(self, worker: _Worker, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        worker.served |= isinstance(message, Ready)
        self._owner.worker_said(worker.link, message, fds)

    def _on_lost(self, worker: _Worker, reason: str) -> None:
        """The link broke: whatever the process is up to now, nobody can talk to it."""
        self._log.debug("worker_link_lost", pid=worker.process.pid, reason=reason, guest=True)
        worker.process.kill()

    def _on_exit(self, worker: _Worker) -> None:
        worker.link.drain()
        worker.link.close()
        how = describe_exit(worker.process.exited.result())
        about = {"pid": worker.process.pid, "how": how, "stderr": worker.process.last_words()}
        if worker is self._second:
            self._second = None
            self._log.warning("second_worker_died", **about, guest=True)
            self._owner.second_died(how)
        elif worker is self._worker:
            self._worker = None
            if self._wanted and not worker.blameless:
                self._log.warning("worker_died", **about, guest=True)
            self._schedule_after(worker)
        self._leaving.discard(worker)

    def _schedule_after(self, worker: _Worker) -> None:
        self._blameless, self._served = worker.blameless, worker.served
        self.ended_by_us = worker.blameless or not self._wanted
        quick = asyncio.get_running_loop().time() - worker.started_at < self._policy.quick_death_s
        self._schedule(quick=quick)

    def _schedule(self, *, quick: bool) -> None:
        """Decides when the next worker starts, and how healthy that looks."""
        loop = asyncio.get_running_loop()
        if not self._blameless:
            self._quick_deaths = self._quick_deaths + 1 if quick else 1
        failed = not self._served and self._quick_deaths >= self._policy.failed_after
        self._owner.worker_died(Health.FAILED if failed else Health.RECOVERING)
        if self._wanted:
            delay = 0.0 if self._blameless else self._policy.delay_s(self._quick_deaths, served=self._served)
            self._timer = loop.call_later(delay, self._spawn)
