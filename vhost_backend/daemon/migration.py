"""Migration of a VM to a second worker, on another GPU or other processing elements, while its guest runs.

The guest keeps every address and id; its requests wait during the pause and none fails; no interrupt tells it. The first
worker takes no more requests and lets those in flight finish. Its state travels through a file of the daemon's to the
second worker, which takes its place (the *commit*) and serves the rings from where the first has stopped. Before the
commit, any error ends the second worker, and the first goes on.

`vhost_backend.control.load` decides which migrations make sense.
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

from vhost_backend.config.daemon import VmConfig
from vhost_backend.config.engine import why_stays
from vhost_backend.daemon import worker_messages
from vhost_backend.daemon.engines import Choice
from vhost_backend.errors import HostError
from vhost_backend.log import Logger
from vhost_backend.vhost_user.memory import MappedRegion
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.migration_messages import (
    Measured,
    MigrationHold,
    MigrationLoad,
    MigrationMeasure,
    MigrationRelease,
    MigrationSave,
    Saved,
)
from vhost_backend.worker_protocol.protocol import Ready, WorkerMessage

HOLD_S: Final = 5.0
"""Default time that requests in flight have to finish before a migration is given up."""
COPY_S: Final = 60.0
SLOWEST_BYTES_PER_S: Final = 50 << 20
"""Deadline for saving or loading, far longer than either takes: `COPY_S`, and the size at this rate. A later worker is lost."""
CHANNELS_S: Final = 0.05
"""Longest time that the rings wait until the control system has opened its channels in the second worker, so that no
record is missed."""
MAKE_WAY_S: Final = 0.03
"""Longest time that a message of the frontend waits for a pause to end by itself."""
MOST_OTHER_BYTES: Final = 1 << 30
"""Limit for programs, their variables and tables; the VM's quota is the limit for the guest's allocations."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

State: TypeAlias = Literal["starting", "quiescing", "copying", "restoring", "done", "failed"]
_M = TypeVar("_M", bound=WorkerMessage)


class MigrationError(Exception):
    """The migration failed, and the first worker goes on; the text says why."""


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """Progress or result of a migration. Times are ns of CLOCK_REALTIME."""

    vm: str
    source: str
    target: str
    state: State
    started_ns: int
    ended_ns: int | None = None
    bytes: int = 0
    """Bytes copied; zeroes are not."""
    paused_ns: int = 0
    """Time during which no worker took requests."""
    text: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "done"


Progress: TypeAlias = Callable[[MigrationReport], None]
"""Called with the report at every change of its state."""


def forget(_report: MigrationReport) -> None:
    """Ignores the report: the default `Progress`."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The worker that serves the guest, and what the guest has been told about the device."""

    link: WorkerLink
    region: MappedRegion | None
    """The guest's region; None: the worker has none at present."""
    region_address: int
    """Address at which kernels see the region; 0: they do not see it."""
    device_features: int


class Migratable(Protocol):
    """Operations that a migration needs of the VM. Called on the loop; they do not wait."""

    @property
    def log(self) -> Logger: ...

    def standing(self) -> Standing | None:
        """The present worker and device; None: no worker is ready, or no frontend is connected."""
        ...

    def start_second(self, target: Choice) -> tuple[WorkerLink, Answer]:
        """Starts a second worker and sends its `Setup`; returns the answer to that.

        :raise OSError, HostError: the host cannot start the worker.
        """
        ...

    def drop_second(self) -> None: ...

    def adopt_second(self, target: Choice, link: WorkerLink, ready: Ready) -> None:
        """Puts the second worker in the place of the first; it serves no ring yet."""
        ...

    def go_on(self, link: WorkerLink) -> Sequence[Answer]:
        """Has the second worker serve the rings from where the first has stopped; returns its acks."""
        ...


