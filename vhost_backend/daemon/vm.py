"""VM of the daemon: state that outlasts its frontends, and admission of one frontend at a time.

While a frontend is connected, `frontend_side` serves it, and `worker_slot` keeps its worker running.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import VmConfig
from vhost_backend.control.links.vm_port import VmControl
from vhost_backend.daemon import worker_takeover
from vhost_backend.daemon.allotment import Allotment, limits_of, with_limits
from vhost_backend.daemon.compile_relay import CompileCounts
from vhost_backend.daemon.config_space import ConfigSpace
from vhost_backend.daemon.cpu_account import CpuTime
from vhost_backend.daemon.engines import Choice, Engines
from vhost_backend.daemon.fair_shares import FairShares
from vhost_backend.daemon.frontend_side import FrontendSide
from vhost_backend.daemon.gpu_gate import GpuTime
from vhost_backend.daemon.guest_region import GuestRegion
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.keeping import SETTINGS, VmKeep
from vhost_backend.daemon.migration import HOLD_S, Migration, MigrationError, MigrationReport, Progress, forget
from vhost_backend.daemon.process import WorkerCommand, sandboxed_worker, worker_of
from vhost_backend.daemon.records import (
    ChoiceRecord,
    GuestRecord,
    ProgramNumbers,
    SettingsRecord,
    TakeoverRecord,
    VmRecord,
    WorkerRecord,
)
from vhost_backend.daemon.registrations import Registrations
from vhost_backend.daemon.rings import Rings
from vhost_backend.daemon.runstate import Lifecycle, Runstate
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.vm_parts import History, Tools, VmParts
from vhost_backend.daemon.worker_clock import CpuAlarms
from vhost_backend.daemon.worker_slot import WorkerSlot
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.keeper.record import unpack
from vhost_backend.log import get_logger
from vhost_backend.vhost_user.connection import Connection
from vhost_backend.vhost_user.records import SessionRecord
from vhost_backend.worker_protocol.budgets import TimeBudget
from vhost_backend.worker_protocol.protocol import FunctionFigures, Stats
from virtio_proto.control.api import AllotmentState

_STATE: Final = "state"
"""Key of the state that outlasts frontends."""
HANDOVER_S: Final = 3.0
"""Longest time that a new connection waits for the end of the old one."""
MAX_TRIES: Final = 3
"""Daemons that may die while they take a VM's frontend over; the next one gives it up."""


