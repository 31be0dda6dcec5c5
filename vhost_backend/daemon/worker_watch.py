"""Watch over the worker that serves a VM: a heartbeat, and an account of its CPU time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cores.pool import Place
from vhost_backend.daemon.bounds import bound_elements
from vhost_backend.daemon.config_space import ChangeNotice
from vhost_backend.daemon.cpu_account import CpuAccount, CpuTime
from vhost_backend.daemon.engines import Choice
from vhost_backend.daemon.fair_shares import Competitor
from vhost_backend.daemon.heartbeat import Heartbeat, Pace
from vhost_backend.daemon.process import worker_of
from vhost_backend.daemon.runstate import Runstate
from vhost_backend.daemon.vm_parts import Tools, VmParts
from vhost_backend.daemon.worker_clock import WorkerClock
from vhost_backend.daemon.worker_place import WorkerPlace
from vhost_backend.quarters import Quarters
from vhost_backend.vhost_user.session import Session
from vhost_backend.worker_protocol.link import GPU_TIMEOUT_S, WorkerLink


class WorkerWatch:
    """Watches one worker after the other. A worker that does not answer is shown to the guest as unresponsive."""

    def __init__(
        self,
        vm: VmParts,
        tools: Tools,
        cpu_time: CpuTime,
        session: Session,
        notice: ChangeNotice,
        *,
        is_migrating: Callable[[], bool],
    ) -> None:
        """`cpu_time`: that of the VM. `is_migrating`: true while the worker may be busy for long with a migration."""
        self._vm = vm
        self._pace = tools.pace
        self._alarms = tools.alarms
        self._shares = tools.shares
        self._cpu_time = cpu_time
        self._session = session
        self._notice = notice
        self._is_migrating = is_migrating
        self._pid = 0
        self._heartbeat: Heartbeat | None = None
        self._account: CpuAccount | None = None
        self._place: WorkerPlace | None = None
        self._competitor: Competitor | None = None
        """The worker, if its elements compete with those of other VMs."""
        self._competing = contextlib.ExitStack()

    def begin(self, link: WorkerLink, pid: int, choice: Choice, room: Quarters, counted_ns: int | None) -> None:
        """Bounds, weighs and places a worker of `choice` that begins to serve, which was started as `pid` in `room`, and
        starts its heartbeat.

        `counted_ns`: CPU time that an earlier daemon has counted of it, by which its elements are bounded; None: it is new.
        """
        self.end()
        self._pid = pid
        self._weigh(pid, room)
        is_on_gpu = choice.gpu is not None
        if choice.engine == "cpu" and room.cgroup is not None and counted_ns is None:
            self._bound_elements(pid, room.cgroup)
        if room.place is not None:
            has_elements = choice.engine == "cpu"
            self._place = WorkerPlace(link, worker_of(pid), room.place, self._vm.log, has_elements=has_elements)
            if self._place.elements and room.place.own is None:
                self._compete(pid, self._place.elements, room.place)
        if self._pace is not None:
            self._heartbeat = self._start(link, pid, self._pace, counted_ns or 0, is_on_gpu=is_on_gpu)

    @property
    def counted_ns(self) -> int:
        """CPU time of the worker that has been counted; 0 without a heartbeat."""
        return 0 if self._account is None else self._account.counted_ns

    def count_cpu_time(self) -> None:
        """Brings the VM's CPU time up to date."""
        if self._heartbeat is not None:
            self._heartbeat.count_cpu_time()

    def wake(self) -> None:
        """Has the worker looked at: it has something to do, or has done something."""
        if self._heartbeat is not None:
            self._heartbeat.wake()

    def expect_deadline(self, deadline_ns: int) -> None:
        """Has patience with kernels that may run up to this deadline."""
        if self._heartbeat is not None and self._pace is not None:
            self._heartbeat.have_patience(self._pace.lost_s(deadline_ns), self._pace.unfinished_s(deadline_ns))

    def end(self) -> None:
        """Ends the watch; a second call does nothing."""
        place, self._place = self._place, None
        if place is not None:
            place.close()
        self._competitor = None
        self._competing.close()
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()
        self._account = None

    def _weigh(self, pid: int, room: Quarters) -> None:
        try:
            room.catch_up(worker_of(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass  # the worker has just ended
        except OSError as error:
            self._vm.log.warning("weight_not_changed", weight=room.weight.value, why=str(error))

    def _compete(self, pid: int, elements: frozenset[int], place: Place) -> None:
        quarters = self._vm.config.quarters
        cpu_ns = WorkerClock(pid, self._alarms).cpu_ns
        competitor = Competitor(
            worker_of(pid), elements, cpu_ns, quarters.weight, quarters.correct, place, lambda: self._vm.space.pes
        )
        self._competing.enter_context(self._shares.joined(competitor))
        self._competitor = competitor

    def _bound_elements(self, pid: int, group: Cgroup) -> None:
        try:
            bound_elements(worker_of(pid), group, self._vm.space.pes)
        except (FileNotFoundError, ProcessLookupError):
            pass  # the worker has just ended
        except OSError as error:
            self._vm.log.warning("elements_not_bounded", pid=pid, why=str(error))

    def _start(self, link: WorkerLink, pid: int, pace: Pace, counted_ns: int, *, is_on_gpu: bool) -> Heartbeat:
        deadline_ns = self._vm.config.deadline_ns
        lost_s = pace.lost_s(deadline_ns, GPU_TIMEOUT_S if is_on_gpu else 0.0)
        clock = WorkerClock(pid, self._alarms)
        account = self._account = CpuAccount(
            clock,
            self._cpu_time,
            self._vm.rings.requests,
            num_pes=None if is_on_gpu else self._vm.space.pes,
            patience_s=pace.unfinished_s(deadline_ns),
            now_s=asyncio.get_running_loop().time,
            counted_ns=counted_ns,
        )
        return Heartbeat(
            link,
            clock,
            account,
            pace,
            lost_s,
            may_ask=lambda: not self._is_migrating(),
            kicks=self._kicks,
            on_look=self._on_look,
            on_late=self._on_late,
            on_answer=self._on_answer,
        )

    def _on_look(self) -> None:
        if self._place is not None:
            self._place.look()
        if self._competitor is not None:
            self._shares.wake(self._competitor)

    def _on_late(self) -> None:
        self._vm.log.warning("worker_unresponsive", pid=self._pid, guest=True)
        if self._vm.state.now is Runstate.READY:
            self._vm.state.enter(Runstate.UNRESPONSIVE)
            self._notice.send()

    def _on_answer(self) -> None:
        self._vm.log.info("worker_answers_again", pid=self._pid, guest=True)
        if self._vm.state.now is Runstate.UNRESPONSIVE:
            self._vm.state.enter(Runstate.READY)
            self._notice.send()

    def _kicks(self) -> list[int]:
        return [vring.kick.fileno() for vring in self._session.vrings if vring.kick is not None]
