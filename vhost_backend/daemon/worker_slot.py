"""Slot of the worker that computes for a guest, from the connection of a frontend to its end.

The worker in the slot may be replaced at any moment: the session and the in-flight memory hold all state, and a new
worker gets all of it. A migration puts a second worker in the place of the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from msgspec import structs

from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon import worker_messages, worker_takeover
from vhost_backend.daemon.allotment import limits_of
from vhost_backend.daemon.bounds import worker_limits
from vhost_backend.daemon.compile_relay import CompileRelay
from vhost_backend.daemon.config_space import ChangeNotice
from vhost_backend.daemon.engines import Choice
from vhost_backend.daemon.function_look import FunctionLook
from vhost_backend.daemon.gpu_gate import Seats
from vhost_backend.daemon.keeping import Told
from vhost_backend.daemon.limit_keeper import LimitKeeper, limited
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
from vhost_backend.daemon.process import host_view
from vhost_backend.daemon.records import ChoiceRecord, WorkerRecord
from vhost_backend.daemon.runstate import Runstate
from vhost_backend.daemon.serving_worker import ServingWorker
from vhost_backend.daemon.supervisor import Launch, Supervisor, WorkerEnd
from vhost_backend.daemon.vm_parts import History, Tools, VmParts
from vhost_backend.daemon.worker_takeover import WorkerTakeover
from vhost_backend.daemon.worker_watch import WorkerWatch
from vhost_backend.fds import Fd
from vhost_backend.log import Logger
from vhost_backend.vhost_user.session import Session
from vhost_backend.worker_protocol import codec, sources
from vhost_backend.worker_protocol.link import GPU_TIMEOUT_S, SETUP_TIMEOUT_S, Answer, WorkerLink
from vhost_backend.worker_protocol.marks import Marks
from vhost_backend.worker_protocol.migration_messages import Measured, Saved
from vhost_backend.worker_protocol.protocol import (
    Ack,
    CallListener,
    CodeNames,
    Compile,
    FunctionFigures,
    Functions,
    HostProgram,
    Log,
    Ready,
    Resumed,
    Stats,
    VringBroken,
    WorkerMessage,
)
from vhost_backend.worker_protocol.registration_messages import Register, Unregister
from virtio_proto.schema import EngineKind, Status

STILLBORN_UNTIL_FALLBACK: Final = 3
"""Workers in a row that end before they are ready; after so many, `auto` takes the engine for hosts without a GPU."""

FAULT_KINDS: Final[Mapping[int, str]] = {
    Status.FAULT: "kernel",
    Status.ASSERT: "assert",
    Status.TIMEOUT: "deadline",
    Status.DEADLOCK: "deadlock",
    Status.LAUNCH_FAILED: "device",
    Status.DEVICE_LOST: "device",
}
"""Name of a worker's fault in the control API, by the status in the black box."""


@dataclass(slots=True)
class _Waiting:
    """No worker serves: the states NO_ENGINE, STARTING, RECOVERING, FAILED and DISCONNECTING."""

    stillborn: int = 0
    """Workers in a row that ended before they were ready."""
    complaint: str = ""
    """Reason that such a worker gave."""


@dataclass(frozen=True, slots=True)
class _Migrating:
    """A worker serves and may be replaced by a second one: the state MIGRATING."""

    worker: ServingWorker
    attempt: Migration


_Now: TypeAlias = _Waiting | ServingWorker | _Migrating
"""Object of the VM's state; a `ServingWorker` alone is that of READY and UNRESPONSIVE."""


