"""Moving a VM's work to a second worker, on another GPU or other processing elements, while its guest runs.

The guest keeps every address and id, its requests wait for the pause and none fails, and no interrupt tells of it. The
first worker takes no more requests and lets those in flight finish; what it holds travels through a file of the
daemon's to the second one, which takes its place and serves the rings from where the first has stopped. Until it takes
the place, the *commit*, whatever goes wrong ends the second worker, and the first goes on.

Patent: the load management's execution part [0121]-[0124]; which moves make sense says `vhost_backend.control.load`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from vhost_backend.config import VmConfig
from vhost_backend.daemon import telling
from vhost_backend.daemon.engines import Choice
from vhost_backend.daemon.link import Answer, WorkerLink
from vhost_backend.errors import HostError
from vhost_backend.log import Logger
from vhost_backend.vhost_user.memory import MemoryTable
from vhost_backend.worker import protocol
from vhost_backend.worker.moving_messages import Measured, MoveHold, MoveLoad, MoveMeasure, MoveRelease, MoveSave, Saved
from vhost_backend.worker.protocol import Ready, WorkerMessage

HOLD_S: Final = 5.0
"""How long requests in flight may take to finish before a migration is given up, unless told otherwise."""
COPY_S: Final = 60.0
SLOWEST_BYTES_PER_S: Final = 50 << 20
"""A worker that does not end saving or loading by then is lost: far longer than it takes."""
CHANNELS_S: Final = 0.05
"""How long the rings wait for the control system to open its channels in the second worker, which misses nothing then."""
MAKE_WAY_S: Final = 0.03
"""How long a message of the frontend waits for a pause to end by itself."""
MOST_OTHER_BYTES: Final = 1 << 30
"""Programs, their variables and tables; what a guest's allocations hold is bounded by its quota."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

State: TypeAlias = Literal["starting", "quiescing", "copying", "restoring", "done", "failed"]
_M = TypeVar("_M", bound=WorkerMessage)


class MigrationError(Exception):
    """The work stays where it is; the text says why."""


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """How a migration went, or goes. Times are ns of CLOCK_REALTIME."""

    vm: str
    source: str
    target: str
    state: State
    started_ns: int
    ended_ns: int | None = None
    bytes: int = 0
    """Copied: what was not zeroes."""
    paused_ns: int = 0
    """From when no request was taken any more until the new worker took them."""
    text: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "done"


Progress: TypeAlias = Callable[[MigrationReport], None]
"""Told at every change of state."""


def forget(_report: MigrationReport) -> None:
    """A `Progress` that nobody wants."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the worker that serves a guest does it with, and what the guest knows of it."""

    link: WorkerLink
    memory: MemoryTable
    region_address: int
    """Where kernels see the region; 0: nowhere."""
    device_features: int


class Movable(Protocol):
    """What a migration needs of the VM. The methods are called on the loop and wait for nobody."""

    @property
    def log(self) -> Logger: ...

    def standing(self) -> Standing | None:
        """How it stands now; None: no worker is ready, or no frontend is there."""
        ...

    def start_second(self, target: Choice) -> tuple[WorkerLink, Answer]:
        """Starts a second worker and tells it what to be.

        :raise OSError, HostError: the host cannot start it.
        """
        ...

    def drop_second(self) -> None: ...

    def adopt_second(self, target: Choice, link: WorkerLink, ready: Ready) -> None:
        """Puts the second worker in the first one's place; it serves no ring yet."""
        ...

    def go_on(self, link: WorkerLink) -> Sequence[Answer]:
        """Has the second worker serve the rings from where the first has stopped; its answers."""
        ...