class Vm:
    """Serves one VM: one frontend at a time, each with a worker of its own."""

    def __init__(
        self,
        config: VmConfig,
        compiler: Compiler,
        engines: Engines,
        command: WorkerCommand = sandboxed_worker,
        policy: RestartPolicy | None = None,
        *,
        pace: Pace | None = None,
        alarms: CpuAlarms,
        shares: FairShares,
        control: VmControl | None = None,
        programs: Path | None = None,
        keep: VmKeep | None = None,
    ) -> None:
        """Takes what outlives the VM's workers.

        :param pace: of the workers' heartbeat; None: they have none.
        :param alarms: of the daemon, and so `shares`.
        :param control: the control system's side of the VM; None: the daemon has no control system.
        :param programs: folder of programs that the guest has kept; None: none are kept.
        :param keep: the VM's place at the keeper; None: the daemon has no keeper.
        """
        self.keep = keep or VmKeep(config.name)
        self._control = control
        self._log = get_logger(vm=config.name)
        self.allotment = Allotment(config, self._log)
        self.state = Lifecycle(config.name, self._log)
        self._space = ConfigSpace(self.allotment, self.state)
        self._rings = Rings(self._log)
        left = self.keep.lasting.take().get(_STATE)
        self._rings.quiesced = left is not None and unpack(left.blob, VmRecord).quiesced
        self._region = GuestRegion(config)
        self._tools = Tools(compiler, engines, command, policy, pace, alarms, shares)
        self._history = History(
            Registrations(self._log, programs), known_calls=set() if config.sandbox == "permissive" else None
        )
        self._history.registrations.on_change = self.keep.save
        self._lock = asyncio.Lock()
        self._has_waiter = False
        """True while a connection waits for the end of the served one."""
        self.admits = True
        """False: the VM serves no further frontend."""
        self._frontend: FrontendSide | None = None
        """Not None from STARTING or NO_ENGINE to the end of DISCONNECTING."""

    @property
    def config(self) -> VmConfig:
        """Present settings."""
        return self.allotment.config

    @property
    def choice(self) -> Choice | None:
        """Engine of the present guest, or of the last; None: the VM never had a guest."""
        return self._history.choice

    @property
    def stats(self) -> Stats | None:
        """Latest figures that a worker sent."""
        return self._history.stats

    @property
    def link_time(self) -> TimeBudget:
        """Budget for reading what the VM's workers send over their links."""
        return self._history.link_time

    @property
    def cpu_time(self) -> CpuTime:
        """CPU time of all workers so far."""
        if self._frontend is not None:
            self._frontend.slot.count_cpu_time()
        return self._history.cpu_time

    @property
    def gpu_time(self) -> GpuTime:
        """GPU time of all workers so far; 0 on engines without a GPU."""
        if self._frontend is not None:
            self._frontend.slot.count_gpu_time()
        return self._history.gpu_time

    @property
    def quiesced(self) -> bool:
        """True if the VM takes no new requests."""
        return self._rings.quiesced

    @property
    def is_connected(self) -> bool:
        return self._frontend is not None and not self.state.is_ending

    @property
    def num_pes(self) -> int:
        """Number of processing elements of the VM's worker; 0 while no worker is ready."""
        return 0 if self._frontend is None or self._frontend.slot.serving is None else self._space.pes

    @property
    def compiling(self) -> int:
        """Number of programs that compile, or wait for a compiler."""
        serving = None if self._frontend is None else self._frontend.slot.serving
        return 0 if serving is None else serving.compiling

    @property
    def compilations(self) -> CompileCounts:
        """Programs that all workers asked for so far."""
        return self._history.compilations

    @property
    def generation(self) -> int:
        return self._space.generation

    @property
    def worker_pid(self) -> int | None:
        return None if self._frontend is None else self._frontend.slot.pid

    @property
    def migration(self) -> Migration | None:
        return None if self._frontend is None else self._frontend.slot.migration

    # ---- connections -----------------------------------------------------------------------------

    async def serve(self, sock: socket.socket) -> bool:
        """Serves one connection to its end; a second one at the same time is refused.

        The refusal waits a little: when QEMU is restarted, the end of the old connection may be noticed after the new
        one. Only one connection waits: a frontend that connects without end must not use up the daemon's descriptors.

        :return: False if the VM is to leave, and `sock`, which stays open, was not served.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            if not await self._enter():
                self._log.warning("connection_refused", reason="another frontend is connected", guest=True)
                return True
            try:
                if self.admits:
                    await self._serve(sock)
                    return True
                self._log.info("connection_not_served", reason="the VM is to leave", guest=True)
                stack.pop_all()
                return False
            finally:
                self._lock.release()

    async def _enter(self) -> bool:
        """Takes the lock; False if it is not free soon, or another connection waits for it already."""
        if self._has_waiter:
            return False
        self._has_waiter = True
        try:
            async with asyncio.timeout(HANDOVER_S):
                await self._lock.acquire()
        except TimeoutError:
            return False
        finally:
            self._has_waiter = False
        return True

    async def _serve(self, sock: socket.socket) -> None:
        self._log.info("frontend_connected", guest=True)
        connection = self.keep.connection(sock)
        choice = await self._tools.engines.choose(self.config)
        await self._attend(connection, choice, lambda frontend: frontend.slot.start())

    async def _attend(self, connection: Connection, choice: Choice, begin: Callable[[FrontendSide], None]) -> None:
        """Serves a frontend to its end; `begin` gives it a worker."""
        with contextlib.ExitStack() as promise:
            promise.enter_context(self._tools.engines.promised(choice))
            parts = VmParts(
                self.allotment,
                self._log,
                self.state,
                self._space,
                self._rings,
                self._region,
                self._control,
                self.keep,
            )
            make_slot = partial(WorkerSlot, parts, self._tools, history=self._history, choice=choice, promise=promise)
            frontend = self._frontend = FrontendSide(connection, parts, make_slot)
            try:
                try:
                    begin(frontend)
                except Exception:  # noqa: BLE001  whatever it is, other VMs go on
                    self._log.exception("frontend_not_served", means="its guest has no device; other VMs go on")
                    return
                self.keep.add(SETTINGS, lambda: (SettingsRecord.of(self.config), {}))
                self.keep.add("session", frontend.told)
                self.keep.add("worker", frontend.slot.told)
                self.keep.add("guest", self._told)
                self.keep.add("programs", self._history.registrations.told)
                self.keep.go_on()
                if self._control is not None:
                    self._control.connected(True)
                await frontend.run()
            finally:
                await self._end(frontend)

    # ---- a frontend that another daemon has served -------------------------------------------------

    async def serve_on(self) -> bool:
        """Serves the frontend that an earlier daemon has served, from its next message on; True.

        The worker of its guest has gone on meanwhile; one that has ended is replaced. A frontend that has cost several daemons
        their lives is given up: it must not end all that follow, with which the other VMs would end.
        """
        guest, session = self.keep.take("guest"), self.keep.take("session")
        worker, programs = self.keep.take("worker"), self.keep.take("programs")
        tried = self.keep.take("takeover")
        tries = 0 if tried is None else unpack(tried[0], TakeoverRecord).tries
        async with self._lock:
            connection = self.keep.connection_again()
            if tries >= MAX_TRIES:
                self._log.error(
                    "frontend_given_up", died=tries, means="its guest has no device any more; other VMs go on"
                )
                connection.close()
                self.keep.forget_frontend()
                if worker is not None:
                    worker_takeover.end(worker[1])
                return True
            self._log.info("frontend_taken_over", guest=True)
            self.keep.hold()
            if guest is None or session is None:  # the earlier daemon had only just accepted it
                choice = await self._tools.engines.choose(self.config)
                await self._attend(connection, choice, lambda frontend: frontend.slot.start())
                return True
            self.keep.set("takeover", TakeoverRecord(tries + 1))  # removed once all parts are there again
            choice, begin = self._left_by_another(guest, session, worker, programs)
            await self._attend(connection, choice, begin)
            if worker is not None:
                worker_takeover.end(worker[1])  # if it was not taken over
        return True

    def _left_by_another(
        self,
        guest: tuple[bytes, dict[str, Fd]],
        session: tuple[bytes, dict[str, Fd]],
        worker: tuple[bytes, dict[str, Fd]] | None,
        programs: tuple[bytes, dict[str, Fd]] | None,
    ) -> tuple[Choice, Callable[[FrontendSide], None]]:
        """Choice of an engine and way to begin of a frontend that another daemon has served, by records and descriptors of that."""
        record = unpack(guest[0], GuestRecord)
        if programs is not None:
            numbers = unpack(programs[0], ProgramNumbers)
            self._history.registrations.restore(numbers, programs[1])
        self._restore(record, guest[1])

        def begin(frontend: FrontendSide) -> None:
            self.allotment.restore(record.allotment, record.first_allotment, record.acknowledged)
            state = unpack(session[0], SessionRecord)
            frontend.restore(state, session[1], has_notice=record.has_notice)
            if worker is None:
                frontend.slot.start()
            else:
                frontend.slot.resume(unpack(worker[0], WorkerRecord), worker[1])

        return record.choice.choice(self.config), begin

    def _told(self) -> tuple[GuestRecord, dict[str, HasFileno]]:
        """State that the guest relies on, for the next daemon."""
        assert self._frontend is not None
        history, cpu, gpu = self._history, self._history.cpu_time, self._history.gpu_time
        done = history.compilations
        number, first, acknowledged = self.allotment.numbers
        record = GuestRecord(
            ChoiceRecord.of(self._frontend.slot.choice),
            history.generations.next,
            self._rings.starters,
            number,
            first,
            acknowledged,
            (cpu.used_ns, cpu.stray_ns),
            (gpu.used_ns, gpu.held_ns, gpu.shared_ns, gpu.shared_of_ns),
            (done.compiled, done.cached, done.failed, done.taken_ns),
            history.stats,
            self._frontend.has_notice,
        )
        return record, {"inflight": self._rings.inflight}

    def _restore(self, record: GuestRecord, fds: dict[str, Fd]) -> None:
        history = self._history
        history.choice = record.choice.choice(self.config)
        history.generations.next = record.next_generation
        history.stats = record.stats
        cpu, gpu, done = history.cpu_time, history.gpu_time, history.compilations
        cpu.used_ns, cpu.stray_ns = record.cpu_ns
        gpu.used_ns, gpu.held_ns, gpu.shared_ns, gpu.shared_of_ns = record.gpu_ns
        done.compiled, done.cached, done.failed, done.taken_ns = record.compilations
        self._rings.restore(fds.pop("inflight").release(), record.starters)

    # ------------------------------------------------------------------------------------------------

    async def _end(self, frontend: FrontendSide) -> None:
        """Ends the workers and drops all state of a frontend and its guest."""
        self.state.enter(Runstate.DISCONNECTING)
        self.keep.forget_frontend()
        frontend.close()
        await frontend.slot.stop()
        self._frontend = None
        self._rings.forget()
        self._history.registrations.guest_restarts()
        self.allotment.end()
        self.state.enter(Runstate.NO_FRONTEND)
        if self._control is not None:
            self._control.connected(False)
        self._log.info("frontend_disconnected", guest=True)

    def close(self) -> None:
        """Kills and reaps the workers: for the end of the program."""
        self.state.enter(Runstate.CLOSED)
        if self._frontend is not None:
            self._frontend.slot.close()
        self._rings.inflight.close()

    # ---- limits ----------------------------------------------------------------------------------

    @property
    def ring_problem(self) -> str:
        """Reason why rings of the guest are not served; "" if they are."""
        return self._region.problem if self.is_connected else ""

    @property
    def allotment_state(self) -> AllotmentState:
        """How the guest stands to the limits that it was told."""
        return self.allotment.state(uses_rings=self.is_connected and self._rings.any_started)

    def change_limits(self, wanted: VmConfig) -> bool:
        """Gives the VM the limits of `wanted` while its guest runs, as far as that is possible; True if any has changed.

        Other settings stay as they are.
        """
        is_weighed = self._weigh(wanted.quota.weight)
        asked = with_limits(self.config, wanted)
        if limits_of(asked) == limits_of(self.config):
            return is_weighed
        if self._frontend is not None and self.is_connected:
            return self._frontend.slot.change_limits(asked) or is_weighed
        self.allotment.change(asked)
        return True

    def _weigh(self, weight: int) -> bool:
        """Gives the VM another weight; False: it has this one, or the host does not allow it."""
        config, pid = self.config, self.worker_pid
        if weight == config.quota.weight:
            return False
        try:
            config.quarters.weigh(weight, None if pid is None else worker_of(pid))
        except OSError as error:
            self._log.warning("weight_not_changed", weight=weight, why=str(error))
            return False
        self.allotment.config = replace(config, quota=replace(config.quota, weight=weight))
        self._log.info("weight_changed", weight=weight, before=config.quota.weight)
        return True

    # ---- requests of the control system ----------------------------------------------------------

    async def quiesce(self, *, on: bool) -> None:
        """Stops taking new requests, in this and later workers, or takes them again. Requests in flight finish."""
        self._rings.quiesced = on
        self.keep.lasting.set({_STATE: VmRecord(quiesced=True) if on else None})
        if self._frontend is not None and self.is_connected:
            await self._frontend.pass_on_quiesced()

    async def functions(self) -> Sequence[FunctionFigures] | None:
        """Work by function; None: the worker does not say in time."""
        return () if self._frontend is None else await self._frontend.slot.functions()

    @property
    def registrations(self) -> Registrations:
        """Programs that guests have registered."""
        return self._history.registrations

    def go_on_from(self, before: Vm) -> None:
        """Takes the place of a VM of other settings, which has no frontend any more."""
        self._rings.quiesced = before.quiesced
        if before.quiesced:
            self.keep.lasting.set({_STATE: VmRecord(quiesced=True)})

    def forget_all(self) -> None:
        """Forgets what guests have registered, also what they have kept, and all other state: the VM is removed."""
        self._history.registrations.forget()
        self.keep.lasting.set({_STATE: None})

    async def replace_worker(self, reason: str) -> None:
        """Replaces the worker; requests in flight are answered with DEVICE_LOST."""
        if self._frontend is not None:
            await self._frontend.slot.replace(reason)

    async def migrate(self, target: Choice, hold_s: float = HOLD_S, progress: Progress = forget) -> MigrationReport:
        """Migrates the VM to a worker of `target`, which must be of the same engine, while the guest runs.

        :raise MigrationError: a migration is under way, `target` is not allowed, or the VM has no guest.
        """
        if self._frontend is None:
            raise MigrationError(f"{self.config.name} has no guest; allowed: a VM that runs")
        return await self._frontend.slot.migrate(target, hold_s, progress)
