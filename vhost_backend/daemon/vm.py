"""One VM of the daemon: its session with QEMU on one side, its worker on the other.

The session's state (memory table, vrings) and the in-flight memory are the truth; a worker is told all of it once
it is ready, and every change after that. So a worker can be replaced at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vhost_backend.config import VmConfig
from vhost_backend.daemon import telling
from vhost_backend.daemon.compiling import CompileRelay
from vhost_backend.daemon.config_space import ConfigSpace
from vhost_backend.daemon.engines import Choice, Engines
from vhost_backend.daemon.link import GPU_TIMEOUT_S, Answer, Build, WorkerLink
from vhost_backend.daemon.migration import (
    HOLD_S,
    Migration,
    MigrationError,
    MigrationReport,
    Progress,
    Standing,
    check_target,
    forget,
)
from vhost_backend.daemon.notice import GuestNotice
from vhost_backend.daemon.placing import choose_arena
from vhost_backend.daemon.ports import Compiler, VmControl
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker
from vhost_backend.daemon.rings import Rings, numbers
from vhost_backend.daemon.supervisor import RestartPolicy, Supervisor
from vhost_backend.errors import FrontendError
from vhost_backend.log import Logger, get_logger
from vhost_backend.vhost_user.connection import Connection
from vhost_backend.vhost_user.fds import Fd
from vhost_backend.vhost_user.memory import MemoryTable
from vhost_backend.vhost_user.messages import VirtioFeature
from vhost_backend.vhost_user.session import Session
from vhost_backend.vhost_user.vring import Vring
from vhost_backend.worker import codec, protocol
from vhost_backend.worker.moving_messages import Measured, Saved
from vhost_backend.worker.protocol import Ack, Compile, Log, Ready, Stats, VringBroken, WorkerMessage
from virtio_proto.schema import EngineKind, Health, Status

STOP_WAIT_S: Final = 0.07
"""How long a worker may take to stop a ring; then it is killed, and GET_VRING_BASE is answered without it."""
ACK_WAIT_S: Final = 0.07
"""How long the frontend waits for the worker to have done what it was told."""

HANDOVER_S: Final = 0.5
STILLBORN_UNTIL_FALLBACK: Final = 3
"""So many workers in a row that do not get ready, and `auto` goes by what it would take without a GPU."""

FAULT_KINDS: Final[Mapping[int, str]] = {
    Status.FAULT: "kernel",
    Status.ASSERT: "assert",
    Status.TIMEOUT: "deadline",
    Status.DEADLOCK: "deadlock",
    Status.LAUNCH_FAILED: "device",
    Status.DEVICE_LOST: "device",
}
"""What a worker's last words are about, in the words of the control API."""