class Migration:
    """One attempt. `run` does it; everything else is told to it meanwhile."""

    def __init__(
        self, vm: Movable, source: Choice, target: Choice, hold_s: float = HOLD_S, progress: Progress = forget
    ) -> None:
        self._vm = vm
        self._target = target
        self._hold_s = hold_s
        self._progress = progress
        self._first: WorkerLink | None = None
        self._second: WorkerLink | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._aborted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._said: dict[type, WorkerMessage] = {}
        self._paused_at: int | None = None
        self.paused = asyncio.Event()
        """Set when the first worker has been told to take no more requests."""
        self._committed = False
        name = target.config.name
        self.report = MigrationReport(name, describe(source), describe(target), "starting", time.time_ns())

    # ---- what happens meanwhile ------------------------------------------------------------------

    @property
    def pauses(self) -> bool:
        """Whether the guest's requests wait for it now."""
        return self._paused_at is not None and not self._committed

    def takes(self, link: WorkerLink, message: WorkerMessage) -> bool:
        """Notes what a worker says if that is for the migration; False: it is for the VM."""
        if self._committed or (link is not self._second and not isinstance(message, Measured | Saved)):
            return False
        self._said[type(message)] = message
        return not isinstance(message, protocol.Log)

    def abort(self, reason: str) -> None:
        """Has the first worker go on, at once; too late after the commit."""
        if self._committed or self._aborted.done():
            return
        self._aborted.set_result(reason)
        self._vm.drop_second()
        if self._paused_at is not None and self._first is not None:
            self._first.post(MoveRelease)

    async def make_way(self, reason: str) -> None:
        """The first worker must be told something: returns when there is one that serves."""
        if self.pauses:
            await asyncio.wait([self._ended], timeout=MAKE_WAY_S)
            self.abort(reason)

    # ---- the way of it ---------------------------------------------------------------------------

    async def run(self) -> MigrationReport:
        """Moves the work; how it went. Raises what is a bug, and leaves the first worker serving then, too."""
        try:
            await self._move()
            self._end("done", "")
        except MigrationError as error:
            self.abort(str(error))
            self._end("failed", str(error))
        except asyncio.CancelledError:
            self.abort("it was cancelled")
            self._end("failed", "it was cancelled")
            raise
        except Exception as error:
            self.abort(f"an error in the daemon: {error!r}")
            self._end("failed", "an error in the daemon, see its log")
            raise
        finally:
            self._ended.set_result(None)
        return self.report

    async def _move(self) -> None:
        standing = self._vm.standing()
        if standing is None:
            raise MigrationError("no worker serves the VM's guest now")
        first = self._first = standing.link
        second, ready = await self._start_second(standing)
        self._step("quiescing")
        self._paused_at = time.monotonic_ns()
        hold_ms = int(self._hold_s * 1000)
        held = first.post(lambda seq: MoveHold(seq, hold_ms), timeout_s=self._hold_s + COPY_S)
        self.paused.set()
        await self._done(held, "hold")
        self._step("copying")
        size = await self._measure(first)
        copy_s = COPY_S + size / SLOWEST_BYTES_PER_S
        with _transfer(size) as fd:
            await self._done(first.post(MoveSave, (fd,), copy_s), "save")
            self._step("restoring", self._take(Saved).copied_bytes)
            await self._done(second.post(MoveLoad, (fd,), copy_s), "load")
            await self._commit(second, ready, self._paused_at)

    async def _commit(self, second: WorkerLink, ready: Ready, paused_at: int) -> None:
        """From here on the second worker serves, and what becomes of it is not the migration's business."""
        self._committed = True
        self._vm.adopt_second(self._target, second, ready)
        await second.quiet(CHANNELS_S)
        answers = self._vm.go_on(second)
        if answers:
            await asyncio.wait(answers)
        self.report = replace(self.report, paused_ns=time.monotonic_ns() - paused_at)

    async def _start_second(self, standing: Standing) -> tuple[WorkerLink, Ready]:
        """A second worker that sees the guest's memory where the first one does."""
        try:
            link, answer = self._vm.start_second(self._target)
        except (OSError, HostError) as error:
            raise MigrationError(f"the second worker cannot be started: {error}") from error
        self._second = link
        await self._settled(answer)
        refusal = answer.result()
        ready = self._said.get(Ready)
        if not isinstance(ready, Ready):
            why = "it was lost" if refusal is None else refusal.error
            raise MigrationError(f"the second worker does not get ready: {why}")
        if ready.features != standing.device_features:
            raise MigrationError(
                f"the second worker has features {ready.features:#x}; the guest was told {standing.device_features:#x}"
            )
        if len(standing.memory):
            regions, address = telling.regions(standing.memory), standing.region_address
            fds = tuple(entry.fd.fileno() for entry in standing.memory)
            await self._done(link.post(lambda seq: protocol.MemTable(seq, regions, address), fds), "map the memory")
        return link, ready

    async def _measure(self, first: WorkerLink) -> int:
        """How long the file must be."""
        await self._done(first.post(MoveMeasure), "measure")
        measured = self._take(Measured)
        quota = self._target.config.quota.memory_bytes
        if measured.memory_bytes > quota or measured.other_bytes > MOST_OTHER_BYTES:
            raise MigrationError(
                f"the worker says that {measured.memory_bytes} bytes of memory and {measured.other_bytes} others "
                f"are to be moved; allowed: {quota}, the VM's quota, and {MOST_OTHER_BYTES}"
            )
        return measured.memory_bytes + measured.other_bytes

    def _take(self, kind: type[_M]) -> _M:
        """What a worker must have said before it answered."""
        message = self._said.pop(kind, None)
        if not isinstance(message, kind):
            raise MigrationError(f"a worker answered without {kind.TYPE}")
        return message

    async def _done(self, answer: Answer, what: str) -> None:
        """Waits until a worker has done it."""
        await self._settled(answer)
        ack = answer.result()
        if ack is None:
            raise MigrationError(f"the worker that was to {what} was lost")
        if not ack.ok:
            raise MigrationError(f"a worker could not {what}: {ack.error}")

    async def _settled(self, answer: Answer) -> None:
        both: tuple[asyncio.Future[Any], ...] = (answer, self._aborted)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self._aborted.done():
            raise MigrationError(self._aborted.result())

    # ---- telling ---------------------------------------------------------------------------------

    def _step(self, state: State, copied: int = 0) -> None:
        self.report = replace(self.report, state=state, bytes=copied)
        self._progress(self.report)

    def _end(self, state: State, text: str) -> None:
        """A pause that was for nothing is one, too."""
        paused_ns = self.report.paused_ns
        if not self._committed and self._paused_at is not None:
            paused_ns = time.monotonic_ns() - self._paused_at
        self.report = replace(self.report, state=state, text=text, ended_ns=time.time_ns(), paused_ns=paused_ns)
        about = {"source": self.report.source, "target": self.report.target, "text": text}
        tell = self._vm.log.info if state == "done" else self._vm.log.warning
        tell(f"migration_{state}", **about, bytes=self.report.bytes, paused_ms=paused_ns / 1e6, guest=True)
        self._progress(self.report)


