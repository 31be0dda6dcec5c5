"""Supervisor of one VM's worker: starts it, notices its death, replaces it; holds a second worker during a migration.

A dead worker is replaced at once; if workers die again and again, after ever longer delays. Workers that die before they
are ready are a problem of the host, not of the guest: after too many of them the VM has failed. The supervisor's owner
sets up each new worker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from vhost_backend.cgroups.limits import Limits
from vhost_backend.daemon.call_log import CallLog
from vhost_backend.daemon.perf_map import PerfMap
from vhost_backend.daemon.process import Copying, Kept, WorkerProcess, describe_exit, worker_of
from vhost_backend.errors import HostError
from vhost_backend.log import Logger
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.worker_protocol.budgets import TimeBudget
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.protocol import CallListener, CodeNames, Ready, Resumed, WorkerMessage

KILL_WAIT_S: Final = 0.02
"""Within this time a killed process is gone, unless the kernel is busy tearing down its memory."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Delays before a dead worker is replaced, and the number of deaths after which the VM has failed."""

    quick_death_s: float = 10.0
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    longest_served_delay_s: float = 1.0
    """Limit after a worker that was ready: its guest had a faulty kernel, and shall soon try the next kernel."""
    failed_after: int = 5

    def delay_s(self, quick_deaths: int, *, served: bool = False) -> float:
        """Delay after so many quick deaths in a row: 0 after the first, then doubling up to the limit."""
        if quick_deaths <= 1:
            return 0.0
        longest = min(self.longest_delay_s, self.longest_served_delay_s) if served else self.longest_delay_s
        return min(longest, self.first_delay_s * 2.0 ** min(quick_deaths - 2, 32))


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """End of a worker, or failure to start it."""

    has_served: bool
    """The worker was ready."""
    how: str
    """How its process ended, or why it was not started: words that go on after "the worker"."""
    by_us: bool
    """The worker was killed because it was to be replaced, or because no worker was wanted any more."""
    has_failed: bool
    """Too many workers in a row ended before they were ready."""
    fault: str = ""
    """Reason why the daemon ended the worker as faulty: it broke a rule or exceeded a budget; "" if it did not."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Way to start a worker."""

    command: Callable[[Quarters, int], Sequence[str] | Copying]
    """Builds the command line, or tells how it starts without: (quarters of the worker, descriptor that it inherits)."""
    limits: Limits
    """Limits of the worker's control group."""
    perf_maps: bool = False
    """The worker may name its code for perf."""