class Vm:
    """Serves one VM. It is the `Device` of its session and the `Owner` of its worker's supervisor."""

    def __init__(
        self,
        config: VmConfig,
        compiler: Compiler,
        engines: Engines,
        command: WorkerCommand = sandboxed_worker,
        policy: RestartPolicy | None = None,
    ) -> None:
        self.config = config
        self.stats: Stats | None = None
        self._compiler = compiler
        self._engines = engines
        self._choice: Choice | None = None  # of the session that is served, or was last
        self._log = get_logger(vm=config.name)
        self._command = command
        self._supervisor = Supervisor(self, self._log, lambda fd: command(self._chosen.config, fd), policy)
        self._space = ConfigSpace(config)
        self._rings = Rings(self._log)
        self._lock = asyncio.Lock()
        self._waiting = False  # a connection, for the one that is served to end
        self._session: Session | None = None
        self._notice = GuestNotice(self._log, self._can_be_told)
        self._link: WorkerLink | None = None  # of a worker that is ready
        self._relay: CompileRelay | None = None
        self._overdue: Answer | None = None  # what was last waited for
        self._stillborn = 0  # workers of this choice that ended before they were ready
        self._complaint = ""  # of the last one
        self._promise = contextlib.ExitStack()  # what the engines count for it
        self._arena = choose_arena(config)  # of the last first worker, and of those that its work moves to
        self.migration: Migration | None = None
        self.control: VmControl | None = None
        """The control system's part of it; set before the first connection, or never."""

    @property
    def choice(self) -> Choice | None:
        """What computes for it, or did for its last guest."""
        return self._choice

    @property
    def quiesced(self) -> bool:
        """Whether it takes no new requests."""
        return self._rings.quiesced

    @property
    def is_connected(self) -> bool:
        return self._session is not None

    @property
    def num_pes(self) -> int:
        """Of its worker; 0 while none is ready."""
        return 0 if self._link is None else int(self._space.pes)

    @property
    def _chosen(self) -> Choice:
        assert self._choice is not None  # there are workers in sessions only, and those begin with a choice
        return self._choice

    @property
    def worker_pid(self) -> int | None:
        return self._supervisor.pid

    @property
    def health(self) -> Health:
        return self._space.health

    @property
    def generation(self) -> int:
        return self._space.generation

    # ---- connections -----------------------------------------------------------------------------

    async def serve(self, sock: socket.socket) -> None:
        """Serves one connection to its end; a second one at the same time is refused.

        Not at once: when QEMU is restarted, the end of the old connection may be noticed after the new one. Only
        one waits: a frontend that connects without end must not use up the daemon's descriptors.
        """
        with sock:
            if not await self._enter():
                self._log.warning("connection_refused", reason="another frontend is connected", guest=True)
                return
            try:
                await self._serve(Session(Connection(sock), self))
            finally:
                self._lock.release()

    async def _enter(self) -> bool:
        """Takes the lock; False if it cannot be had soon, or somebody waits for it already."""
        if self._waiting:
            return False
        self._waiting = True
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self._lock.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting = False
        return True

    async def _serve(self, session: Session) -> None:
        self._log.info("frontend_connected", guest=True)
        choice = await self._engines.choose(self.config)
        with contextlib.ExitStack() as self._promise:
            self._promise.enter_context(self._engines.promised(choice))
            self._take(choice)
            await self._run(session)

    def _take(self, choice: Choice) -> None:
        """What computes for this session, or that nothing does: then the guest can see the device, and its health."""
        self._stillborn, self._complaint = 0, ""
        self._adopt(choice)
        if choice.problem:
            self._space.health = Health.FAILED
        else:
            self._supervisor.start()

    def _adopt(self, choice: Choice) -> None:
        if choice != self._choice:
            self._log_choice(choice)
        self._choice = choice
        self._space.engine_kind = EngineKind[choice.engine.upper()]
        self._space.asked_pes = choice.pes

    def _log_choice(self, choice: Choice) -> None:
        device = (
            {} if choice.gpu is None else {"device": choice.gpu.index, "uuid": choice.config.engine.options["device"]}
        )
        if choice.problem:
            self._log.error("engine_unavailable", engine=choice.engine, problem=choice.problem)
        else:
            self._log.info("engine_chosen", engine=choice.engine, why=choice.why or "configured", **device)

    async def _run(self, session: Session) -> None:
        session.refused = lambda error: self._log.warning("message_refused", error=str(error), guest=True)
        self._session = session
        if self.control is not None:
            self.control.connected(True)
        try:
            await session.run()
        except FrontendError as error:
            self._log.warning("frontend_dropped", error=str(error), guest=True)
        except OSError as error:
            self._log.warning("frontend_lost", error=str(error), guest=True)
        except Exception:  # noqa: BLE001  a bug of ours costs this VM its connection, and no other VM anything
            self._log.exception("session_failed")
        finally:
            self._session = None
            session.close()
            await self._forget()
            if self.control is not None:
                self.control.connected(False)
            self._log.info("frontend_disconnected", guest=True)

    async def _forget(self) -> None:
        """Drops everything that belonged to a session and its guest."""
        if self.migration is not None:
            self.migration.abort("the frontend disconnected meanwhile")
        self._notice.forget()
        await self._supervisor.stop()
        self._rings.forget()
        self._space.health = Health.STARTING
        self._space.driver_ack = 0

    def close(self) -> None:
        """Kills and reaps the worker: for the end of the program."""
        self._supervisor.close()
        self._rings.inflight.close()

    # ---- the session's Device --------------------------------------------------------------------

    @property
    def num_queues(self) -> int:
        return self.config.num_queues

    def config_read(self) -> bytes:
        return self._space.read()

    def config_write(self, offset_bytes: int, data: bytes) -> None:
        self._space.write(offset_bytes, data)

    def backend_channel_set(self, channel: Fd) -> None:
        self._notice.set_channel(channel)

    async def memory_changed(self, table: MemoryTable) -> None:
        if self.migration is not None:
            self.migration.abort("the frontend changed the memory table meanwhile")
        sizes = [entry.region.size_bytes for entry in table]
        if sizes and self.config.region_bytes not in sizes:  # the driver will refuse the device
            self._log.warning("region_size_differs", configured=self.config.region_bytes, shared=sizes, guest=True)
        if self._link is not None:
            await self._settled(self._send_memory(self._link, table))

    async def vring_started(self, vring: Vring) -> None:
        await self._make_way(vring)
        if self._link is not None:
            await self._settled(self._send_vring(self._link, vring))

    async def vring_enabled(self, vring: Vring) -> None:
        await self._make_way(vring)
        index, enabled = vring.index, vring.enabled and not self.quiesced
        await self._post(lambda seq: protocol.VringEnable(seq, index, enabled))
        self._notice.tell_what_is_untold()

    async def vring_fd_changed(self, vring: Vring, name: str) -> None:
        await self._make_way(vring)
        fd = vring.kick if name == "kick" else vring.call
        message = protocol.VringKick if name == "kick" else protocol.VringCall
        index, fds = vring.index, numbers(fd)
        await self._post(lambda seq: message(seq, index, bool(fds)), fds)

    async def vring_stopped(self, vring: Vring) -> int:
        """Asks the worker; one that does not answer at once is killed, and the in-flight memory asked."""
        await self._make_way(vring)
        link, index = self._link, vring.index
        if link is not None:
            answer = link.post(lambda seq: protocol.VringStop(seq, index))
            await asyncio.wait([answer], timeout=STOP_WAIT_S)
            ack = answer.result() if answer.done() else None
            if ack is not None and ack.ok:
                return ack.base
            if not answer.done():
                await self._supervisor.replace(f"it did not stop vring {index} in time")
        return self._rings.next_of(vring)

    async def reset(self) -> None:
        """A worker that has run a ring may hold anything of the guest's, so it goes."""
        if self.migration is not None:
            self.migration.abort("the guest reset the device meanwhile")
        if self._rings.any_started:
            self._space.health = Health.STARTING
            self._rings.forget()
            await self._supervisor.replace("the guest reset the device")

    # ---- what the control system does to it -------------------------------------------------------

    async def quiesce(self, *, on: bool) -> None:
        """Takes no new requests from now on, whichever worker serves it, or takes them again. Those in flight finish."""
        self._rings.quiesced = on
        if self._session is not None:
            for vring in self._session.vrings:
                if vring.running:
                    await self.vring_enabled(vring)

    async def replace_worker(self, reason: str) -> None:
        """A new worker; requests in flight are answered with DEVICE_LOST."""
        await self._supervisor.replace(reason)

    # ---- moving its work to a second worker: the migration's Movable -----------------------------

    async def migrate(self, target: Choice, hold_s: float = HOLD_S, progress: Progress = forget) -> MigrationReport:
        """Moves the work to a worker of `target`, which must be of the same engine, while the guest runs.

        :raise MigrationError: another one is under way, or it cannot be tried.
        """
        if self.migration is not None:
            raise MigrationError(f"the work of {self.config.name} is being moved already")
        check_target(self.config, self._chosen, target)
        self.migration = Migration(self, self._chosen, target, hold_s, progress)
        try:
            return await self.migration.run()
        finally:
            self.migration = None

    async def _make_way(self, vring: Vring) -> None:
        if self.migration is not None:
            await self.migration.make_way(f"the frontend changed vring {vring.index} meanwhile")

    @property
    def log(self) -> Logger:
        return self._log

    def standing(self) -> Standing | None:
        if self._link is None or self._session is None:
            return None
        return Standing(
            self._link, self._session.memory, self._space.region_device_address, self._space.device_features
        )

    def start_second(self, target: Choice) -> tuple[WorkerLink, Answer]:
        link = self._supervisor.start_second(lambda fd: self._command(target.config, fd))
        return link, self._send_setup(link, target)

    def drop_second(self) -> None:
        self._supervisor.drop_second()
        if self.control is not None:
            self.control.drop_others()

    def adopt_second(self, target: Choice, link: WorkerLink, ready: Ready) -> None:
        """The guest is told nothing: what it reads is what is there, and that much has not changed for it."""
        if self._relay is not None:
            self._relay.close()
        self._supervisor.adopt_second()
        self._promise.close()
        self._promise.enter_context(self._engines.promised(target))
        self._adopt(target)
        self._serve_by(link, ready)

    def go_on(self, link: WorkerLink) -> Sequence[Answer]:
        """Nothing if worker or frontend are gone meanwhile: then others see to what follows."""
        session, generation = self._session, self._supervisor.generation
        if self._link is not link or session is None:
            return []
        return [
            self._noted(vring, self._rings.go_on(link, vring, session.acked_features, generation))
            for vring in session.vrings
            if vring.running
        ]

    # ---- the supervisor's Owner ------------------------------------------------------------------

    def worker_started(self, link: WorkerLink) -> None:
        self._rings.inflight.stamp()
        self._arena = choose_arena(self.config)
        self._send_setup(link, self._chosen).add_done_callback(self._on_setup_answered)

    def _send_setup(self, link: WorkerLink, choice: Choice) -> Answer:
        setup = telling.setup(choice, self._supervisor.generation, self._arena)
        timeout_s = None if choice.gpu is None else GPU_TIMEOUT_S
        fds = (self._rings.inflight.fd,)
        if self.control is None:
            return link.post(lambda seq: replace(setup, seq=seq), fds, timeout_s)
        with self.control.begin(link) as (section, more):
            return link.post(lambda seq: replace(setup, seq=seq, control=section), (*fds, *more), timeout_s)

    def second_died(self, how: str) -> None:
        if self.migration is not None:
            self.migration.abort(f"the second worker {how}")

    def worker_said(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        if self.migration is not None and self.migration.takes(link, message):
            codec.close_fds(fds)
            return
        match message:
            case Ready():
                self._on_ready(link, message)
            case Compile():
                self._on_compile(message, fds[0])
            case VringBroken(index, reason):
                self._log.warning("vring_broken", vring=index, reason=reason, guest=True)
            case Stats():
                self.stats = message
            case Log(level, event, extra):
                getattr(self._log, level)("worker_log", said=event, guest=True, fields=dict(extra))
            case Ack() | Measured() | Saved():
                pass  # the link settles the former, a migration takes the latter

    def worker_died(self, health: Health) -> None:
        if self.migration is not None:
            self.migration.abort("the first worker died")
        if self._relay is not None:
            self._relay.close()
        box = self._rings.inflight.black_box()
        if words := self._rings.inflight.last_words():
            self._log.warning("worker_last_words", said=words, guest=True)
        if self.control is not None:
            fault = None if box is None else FAULT_KINDS.get(box.status)
            self.control.lost(words or "it ended", fault, died=not self._supervisor.ended_by_us)
            self.control.drop_others()
        self._stillborn += self._link is None
        self._relay = self._link = None
        fallback = self._chosen.fallback
        if fallback is not None and self._stillborn >= STILLBORN_UNTIL_FALLBACK and self._session is not None:
            why = f"no worker gets ready on the GPU: {self._complaint or 'they die'}"
            self._adopt(replace(fallback, why=why))
            health = Health.RECOVERING
        if self._space.health != Health.STARTING or health == Health.FAILED:
            self._set_health(health)

    def _on_setup_answered(self, answer: Answer) -> None:
        ack = answer.result()
        if ack is not None:
            self._complaint = ack.error
            self._log.error("worker_not_ready", error=ack.error)

    def _on_ready(self, link: WorkerLink, ready: Ready) -> None:
        asked = {} if ready.num_pes == self._chosen.pes else {"asked": self._chosen.pes}
        about = {"engine": ready.engine_name, "pes": ready.num_pes, **asked, "sandbox": ready.sandbox}
        self._log.info("worker_ready", **about, guest=True)
        self._stillborn = 0
        self._serve_by(link, ready)
        self._space.generation = self._supervisor.generation
        if self._session is not None:
            self._replay(link, self._session)
        self._set_health(Health.READY)

    def _serve_by(self, link: WorkerLink, ready: Ready) -> None:
        self._link = link
        if self.control is not None:
            self.control.serves(link, ready.control_pes or ready.num_pes)
        self._relay = CompileRelay(self._chosen, self._compiler, link, self._log)
        self._space.engine_name = ready.engine_name
        self._space.pes = ready.num_pes
        self._space.device_features = ready.features

    def _on_compile(self, request: Compile, source_fd: int) -> None:
        if self._relay is None:
            codec.close_fds((source_fd,))
        else:
            self._relay.submit(request, source_fd)

    # ---- telling the worker ----------------------------------------------------------------------

    def _replay(self, link: WorkerLink, session: Session) -> None:
        """Tells a new worker everything that the session has built up."""
        if len(session.memory):
            self._send_memory(link, session.memory)
        for vring in session.vrings:
            if vring.running:
                self._send_vring(link, vring)

    def _send_memory(self, link: WorkerLink, table: MemoryTable) -> Answer:
        regions = telling.regions(table)
        fds = tuple(entry.fd.fileno() for entry in table)
        answer = link.post(lambda seq: protocol.MemTable(seq, regions), fds)
        answer.add_done_callback(self._on_memory_answered)
        return answer

    def _on_memory_answered(self, answer: Answer) -> None:
        ack = answer.result()
        if ack is None:
            return
        if not ack.ok:
            self._log.warning("memory_refused", error=ack.error, guest=True)
        if ack.region_device_address != self._space.region_device_address:
            self._space.region_device_address = ack.region_device_address
            self._notice.tell()

    def _send_vring(self, link: WorkerLink, vring: Vring) -> Answer:
        return self._noted(vring, self._rings.start(link, vring, self._acked_features(), self._supervisor.generation))

    def _noted(self, vring: Vring, answer: Answer) -> Answer:
        answer.add_done_callback(lambda done: self._on_done(f"vring {vring.index}", done))
        return answer

    def _acked_features(self) -> VirtioFeature:
        return VirtioFeature(0) if self._session is None else self._session.acked_features

    async def _post(self, build: Build, fds: tuple[int, ...] = ()) -> None:
        if self._link is not None:
            answer = self._link.post(build, fds)
            answer.add_done_callback(lambda done: self._on_done("a vring", done))
            await self._settled(answer)

    async def _settled(self, answer: Answer) -> None:
        """Waits for the ack, but not long, and not again for a worker that is late already."""
        if self._overdue is None or self._overdue.done():
            await asyncio.wait([answer], timeout=ACK_WAIT_S)
            self._overdue = answer

    def _on_done(self, what: str, answer: Answer) -> None:
        ack = answer.result()
        if ack is not None and not ack.ok:
            self._log.warning("worker_refused", what=what, error=ack.error, guest=True)

    # ---- telling the guest -----------------------------------------------------------------------

    def _set_health(self, health: Health) -> None:
        self._space.health = health
        self._notice.tell()

    def _can_be_told(self) -> bool:
        return self._session is not None and any(ring.running and ring.enabled for ring in self._session.vrings)
