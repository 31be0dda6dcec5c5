"""Keeps a worker running for one VM: starts it, notices its death, replaces it.

A worker that dies is replaced at once; one that dies again and again is replaced ever more slowly. If it does so
before it is ready, which is the host's trouble and not the guest's, the health goes from RECOVERING to FAILED. What a new worker must be told is its owner's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """Whom the supervisor keeps informed. Called from the loop; must not block or raise."""

    def worker_started(self, link: WorkerLink) -> None:
        """A process runs and knows nothing yet: send its `Setup`."""
        ...

    def worker_said(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        """Any message but an ack; `fds` are the owner's."""
        ...

    def worker_died(self, health: Health) -> None:
        """It is gone and reaped; another follows unless the supervisor was stopped."""
        ...


class Supervisor:
    """At most one worker process at a time. `generation` counts them."""

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
        self._process: WorkerProcess | None = None
        self._link: WorkerLink | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._quick_deaths = 0
        self._started_at = 0.0
        self._blameless = False
        self._served = False
        self.generation = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Wants a worker from now on."""
        self._wanted = True
        self._quick_deaths = 0
        if self._process is None and self._timer is None:
            self._spawn()

    async def stop(self) -> None:
        """Wants none; returns when it is gone."""
        self._wanted = False
        self._cancel_timer()
        process = self._process
        if process is not None:
            process.kill()
            await asyncio.wait([process.exited])  # leaves the future alone if we are cancelled

    async def replace(self, reason: str) -> None:
        """Kills the worker, which did nothing wrong by itself; waits for its end, but not for long."""
        process = self._process
        if process is None:
            return
        self._log.info("worker_replaced", pid=process.pid, reason=reason)
        self._blameless = True
        process.kill()
        await asyncio.wait([process.exited], timeout=KILL_WAIT_S)

    def close(self) -> None:
        """As `stop`, but waits without the loop: for the end of the program."""
        self._wanted = False
        self._cancel_timer()
        if self._process is not None:
            self._process.kill_and_reap()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _spawn(self) -> None:
        self._timer = None
        self.generation += 1
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        self._blameless = self._served = False
        try:
            process = WorkerProcess(self._command, self._on_exit)
        except (OSError, HostError) as error:
            self._log.error("worker_not_started", error=str(error))
            self._schedule()
            return
        self._process = process
        link = WorkerLink(process.sock, lambda message, fds: self._on_message(link, message, fds), self._on_lost)
        self._link = link
        self._log.info("worker_started", pid=process.pid, generation=self.generation, guest=True)
        self._owner.worker_started(link)

    def _on_message(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        self._served |= isinstance(message, Ready)
        self._owner.worker_said(link, message, fds)

    def _on_lost(self, reason: str) -> None:
        """The link broke: whatever the process is up to now, nobody can talk to it."""
        if self._process is not None:
            self._log.debug("worker_link_lost", pid=self._process.pid, reason=reason, guest=True)
            self._process.kill()

    def _on_exit(self) -> None:
        process, link = self._process, self._link
        assert process is not None
        assert link is not None
        link.drain()
        link.close()
        self._process = self._link = None
        if self._wanted and not self._blameless:
            how = describe_exit(process.exited.result())
            self._log.warning("worker_died", pid=process.pid, how=how, stderr=process.last_words(), guest=True)
        self._schedule()

    def _schedule(self) -> None:
        """Decides when the next worker starts, and how healthy that looks."""
        loop = asyncio.get_running_loop()
        if not self._blameless:
            quick = loop.time() - self._started_at < self._policy.quick_death_s
            self._quick_deaths = self._quick_deaths + 1 if quick else 1
        failed = not self._served and self._quick_deaths >= self._policy.failed_after
        self._owner.worker_died(Health.FAILED if failed else Health.RECOVERING)
        if self._wanted:
            delay = 0.0 if self._blameless else self._policy.delay_s(self._quick_deaths, served=self._served)
            self._timer = loop.call_later(delay, self._spawn)