class Owner(Protocol):
    """Listener of a supervisor. Called from the loop; must not block, and only `worker_started` may raise."""

    def worker_started(self, link: WorkerLink) -> None:
        """A worker process runs: send its `Setup`.

        :raise OSError: the host lacks descriptors or memory; the worker is killed, and replaced like one that died.
        """
        ...

    def worker_said(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        """A worker sent a message other than an ack; the owner closes `fds`."""
        ...

    def worker_spoke(self) -> None:
        """Something was written to the worker's stderr: by the worker, or by its launcher when a signal stops it."""
        ...

    def worker_died(self, end: WorkerEnd) -> None:
        """The worker is gone and reaped; the next follows unless the supervisor was stopped."""
        ...

    def second_died(self, how: str) -> None:
        """The second worker ended by itself and is reaped."""
        ...


@dataclass(eq=False, slots=True)
class _Worker:
    """A worker process and the link to it."""

    started_at: float
    room: Quarters
    process: WorkerProcess = field(init=False)
    link: WorkerLink = field(init=False)
    blameless: bool = False
    served: bool = False
    memory_fault: str = ""
    """Says that the kernel has killed the worker for its use of memory; "" if it has not."""
    calls: CallLog | None = None
    may_name: bool = False
    """It may send `CodeNames`."""
    perf_map: PerfMap | None = None


class Supervisor:
    """Keeps one worker process running, and for a while a second one that may take its place."""

    def __init__(
        self,
        owner: Owner,
        log: Logger,
        launch: Callable[[], Launch],
        policy: RestartPolicy | None = None,
        *,
        quarters: Quarters = NOWHERE,
        generations: Iterator[int] | None = None,
        known_calls: set[str] | None = None,
        time_budget: TimeBudget | None = None,
    ) -> None:
        """`launch`: called for each worker but second ones; may raise `HostError`. `quarters`: the VM's. `generations` numbers the workers, from 1 if it is not given.

        `known_calls`: system calls that the log has named already. Not None only if workers run under a filter that
        reports calls (`sandbox: permissive`). `time_budget`: for reading what all workers of the VM send; None: each has
        one of its own.
        """
        self._time_budget = time_budget
        self._generations = count(1) if generations is None else generations
        self._known_calls = known_calls
        self._owner = owner
        self._log = log
        self._plan = launch
        self._quarters = quarters
        self._policy = policy or RestartPolicy()
        self._wanted = False
        self._worker: _Worker | None = None
        self._second: _Worker | None = None
        self._leaving: set[_Worker] = set()
        """Workers that a migration has left behind: killed, and not reaped yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._quick_deaths = 0
        self.generation = 0
        """Number of the worker; a second worker has the number of the first."""

    @property
    def pid(self) -> int | None:
        return None if self._worker is None else self._worker.process.pid

    @property
    def room(self) -> Quarters | None:
        """Quarters of the worker; None: there is no worker."""
        return None if self._worker is None else self._worker.room

    def start(self) -> None:
        """Starts a worker, and keeps one running from now on."""
        self._wanted = True
        self._quick_deaths = 0
        if self._worker is None and self._timer is None:
            self._spawn()

    @property
    def place(self) -> tuple[str, int] | None:
        """Place of the worker within the VM's quarters, by which `resume` finds it again."""
        return None if self._worker is None else self._quarters.place_of(self._worker.room)

    def resume(
        self, kept: Kept, generation: int, place: tuple[str, int] | None, *, perf_maps: bool, served: bool
    ) -> WorkerLink:
        """Takes over the worker of an earlier daemon, in place of `start`; `served`: it was ready."""
        self._wanted = True
        self.generation = generation
        worker = self._worker = self._watched(self._quarters.resumed_room(place), perf_maps, kept)
        worker.served = served
        self._log.info("worker_taken_over", pid=worker.process.pid, generation=generation, guest=True)
        return worker.link

    @property
    def process(self) -> WorkerProcess | None:
        """The worker's process; None: there is no worker."""
        return None if self._worker is None else self._worker.process

    async def stop(self) -> None:
        """Ends all workers; returns when they are reaped."""
        self._wanted = False
        self._cancel_timer()
        self.drop_second()
        workers = [*self._leaving, *([] if self._worker is None else [self._worker])]
        for worker in workers:
            worker.process.kill()
        if workers:
            await asyncio.wait([worker.process.exited for worker in workers])  # unlike gather, cancels no future

    async def replace(self, reason: str) -> None:
        """Kills the worker, whose end then does not count as a death; waits for it, but not for long."""
        worker = self._worker
        if worker is None:
            return
        self._log.info("worker_replaced", pid=worker.process.pid, reason=reason)
        worker.blameless = True
        worker.process.kill()
        await asyncio.wait([worker.process.exited], timeout=KILL_WAIT_S)

    def close(self) -> None:
        """Ends all workers like `stop`, but waits without the loop: for the end of the program."""
        self._wanted = False
        self._cancel_timer()
        self.drop_second()
        for worker in [*self._leaving, *([] if self._worker is None else [self._worker])]:
            worker.process.kill_and_reap()

    # ---- a second worker -------------------------------------------------------------------------

    def start_second(self, launch: Launch) -> WorkerLink:
        """Starts a second worker beside the first; the owner sends its `Setup`.

        :raise OSError: when the host cannot start it.
        :raise HostError: when the host cannot isolate it.
        """
        assert self._second is None  # one migration at a time
        self._second = self._launch(launch)
        self._log.info("second_worker_started", pid=self._second.process.pid, guest=True)
        return self._second.link

    def adopt_second(self) -> None:
        """Puts the second worker in the place of the first, which is ended without a call of the owner."""
        assert self._worker is not None
        assert self._second is not None
        first, self._worker, self._second = self._worker, self._second, None
        self._log.info("worker_changed", pid=self._worker.process.pid, instead_of=first.process.pid, guest=True)
        self._leave(first)

    def drop_second(self) -> None:
        """Ends the second worker, if there is one, without a call of the owner."""
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

    def _launch(self, launch: Launch) -> _Worker:
        """Starts a process.

        :raise OSError, HostError: as `start_second`.
        """
        room = self._quarters.used_room("worker", launch.limits)
        try:
            return self._watched(room, launch.perf_maps, lambda fd: launch.command(room, fd))
        except (OSError, HostError):
            self._quarters.keep(room)
            raise

    def _watched(
        self, room: Quarters, may_name: bool, command: Callable[[int], Sequence[str] | Copying] | Kept
    ) -> _Worker:
        """Starts a process in `room`, or takes one over.

        :raise OSError, HostError: as `start_second`.
        """
        worker = _Worker(asyncio.get_running_loop().time(), room, may_name=may_name)
        worker.process = WorkerProcess(command, lambda: self._on_exit(worker), lambda: self._on_words(worker))
        worker.link = WorkerLink(
            worker.process.sock,
            lambda message, fds: self._on_message(worker, message, fds),
            lambda reason: self._on_lost(worker, reason),
            self._time_budget,
            first_seq=command.first_seq if isinstance(command, Kept) else 0,
        )
        return worker

    def _spawn(self) -> None:
        self._timer = None
        self.generation = next(self._generations)
        try:
            worker = self._launch(self._plan())
        except (OSError, HostError) as error:
            self._log.error("worker_not_started", error=str(error))
            self._on_end(None, f"was not started: {error}", quick=True)
            return
        self._worker = worker
        self._log.info("worker_started", pid=worker.process.pid, generation=self.generation, guest=True)
        try:
            self._owner.worker_started(worker.link)
        except OSError as error:
            self._log.error("worker_not_set_up", pid=worker.process.pid, error=str(error))
            worker.process.kill()

    def _on_message(self, worker: _Worker, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        if isinstance(message, CallListener):
            self._listen(worker, *fds)
            return
        if isinstance(message, CodeNames):
            self._name(worker, message)
            return
        worker.served |= isinstance(message, Ready | Resumed)
        self._owner.worker_said(worker.link, message, fds)

    def _name(self, worker: _Worker, names: CodeNames) -> None:
        """Has perf see the names of a worker's code."""
        if not worker.may_name:
            worker.link.condemn("named code without being asked")
            return
        if worker.process.exited.done():  # perf has nothing left to read, and its number may be another process's
            return
        if worker.perf_map is None:
            worker.perf_map = PerfMap(worker_of(worker.process.pid))
        try:
            worker.perf_map.name(names)
        except OSError as error:
            self._log.warning("perf_map_not_written", file=str(worker.perf_map.path), error=str(error), guest=True)

    def _listen(self, worker: _Worker, fd: int) -> None:
        """Takes a filter's listener, once, from a worker that is not ready yet: later, guest code may be what sends one."""
        if self._known_calls is None or worker.calls is not None or worker.served:
            os.close(fd)
            worker.link.condemn("sent an unexpected listener of a system call filter")
            return
        try:
            worker.calls = CallLog(fd, self._log, self._known_calls)
        except ValueError as error:
            worker.link.condemn(f"sent a false listener: {error}")
        except (OSError, RuntimeError) as error:
            self._on_lost(worker, str(error))

    def _on_lost(self, worker: _Worker, reason: str) -> None:
        """Kills a worker whose link broke: it cannot be reached any more."""
        if worker.link.fault:
            self._log.warning("worker_faulty", pid=worker.process.pid, reason=reason, guest=True)
        else:
            self._log.debug("worker_link_lost", pid=worker.process.pid, reason=reason, guest=True)
        worker.process.kill()

    def _on_words(self, worker: _Worker) -> None:
        if worker is self._worker:
            self._owner.worker_spoke()

    def _on_exit(self, worker: _Worker) -> None:
        worker.link.drain()
        worker.link.close()
        if worker.calls is not None:
            worker.calls.close()
        if worker.perf_map is not None:
            worker.perf_map.close()
        how = describe_exit(worker.process.exited.result()) + ("" if worker.served else " before it was ready")
        if worker.room.oom_kills():
            worker.memory_fault = how = "used more of the host's memory than its VM may"
            self._log.warning("worker_faulty", pid=worker.process.pid, reason=how, guest=True)
        self._quarters.keep(worker.room)
        about = {"pid": worker.process.pid, "how": how, "stderr": worker.process.last_words()}
        if worker is self._second:
            self._second = None
            self._log.warning("second_worker_died", **about, guest=True)
            self._owner.second_died(how)
        elif worker is self._worker:
            self._worker = None
            if self._wanted and not worker.blameless:
                self._log.warning("worker_died", **about, guest=True)
            quick = asyncio.get_running_loop().time() - worker.started_at < self._policy.quick_death_s
            self._on_end(worker, how, quick=quick)
        self._leaving.discard(worker)

    def _on_end(self, worker: _Worker | None, how: str, *, quick: bool) -> None:
        """Tells the owner how a worker ended, None if it was never started, and decides when the next one starts."""
        blameless = worker is not None and worker.blameless
        served = worker is not None and worker.served
        if not blameless:
            self._quick_deaths = self._quick_deaths + 1 if quick else 1
        failed = not served and self._quick_deaths >= self._policy.failed_after
        fault = "" if worker is None else worker.link.fault or worker.memory_fault
        self._owner.worker_died(WorkerEnd(served, how, blameless or not self._wanted, failed, fault))
        if self._wanted:
            delay = 0.0 if blameless else self._policy.delay_s(self._quick_deaths, served=served)
            self._timer = asyncio.get_running_loop().call_later(delay, self._spawn)