def describe(choice: Choice) -> str:
    """What computes, for people: GPU and elements."""
    where = choice.engine if choice.gpu is None else f"GPU {choice.gpu.index}"
    return f"{where}, {choice.pes} PEs"


@contextmanager
def _transfer(size: int) -> Iterator[int]:
    """A file of zeroes that cannot change its size.

    :raise MigrationError: the host has none.
    """
    try:
        fd = os.memfd_create("vgc-transfer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise MigrationError(f"the host has no file for the transfer: {error}") from error
    try:
        try:
            os.ftruncate(fd, max(size, 1))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            raise MigrationError(f"the host has no file of {size} bytes for the transfer: {error}") from error
        yield fd
    finally:
        os.close(fd)


def check_target(config: VmConfig, source: Choice, target: Choice) -> None:
    """:raise MigrationError: work of `source` cannot be moved to `target`."""
    if target.problem:
        raise MigrationError(target.problem)
    if target.engine != source.engine:
        raise MigrationError(
            f"from the engine {source.engine} to {target.engine}; allowed: to the same engine elsewhere"
        )
    most = config.quota.pes or os.cpu_count() or 1
    if target.gpu is None and not 1 <= target.pes <= most:
        raise MigrationError(f"{target.pes} processing elements; allowed: 1..{most}, the VM's quota")
