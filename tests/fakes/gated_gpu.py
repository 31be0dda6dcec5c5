"""GPU whose VMs take turns, in simulated time: `Turns` with workers that launch kernels, and a driver with time slices.

A worker decides as `engines/cuda/gate.c` does. The driver gives processes that have launches slices of equal length, one
after the other; one without launches gets none, so a VM that waits for each of its launches gets far less than its share
beside one that queues them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vhost_backend.daemon.gpu_gate import GpuTime, Member, Turns
from vhost_backend.worker_protocol.gate_pages import OPEN, Account

US: Final = 1000
MS: Final = 1000 * US
STEP_NS: Final = 20 * US
"""Resolution of the simulation."""
SLICE_NS: Final = 2 * MS
DAEMON_NS: Final = 100 * US
"""Time from a ring to the daemon's look."""
AHEAD, SHORT_AHEAD, SHORT_NS = 2, 8, 200 * US


@dataclass(eq=False, slots=True)
class SimulatedVm:
    """VM that launches kernels of one length, `depth` at a time, with a pause of the host after each."""

    name: str
    kernel_ns: int
    weight: int = 100
    depth: int = 64
    pause_ns: int = 0
    has_work: Callable[[int], bool] = lambda _now_ns: True
    forge: Callable[[int, Account], Account] = lambda _now_ns, account: account
    """Makes the account that its worker tells from the true one."""
    obeys: bool = True
    got_ns: int = 0
    """Time for which the GPU really computed for it."""
    held_ns: int = 0
    longest_held_ns: int = 0
    launches: int = 0
    """Launches that have ended."""
    queue: deque[int] = field(default_factory=deque)
    """Time that each submitted launch still takes."""
    resumes_ns: int = 0
    total: GpuTime = field(default_factory=GpuTime)
    member: Member | None = None
    until_ns: int = OPEN
    armed: int = 0
    rung: int = 0
    ran_ns: int = 0
    since_ns: int = 0
    is_held: bool = False
    rings: int = 0
    _told: Account = field(default_factory=lambda: Account(0, 0, False))
    _waited_ns: int = 0

    # ---- pages -----------------------------------------------------------------------------------

    def account(self) -> Account:
        return self._told

    def grant(self, until_ns: int, armed: int, beat: int) -> None:
        assert 0 <= until_ns <= OPEN
        assert beat >= 0
        self.until_ns, self.armed = until_ns, armed

    # ---- the worker ------------------------------------------------------------------------------

    def step(self, now_ns: int) -> bool:
        """Submits what may be submitted; returns true if the bell rings."""
        rings = self._settle(now_ns)
        was_held, self.is_held = self.is_held, False
        while self.has_work(now_ns) and now_ns >= self.resumes_ns and len(self.queue) < self.depth:
            if not self._admits(now_ns):
                break
            self.queue.append(self.kernel_ns)
            if self.since_ns == 0:
                self.since_ns = now_ns
                if self.armed not in (0, self.rung):
                    self.rung = self.armed
                    rings = True
        self._note_held()
        self._told = self.forge(now_ns, Account(self.ran_ns, self.since_ns, self.is_held))
        self.rings += rings or (self.is_held and not was_held)
        return rings or (self.is_held and not was_held)

    def _admits(self, now_ns: int) -> bool:
        if self.until_ns == OPEN or not self.obeys:
            return True
        is_short = self.kernel_ns < SHORT_NS
        ran_ns = self.ran_ns + (now_ns - self.since_ns if self.since_ns else 0)
        if len(self.queue) >= (SHORT_AHEAD if is_short else AHEAD):
            return False
        if self.queue and not is_short and ran_ns + self.kernel_ns >= self.until_ns:
            return False
        self.is_held = ran_ns >= self.until_ns
        return not self.is_held

    def _settle(self, now_ns: int) -> bool:
        if self.since_ns == 0 or self.queue:
            return False
        self.ran_ns += now_ns - self.since_ns
        self.since_ns = 0
        return self.ran_ns >= self.until_ns

    def _note_held(self) -> None:
        self.held_ns += STEP_NS if self.is_held else 0
        self._waited_ns = self._waited_ns + STEP_NS if self.is_held and not self.queue else 0
        self.longest_held_ns = max(self.longest_held_ns, self._waited_ns)

    def compute(self, now_ns: int, time_ns: int) -> None:
        """The GPU computes for it."""
        self.got_ns += time_ns
        self.queue[0] -= time_ns
        if self.queue[0] <= 0:
            self.queue.popleft()
            self.launches += 1
            self.resumes_ns = now_ns + self.pause_ns