class Migration:
    """Attempt to migrate a VM. While `run` is at work, its owner passes on messages and calls `abort` and `make_way`."""

    def __init__(
        self, vm: Migratable, source: Choice, target: Choice, hold_s: float = HOLD_S, progress: Progress = forget
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

    # ---- events during the attempt ---------------------------------------------------------------

    @property
    def pauses(self) -> bool:
        """True while the guest's requests wait for the migration."""
        return self._paused_at is not None and not self._committed

    def takes(self, link: WorkerLink, message: WorkerMessage) -> bool:
        """Keeps a worker's message that is for the migration; False: the message is for the VM."""
        if self._committed or (link is not self._second and not isinstance(message, Measured | Saved)):
            return False
        self._said[type(message)] = message
        return not isinstance(message, protocol.Log)

    def abort(self, reason: str) -> None:
        """Ends the second worker and has the first go on, at once; does nothing after the commit."""
        if self._committed or self._aborted.done():
            return
        self._aborted.set_result(reason)
        self._vm.drop_second()
        if self._paused_at is not None and self._first is not None:
            self._first.post(MigrationRelease)

    async def make_way(self, reason: str) -> None:
        """Waits until a worker may get messages again: until the pause has ended, by itself or by an abort."""
        if self.pauses:
            await asyncio.wait([self._ended], timeout=MAKE_WAY_S)
            self.abort(reason)

    # ---- steps -----------------------------------------------------------------------------------

    async def run(self) -> MigrationReport:
        """Migrates the VM and returns the final report. Raises errors that are bugs; the first worker goes on then, too."""
        try:
            await self._migrate()
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

    async def _migrate(self) -> None:
        standing = self._vm.standing()
        if standing is None:
            raise MigrationError("no worker serves the VM's guest now")
        first = self._first = standing.link
        second, ready = await self._start_second(standing)
        self._step("quiescing")
        self._paused_at = time.monotonic_ns()
        hold_ms = int(self._hold_s * 1000)
        held = first.post(lambda seq: MigrationHold(seq, hold_ms), timeout_s=self._hold_s + COPY_S)
        self.paused.set()
        await self._done(held, "hold")
        self._step("copying")
        size = await self._measure(first)
        copy_s = COPY_S + size / SLOWEST_BYTES_PER_S
        with _transfer(size) as fd:
            await self._done(first.post(MigrationSave, (fd,), copy_s), "save")
            self._step("restoring", self._take(Saved).copied_bytes)
            await self._done(second.post(MigrationLoad, (fd,), copy_s), "load")
            await self._commit(second, ready, self._paused_at)

    async def _commit(self, second: WorkerLink, ready: Ready, paused_at: int) -> None:
        """Puts the second worker in place: from here on its end is handled by the VM and does not abort the migration."""
        self._committed = True
        self._vm.adopt_second(self._target, second, ready)
        await second.quiet(CHANNELS_S)
        answers = self._vm.go_on(second)
        if answers:
            await asyncio.wait(answers)
        self.report = replace(self.report, paused_ns=time.monotonic_ns() - paused_at)

    async def _start_second(self, standing: Standing) -> tuple[WorkerLink, Ready]:
        """Starts a second worker that sees the guest's memory at the same addresses as the first."""
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
        if standing.region is not None:
            answer = worker_messages.post_memory(link, standing.region, standing.region_address)
            await self._done(answer, "map the memory")
        return link, ready

    async def _measure(self, first: WorkerLink) -> int:
        """Size of the file, in bytes, as the first worker measures it."""
        await self._done(first.post(MigrationMeasure), "measure")
        measured = self._take(Measured)
        quota = self._target.config.quota.memory_bytes
        if measured.memory_bytes > quota or measured.other_bytes > MOST_OTHER_BYTES:
            raise MigrationError(
                f"the worker says that {measured.memory_bytes} bytes of memory and {measured.other_bytes} others "
                f"are to be saved; allowed: {quota}, the VM's quota, and {MOST_OTHER_BYTES}"
            )
        return measured.memory_bytes + measured.other_bytes

    def _take(self, kind: type[_M]) -> _M:
        """Message that a worker must have sent before its ack."""
        message = self._said.pop(kind, None)
        if not isinstance(message, kind):
            raise MigrationError(f"a worker answered without {kind.TYPE}")
        return message

    async def _done(self, answer: Answer, what: str) -> None:
        """Waits for a worker's ack.

        :raise MigrationError: the worker refused or was lost, or the migration was aborted.
        """
        await self._settled(answer)
        ack = answer.result()
        if ack is None:
            raise MigrationError(f"the worker was lost before it could {what}")
        if not ack.ok:
            raise MigrationError(f"a worker could not {what}: {ack.error}")

    async def _settled(self, answer: Answer) -> None:
        both: tuple[asyncio.Future[Any], ...] = (answer, self._aborted)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self._aborted.done():
            raise MigrationError(self._aborted.result())

    # ---- the report ------------------------------------------------------------------------------

    def _step(self, state: State, copied: int = 0) -> None:
        self.report = replace(self.report, state=state, bytes=copied)
        self._progress(self.report)

    def _end(self, state: State, text: str) -> None:
        """Reports and logs the end. A failed migration reports its pause, too."""
        paused_ns = self.report.paused_ns
        if not self._committed and self._paused_at is not None:
            paused_ns = time.monotonic_ns() - self._paused_at
        self.report = replace(self.report, state=state, text=text, ended_ns=time.time_ns(), paused_ns=paused_ns)
        about = {"source": self.report.source, "target": self.report.target, "text": text}
        tell = self._vm.log.info if state == "done" else self._vm.log.warning
        tell(f"migration_{state}", **about, bytes=self.report.bytes, paused_ms=paused_ns / 1e6, guest=True)
        self._progress(self.report)


def describe(choice: Choice) -> str:
    """Describes the GPU and the number of processing elements of a choice."""
    where = choice.engine if choice.gpu is None else f"GPU {choice.gpu.index}"
    return f"{where}, {choice.pes} PEs"


@contextmanager
def _transfer(size: int) -> Iterator[int]:
    """Makes a file of zeroes that cannot change its size; closes it at the end of the block.

    :raise MigrationError: the host lacks descriptors or memory.
    """
    try:
        fd = os.memfd_create("vgc-transfer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise MigrationError(f"the host cannot make the transfer file: {error}") from error
    try:
        try:
            os.ftruncate(fd, max(size, 1))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            raise MigrationError(f"the host cannot make the transfer file of {size} bytes: {error}") from error
        yield fd
    finally:
        os.close(fd)


def check_target(config: VmConfig, source: Choice, target: Choice) -> None:
    """Checks that a VM may migrate from `source` to `target`.

    :raise MigrationError: `target` is not allowed, or the engine cannot be migrated.
    """
    if stays := why_stays(source.engine):
        raise MigrationError(stays)
    if target.problem:
        raise MigrationError(target.problem)
    if target.engine != source.engine:
        raise MigrationError(
            f"from the engine {source.engine} to {target.engine}; allowed: to the same engine elsewhere"
        )
    most = config.quota.pes or os.cpu_count() or 1
    if target.gpu is None and not 1 <= target.pes <= most:
        raise MigrationError(f"{target.pes} processing elements; allowed: 1..{most}, the VM's quota")