class WorkerSlot:
    """Keeps a worker for one guest: the `Owner` of its supervisor, and the `Migratable` of a migration."""

    def __init__(
        self,
        vm: VmParts,
        tools: Tools,
        session: Session,
        notice: ChangeNotice,
        *,
        history: History,
        choice: Choice,
        promise: contextlib.ExitStack,
    ) -> None:
        """`promise` holds what the engines count for `choice`; a migration replaces what is in it."""
        self._vm = vm
        self._tools = tools
        self._history = history
        self._promise = promise
        self._session = session
        self._notice = notice
        self._supervisor = Supervisor(
            self,
            vm.log,
            lambda: self._launch(self._choice),
            tools.policy,
            quarters=vm.config.quarters,
            generations=history.generations,
            known_calls=history.known_calls,
            time_budget=history.link_time,
        )
        self._arena = worker_messages.choose_arena(vm.config)
        """Chosen anew for each worker that the supervisor starts; a migration's second worker has that of the first."""
        self._sources: WeakKeyDictionary[WorkerLink, Sequence[Fd]] = WeakKeyDictionary()
        """Source files of workers that are not ready yet, closed with them."""
        self._seats = Seats(
            tools.engines.gates, vm.config.name, lambda: vm.config.quota.weight, history.gpu_time, vm.log
        )
        self._watch = WorkerWatch(
            vm, tools, history.cpu_time, session, notice, is_migrating=lambda: self.migration is not None
        )
        self._look = FunctionLook()
        self._now: _Now = _Waiting()
        self._link: WorkerLink | None = None
        """Link to the worker that the supervisor has started last, or that a migration has put in its place."""
        self._files: Sequence[Fd] = ()
        """Source files of that worker."""
        self._ready: Ready | None = None
        """Words of the worker that serves when it was ready."""
        self._takeover = WorkerTakeover()
        self._counted_ns: int | None = None
        """CPU time that an earlier daemon has counted of that worker; None: no other daemon has had it serve."""
        self._coming: ServingWorker | None = None
        """Worker that is ready, and gets the registered programs."""
        self._limits: LimitKeeper | None = None
        """Limits of the worker that serves."""
        self._given = self._given_second = vm.config
        """Settings of the VM when the worker, or a migration's second one, was set up."""
        self._choice = choice
        self._set_up = choice
        """Choice with which the worker was set up."""
        self._adopt(choice)
        vm.allotment.begin(self._announced)

    @property
    def pid(self) -> int | None:
        return self._supervisor.pid

    @property
    def serving(self) -> ServingWorker | None:
        """The worker that is ready; None while the VM waits for one."""
        match self._now:
            case _Waiting():
                return None
            case _Migrating(worker):
                return worker
            case worker:
                return worker

    @property
    def migration(self) -> Migration | None:
        return self._now.attempt if isinstance(self._now, _Migrating) else None

    @property
    def choice(self) -> Choice:
        """Present choice of an engine."""
        return self._choice

    def start(self) -> None:
        """Starts a worker and keeps one running. Without an engine the guest still sees the device and its health."""
        if self._choice.problem:
            self._vm.state.enter(Runstate.NO_ENGINE)
        else:
            self._vm.state.enter(Runstate.STARTING)
            self._supervisor.start()

    # ---- for a daemon that takes over ---------------------------------------------

    def told(self) -> Told:
        """The present worker, for the next daemon; a migration's second one would not be of use to it."""
        process, link, vm = self._supervisor.process, self._link, self._vm
        if process is None or link is None or link.closed or vm.config.sandbox == "permissive":
            return None  # a permissive filter's listener cannot be taken over
        record = WorkerRecord(
            process.pid,
            self._supervisor.generation,
            self._takeover.count,
            ChoiceRecord.of(self._set_up),
            self._arena,
            self._given.quota,
            self._given.deadline_ns,
            self._supervisor.place,
            None if self.serving is None else self._ready,
            self._watch.counted_ns,
            vm.space.region_device_address,
        )
        areas = {} if vm.control is None else vm.control.descriptors(link)
        return record, {
            **worker_takeover.descriptors(process, link, self._files),
            **areas,
            **self._seats.lasting(link),
        }

    def resume(self, record: WorkerRecord, fds: dict[str, Fd]) -> None:
        """Takes over the worker of an earlier daemon, in place of `start`."""
        vm = self._vm
        assert vm.keep.keeper is not None
        vm.state.enter(Runstate.STARTING)
        self._arena = record.arena
        self._given = replace(vm.config, quota=record.given, deadline_ns=record.given_deadline_ns)
        self._set_up = record.set_up.choice(self._given)
        process, files = worker_takeover.process_of(record, fds, vm.keep.keeper)
        perf_maps = bool(self._set_up.config.engine.options.get("perf_maps"))
        link = self._link = self._supervisor.resume(
            process, record.generation, record.place, perf_maps=perf_maps, served=record.ready is not None
        )
        self._files = self._sources[link] = files
        if vm.control is not None:
            vm.control.resume(link, fds)
        gpu = self._set_up.gpu
        grant = None if gpu is None else self._seats.resume(link, gpu.uuid, fds)
        # before the first message: a daemon that takes over from this one must not use its numbers again
        vm.keep.set("worker", structs.replace(record, takeovers=record.takeovers + 1))
        self._takeover.begin(link, record.takeovers, self._patience_s(record), grant)
        if record.ready is not None:  # to the guest, nothing has changed
            self._counted_ns = record.counted_ns
            vm.space.region_device_address = record.region_address
            self._go_on(link, record.ready)

    def _patience_s(self, record: WorkerRecord) -> float:
        """Longest time that a worker which is taken over may not answer: as long as one that serves may be busy."""
        pace, is_on_gpu = self._tools.pace, self._set_up.gpu is not None
        if record.ready is None or pace is None:
            return SETUP_TIMEOUT_S
        return pace.lost_s(record.given_deadline_ns, GPU_TIMEOUT_S if is_on_gpu else 0.0)

    def _go_on(self, link: WorkerLink, ready: Ready) -> None:
        worker = self._serve_by(link, ready, self._set_up)
        self._vm.space.generation = self._supervisor.generation
        self._enter(Runstate.READY, worker)

    def _on_resumed(self, link: WorkerLink, resumed: Resumed) -> None:
        if self._vm.state.is_ending or not self._takeover.end_silence(link):
            return
        if self.serving is None:
            self._on_ready(link, resumed.ready)  # the daemon before may not have told it of the rings
        else:
            self._history.registrations.keep_only(resumed.programs)
        self._vm.keep.save()

    # ------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ends a migration and all workers. Only when the frontend is gone."""
        self.abort_migration("the frontend disconnected meanwhile")
        self._await_worker()
        await self._supervisor.stop()
        self._seats.leave_all()

    def close(self) -> None:
        """Kills and reaps all workers without the loop: for the end of the program."""
        self._supervisor.close()
        self._seats.leave_all()

    async def functions(self) -> Sequence[FunctionFigures] | None:
        """Work by function of the worker that serves; None: it does not say in time."""
        worker = self.serving
        return () if worker is None else await self._look.look(worker.link)

    async def replace(self, reason: str) -> None:
        """Replaces the worker; requests in flight are answered with DEVICE_LOST."""
        await self._supervisor.replace(reason)

    async def start_over(self, reason: str) -> None:
        """Replaces the worker by one for a fresh device, on which nothing is in flight."""
        self._enter(Runstate.STARTING, self._await_worker())
        self._vm.rings.forget()
        await self._supervisor.replace(reason)

    def guest_restarts(self) -> None:
        """Forgets what the guest has registered, but for what is kept."""
        self._history.registrations.guest_restarts()

    def change_limits(self, wanted: VmConfig) -> bool:
        """Gives the guest the limits of `wanted`, but for those that its worker cannot have; True if any has changed.

        Without a worker that is ready, nobody knows what that will be able to have: all of them count.
        """
        self.abort_migration("the VM's limits changed meanwhile")
        vm = self._vm
        config = wanted if self._limits is None else self._limits.live(wanted)
        if limits_of(config) == limits_of(vm.config):
            return False
        self._choice = self._history.choice = limited(self._choice, vm.config, config)
        self._watch.expect_deadline(config.deadline_ns)
        vm.allotment.change(config)
        return True

    def _announced(self) -> None:
        """Tells the guest that it can read other limits."""
        space = self._vm.space
        if self._limits is not None:
            space.offered_pes = self._limits.elements(self._vm.config)
        else:
            space.asked_pes = self._choice.pes
        self._notice.send()

    def _launch(self, choice: Choice) -> Launch:
        """Way to start a worker of `choice`.

        :raise HostError: the host lacks what the engine needs.
        """
        return Launch(
            lambda quarters, fd: self._tools.command(replace(choice.config, quarters=quarters), fd),
            worker_limits(choice, host_view(choice.config), self._area_bytes),
            perf_maps=bool(choice.config.engine.options.get("perf_maps")),
        )

    @property
    def _area_bytes(self) -> int:
        return 0 if self._vm.control is None else self._vm.control.area_bytes

    def _enter(self, state: Runstate, now: _Now) -> None:
        self._vm.state.enter(state)
        self._now = now

    def _await_worker(self) -> _Waiting:
        """Leaves the serving worker, if any; returns the object of the states without a worker."""
        self._watch.end()
        self._limits = None
        self._vm.allotment.lose_worker()
        for worker in (self._coming, self.serving):
            if worker is not None:
                worker.close()
        self._coming = None
        if not isinstance(self._now, _Waiting):
            self._now = _Waiting()
        return self._now

    def _adopt(self, choice: Choice) -> None:
        if choice != self._history.choice:
            self._log_choice(choice)
        self._choice = self._history.choice = choice
        self._vm.space.engine_kind = EngineKind[choice.engine.upper()]
        self._vm.space.asked_pes = choice.pes

    def _log_choice(self, choice: Choice) -> None:
        log, options = self._vm.log, choice.config.engine.options
        device = {} if choice.gpu is None else {"device": choice.gpu.index, "uuid": options["device"]}
        if choice.problem:
            log.error("engine_unavailable", engine=choice.engine, problem=choice.problem)
        else:
            log.info("engine_chosen", engine=choice.engine, why=choice.why or "configured", **device)
        if choice.unseen:
            log.warning("programs_without_hooks", why=choice.unseen)

    # ---- migration to a second worker ------------------------------------------------------------

    async def migrate(self, target: Choice, hold_s: float = HOLD_S, progress: Progress = forget) -> MigrationReport:
        """Migrates the VM to a worker of `target`, which must be of the same engine, while the guest runs.

        :raise MigrationError: a migration is under way, `target` is not allowed, or the worker does not answer.
        """
        if isinstance(self._now, _Migrating):
            raise MigrationError(f"{self._vm.config.name} is being migrated already")
        if self._vm.state.now is Runstate.UNRESPONSIVE:
            raise MigrationError(f"the worker of {self._vm.config.name} does not answer; allowed: once it does")
        check_target(self._vm.config, self._choice, target)
        attempt = Migration(self, self._choice, target, hold_s, progress)
        if isinstance(self._now, ServingWorker):  # else the attempt fails at once
            self._enter(Runstate.MIGRATING, _Migrating(self._now, attempt))
        try:
            return await attempt.run()
        finally:
            if isinstance(self._now, _Migrating) and self._now.attempt is attempt:
                self._enter(Runstate.READY, self._now.worker)

    def abort_migration(self, reason: str) -> None:
        """Has the first worker go on at once, if a migration is under way and not committed."""
        if self.migration is not None:
            self.migration.abort(reason)

    async def make_way(self, reason: str) -> None:
        """Waits until a worker may get messages: not while a migration has the first worker paused."""
        if self.migration is not None:
            await self.migration.make_way(reason)

    @property
    def log(self) -> Logger:
        return self._vm.log

    def standing(self) -> Standing | None:
        worker, space = self.serving, self._vm.space
        if worker is None:
            return None
        return Standing(worker.link, self._vm.region.entry, space.region_device_address, space.device_features)

    def start_second(self, target: Choice) -> tuple[WorkerLink, Answer]:
        self._given_second = self._vm.config
        link = self._supervisor.start_second(self._launch(target))
        return link, self._send_setup(link, target)

    def drop_second(self) -> None:
        self._supervisor.drop_second()
        self._seats.leave_ended()
        if self._vm.control is not None:
            self._vm.control.drop_others()

    def adopt_second(self, target: Choice, link: WorkerLink, ready: Ready) -> None:
        """The guest gets no interrupt: nothing that it can read has changed."""
        assert isinstance(self._now, _Migrating)  # a migration that was aborted does not commit
        self._now.worker.close()
        self._supervisor.adopt_second()
        self._link, self._files, self._set_up = link, self._sources[link], target
        self._takeover, self._counted_ns = WorkerTakeover(), None
        self._seats.leave_ended()
        self._promise.close()
        self._promise.enter_context(self._tools.engines.promised(target))
        self._given = self._given_second
        self._adopt(limited(target, self._given, self._vm.config))
        self._now = _Migrating(self._serve_by(link, ready, target), self._now.attempt)
        self._vm.keep.save()

    def go_on(self, link: WorkerLink) -> Sequence[Answer]:
        """Starts nothing if the worker or the frontend has gone meanwhile: their ends have been handled."""
        worker = self.serving
        return [] if worker is None or worker.link is not link else worker.go_on()

    # ---- the supervisor's Owner ------------------------------------------------------------------

    def worker_started(self, link: WorkerLink) -> None:
        self._link, self._takeover, self._counted_ns = link, WorkerTakeover(), None
        self._vm.rings.inflight.stamp()
        self._arena = worker_messages.choose_arena(self._vm.config)
        self._given = self._vm.config
        self._set_up = self._choice
        if isinstance(self._now, _Waiting):
            self._now.complaint = ""
        self._send_setup(link, self._choice).add_done_callback(self._on_setup_answered)
        self._files = self._sources[link]
        self._vm.keep.save()

    def _send_setup(self, link: WorkerLink, choice: Choice) -> Answer:
        gate = () if choice.gpu is None else self._seats.take(link, choice.gpu.uuid)
        number = self._vm.allotment.number
        setup = worker_messages.setup(choice, self._supervisor.generation, self._arena, number, has_gate=bool(gate))
        files = self._sources[link] = sources.make()
        fds = (self._vm.rings.inflight.fd, *(file.fileno() for file in files))
        if self._vm.control is None:
            return link.post(lambda seq: structs.replace(setup, seq=seq), (*fds, *gate), SETUP_TIMEOUT_S)
        with self._vm.control.begin(link) as (section, more):
            return link.post(
                lambda seq: structs.replace(setup, seq=seq, control=section), (*fds, *more, *gate), SETUP_TIMEOUT_S
            )

    def _on_setup_answered(self, answer: Answer) -> None:
        ack = answer.result()
        if ack is not None:
            self._vm.log.error("worker_not_ready", error=ack.error)
            if isinstance(self._now, _Waiting):
                self._now.complaint = ack.error

    def worker_said(self, link: WorkerLink, message: WorkerMessage, fds: tuple[int, ...]) -> None:
        if self._is_for_another(link, message):
            codec.close_fds(fds)
            return
        match message:
            case Ready() | Resumed():
                self._on_begin(link, message)
            case Compile() | HostProgram() | Register() | Unregister():
                self._on_program(message)
            case VringBroken(index, reason):
                self._vm.log.warning("vring_broken", vring=index, reason=reason, guest=True)
            case Stats() | Functions():
                self._on_figures(message)
            case Log(level, event, extra):
                getattr(self._vm.log, level)("worker_log", said=event, guest=True, fields=dict(extra))
            case Marks():
                if self._vm.control is not None:
                    self._vm.control.marked(message)
            case Ack() | Measured() | Saved() | CallListener() | CodeNames():
                pass  # a link settles acks, a migration takes its own, the supervisor others

    def _is_for_another(self, link: WorkerLink, message: WorkerMessage) -> bool:
        """True if a migration takes a message, or it was for the daemon before."""
        if self.migration is not None and self.migration.takes(link, message):
            return True
        return self._takeover.is_for_another(link, message)

    def _on_begin(self, link: WorkerLink, message: Ready | Resumed) -> None:
        if isinstance(message, Ready):
            self._on_ready(link, message)
        else:
            self._on_resumed(link, message)

    def _on_program(self, message: Compile | HostProgram | Register | Unregister) -> None:
        worker = self.serving
        if worker is None:
            return  # nobody waits for it
        match message:
            case Compile() | HostProgram():
                worker.compile(message)
            case Register():
                worker.register(message)
            case Unregister(number):
                worker.unregister(number)

    def _on_figures(self, message: Stats | Functions) -> None:
        if isinstance(message, Functions):
            self._look.on_functions(message)
            return
        self._history.stats = message
        self._vm.keep.save()
        if self._limits is not None:
            self._limits.on_stats(message)

    def _on_ready(self, link: WorkerLink, ready: Ready) -> None:
        if self._vm.state.is_ending:  # it was ready before it was killed
            return
        asked = {} if ready.num_pes == self._choice.pes else {"asked": self._choice.pes}
        about = {"engine": ready.engine_name, "pes": ready.num_pes, **asked, "sandbox": ready.sandbox}
        self._vm.log.info("worker_ready", **about, guest=True)
        worker = self._coming = self._serve_by(link, ready, self._set_up)
        self._vm.space.generation = self._supervisor.generation
        worker.restore(lambda: self._open(worker))

    def _open(self, worker: ServingWorker) -> None:
        """Has the worker serve the guest's rings, now that it has the registered programs."""
        self._coming = None
        worker.replay()
        self._enter(Runstate.READY, worker)
        self._notice.send()
        self._vm.keep.save()

    def _serve_by(self, link: WorkerLink, ready: Ready, choice: Choice) -> ServingWorker:
        """Makes a worker that is ready, and was set up for `choice`, the one that the control system and the guest see."""
        vm = self._vm
        if vm.control is not None:
            num_pes = ready.control_pes or ready.num_pes
            vm.control.serves(link, num_pes, rows=max(num_pes, ready.control_rows))
        self._ready = ready
        vm.space.engine_name = ready.engine_name
        vm.space.pes = ready.num_pes
        vm.space.device_features = ready.features
        if self.pid is not None and self._supervisor.room is not None:
            self._watch.begin(link, self.pid, self._choice, self._supervisor.room, self._counted_ns)
        self._limits = LimitKeeper(
            vm,
            self._supervisor,
            link,
            choice=choice,
            given=self._given,
            arena=self._arena,
            num_pes=ready.num_pes,
        )
        vm.space.offered_pes = self._limits.elements(vm.allotment.told)
        vm.allotment.serve_by(self._limits.enforce, self._given)
        compilations = CompileRelay(
            self._choice,
            self._tools.compiler,
            link,
            vm.log,
            self._sources.pop(link),
            counts=self._history.compilations,
        )
        return ServingWorker(
            link,
            self._supervisor.generation,
            session=self._session,
            rings=vm.rings,
            region=vm.region,
            space=vm.space,
            notice=self._notice,
            compilations=compilations,
            registrations=self._history.registrations,
            on_change=self._watch.wake,
            log=vm.log,
        )

    def count_cpu_time(self) -> None:
        """Brings the VM's CPU time up to date."""
        self._watch.count_cpu_time()

    def count_gpu_time(self) -> None:
        """Brings the VM's GPU time up to date."""
        self._seats.look()

    def worker_spoke(self) -> None:
        self._watch.wake()

    def _drop_sources(self) -> None:
        """Closes source files of workers that ended before they were ready."""
        for link in [link for link in self._sources if link.closed]:
            for file in self._sources.pop(link):
                file.close()

    def worker_died(self, end: WorkerEnd) -> None:
        self._watch.end()
        self._history.worker_died()
        self._drop_sources()
        self._seats.leave_ended()
        self.abort_migration("the first worker died")
        self._report_lost(end)
        self._link, self._files = None, ()
        waiting = self._await_worker()
        waiting.stillborn += not end.has_served
        if self._vm.state.is_ending:
            return
        failed = end.has_failed
        fallback = self._choice.fallback
        if fallback is not None and waiting.stillborn >= STILLBORN_UNTIL_FALLBACK:
            why = f"no worker gets ready on the GPU: {waiting.complaint or 'they die'}"
            self._adopt(replace(fallback, why=why))
            failed = False
        if failed:
            self._vm.state.enter(Runstate.FAILED)
            self._notice.send()
        elif self._vm.state.now is not Runstate.STARTING:
            self._vm.state.enter(Runstate.RECOVERING)
            self._notice.send()
        self._vm.keep.save()

    def _report_lost(self, end: WorkerEnd) -> None:
        """Logs the last words of a worker that is gone, and passes them on to the control system."""
        inflight, control = self._vm.rings.inflight, self._vm.control
        box = inflight.black_box()
        if words := inflight.last_words():
            self._vm.log.warning("worker_last_words", said=words, guest=True)
        if control is not None:
            fault = None if box is None else FAULT_KINDS.get(box.status)
            if end.fault and fault is None:
                control.lost(f"the worker {end.fault}", "worker", died=not end.by_us)
            else:
                said = words or (self._now.complaint if isinstance(self._now, _Waiting) else "")
                reason = said if fault else f"the worker {end.how}" + (f": {said}" if said else "")
                control.lost(reason, fault, died=not end.by_us)
            control.drop_others()

    def second_died(self, how: str) -> None:
        self._drop_sources()
        self._seats.leave_ended()
        self.abort_migration(f"the second worker {how}")