class GatedGpu:
    """The GPU, its VMs and the daemon."""

    def __init__(self, *vms: SimulatedVm, turns: Turns | None = None, is_gated: bool = True) -> None:
        self.now_ns = MS
        self.turns = turns or Turns()
        self.vms: list[SimulatedVm] = []
        self.idle_ns = 0
        """Time for which the GPU had nothing to do although a launch was held."""
        self.looks = 0
        self._is_gated = is_gated
        self._look_ns: int | None = None
        self._on_gpu: SimulatedVm | None = None
        self._slice_ns = 0
        for vm in vms:
            self.join(vm)

    def join(self, vm: SimulatedVm) -> None:
        if self._is_gated:
            vm.member = self.turns.join(vm.name, lambda: vm.weight, vm.total, vm)
            self._look()
        self.vms.append(vm)

    def kill(self, vm: SimulatedVm) -> None:
        """The VM's worker dies; the daemon notices."""
        assert vm.member is not None
        self.turns.leave(vm.member)
        self.vms.remove(vm)
        self._look()

    def run(self, time_ns: int) -> None:
        """Lets time pass."""
        for _ in range(time_ns // STEP_NS):
            self._step()

    def _step(self) -> None:
        self.now_ns += STEP_NS
        self._compute()
        rang = [vm.step(self.now_ns) for vm in self.vms]
        if any(rang):
            self._look_at(self.now_ns + DAEMON_NS)
        if self._is_gated and self._look_ns is not None and self.now_ns >= self._look_ns:
            self._look()

    def _look(self) -> None:
        self.looks += 1
        wait_ns = self.turns.look(self.now_ns)
        self._look_ns = None if wait_ns is None else self.now_ns + wait_ns

    def _look_at(self, at_ns: int) -> None:
        self._look_ns = at_ns if self._look_ns is None else min(self._look_ns, at_ns)

    def _compute(self) -> None:
        """Gives the GPU's time to the process in its slice, or to the next that has launches."""
        able = [vm for vm in self.vms if vm.queue]
        if not able:
            self.idle_ns += STEP_NS if any(vm.is_held for vm in self.vms) else 0
            self._on_gpu = None
            return
        self._slice_ns += STEP_NS
        if self._on_gpu not in able or self._slice_ns >= SLICE_NS:
            self._on_gpu = self._following(able)
            self._slice_ns = 0
        assert self._on_gpu is not None
        self._on_gpu.compute(self.now_ns, STEP_NS)

    def _following(self, able: Sequence[SimulatedVm]) -> SimulatedVm:
        order = self.vms if self._on_gpu not in self.vms else _after(self.vms, self._on_gpu)
        return next(vm for vm in order if vm in able)


def _after(vms: Sequence[SimulatedVm], vm: SimulatedVm | None) -> list[SimulatedVm]:
    at = 0 if vm is None else vms.index(vm)
    return [*vms[at + 1 :], *vms[: at + 1]]


def jain(vms: Sequence[SimulatedVm]) -> float:
    """Jain's index of the VMs' GPU time by weight: 1 if all have what their weights say, 1/n if one has it all."""
    shares = [vm.got_ns / vm.weight for vm in vms]
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
