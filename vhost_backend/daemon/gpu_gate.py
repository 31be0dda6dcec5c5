"""Turns at launching for VMs that share a GPU, by their weights.

A GPU runs one process at a time, and each VM is a process, on whatever SMs. While several VMs of a GPU have work, the
daemon therefore lets one of them at a time begin launches, for `TURN_NS` of GPU time, after the launches of the others
have ended. The next turn is for the VM with the least virtual time [start-time fair queueing, Goyal et al. 1996]: GPU
time that it was charged, divided by its weight. A VM that had no work begins at the virtual time of those that had, so
it is served at once, but gets nothing for the time before.

What a VM is charged is the time for which its launches ran, as its worker tells (`worker_protocol.gate_pages`). A worker
that lies is bounded by what the daemon knows: no account can grow faster than time passes; all VMs of a GPU together are
charged no more than the time that has passed; a VM that says it waits is believed only while it is the gate that it
waits for; and nobody waits for a worker's launches for longer than `DRAIN_NS`. A worker that denies its launches is not
held, and gets the slices that the GPU's driver gives its process beside that of the VM whose turn it is.

The daemon looks at the accounts when a worker rings, and every `LOOK_NS` while several VMs have work; less often where
that would take more than `LOOK_SHARE` of its time.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from vhost_backend.cgroups.limits import MAX_WEIGHT
from vhost_backend.fds import Fd
from vhost_backend.log import Logger, get_logger
from vhost_backend.worker_protocol.budgets import BELL_SHARE, PacedReader, TimeBudget
from vhost_backend.worker_protocol.gate_pages import OPEN, Account, GatePages

TURN_NS: Final = 10_000_000
"""GPU time of a turn. It ends with the launch that goes beyond it, which is charged all the same."""
LONGEST_TURN_NS: Final = 2 * TURN_NS
"""Time after which a turn ends in any case. A VM with work in less than half of it is not waited for anyway."""
DRAIN_NS: Final = 10_000_000
"""Longest time that a turn waits for launches from before; then the GPU's driver shares the GPU among the VMs."""
LOOK_NS: Final = 2_000_000
"""Time between two looks while several VMs have work, and over which it counts how much of it a VM has."""
SLOW_LOOK_NS: Final = 100_000_000
"""Time between two looks while one VM has work."""
LOOK_SHARE: Final = 0.1
"""Share of the loop's time that looks at one GPU's accounts may take: with many VMs, looks take longer, and get rarer."""
CLOSED: Final = 0
_SLACK_NS: Final = 1_000_000
"""Time by which an account may grow beyond the time between two looks, as a look takes time itself."""
_LOG_NS: Final = 60_000_000_000
"""Time between two events that say that VMs of a GPU take turns."""


@dataclass(slots=True)
class GpuTime:
    """GPU time of all workers that served a VM, and what it got beside other VMs."""

    used_ns: int = 0
    held_ns: int = 0
    """Time for which launches were held at the gate."""
    shared_ns: int = 0
    """Part of `used_ns` while other VMs of the GPU had work, too."""
    shared_of_ns: int = 0
    """GPU time of all these VMs, this one included, in the same time."""


class Pages(Protocol):
    """Pages of a worker: `GatePages`."""

    def account(self) -> Account: ...

    def grant(self, until_ns: int, armed: int, beat: int) -> None: ...


@dataclass(eq=False, slots=True)
class Member:
    """A VM on the GPU, by the worker that serves it."""

    name: str
    weight: Callable[[], int]
    """Tells the present weight."""
    total: GpuTime
    pages: Pages
    clock: int
    """Virtual time: nanoseconds of a VM with weight `MAX_WEIGHT`."""
    ran_ns: int = 0
    """Time of the worker's launches, as far as it can be true."""
    until_ns: int = OPEN
    armed: int = 0
    is_running: bool = False
    is_waiting: bool = False
    """A launch is held."""
    is_busy: bool = False
    """It had work for at least half of the last time of `LOOK_NS`, or waits."""
    is_waited_for: bool = False
    """Launches that it was allowed to begin may still run, and the next turn waits for them."""
    recent_ns: int = 0
    """Time of launches since the last sample."""
    has_waited: bool = False
    """A launch was held since then."""
    turn: int = 0
    """Number of its last turn."""

    @property
    def is_present(self) -> bool:
        return self.is_busy or self.is_running or self.recent_ns > 0

    @property
    def is_spent(self) -> bool:
        """True if no launch may begin."""
        return self.ran_ns >= self.until_ns

    def read(self, now_ns: int, elapsed_ns: int) -> int:
        """Reads the account; returns the time of launches since the last look."""
        told = self.pages.account()
        ran_ns = told.ran_ns + (now_ns - told.since_ns if 0 < told.since_ns <= now_ns else 0)
        used_ns = min(max(0, ran_ns - self.ran_ns), elapsed_ns + _SLACK_NS)
        self.ran_ns += used_ns
        self.recent_ns += used_ns
        self.total.held_ns += elapsed_ns if self.is_waiting else 0
        self.is_running = told.since_ns != 0
        self.is_waiting = told.is_held and self.is_spent
        self.has_waited |= self.is_waiting
        if self.is_spent and not self.is_running:
            self.is_waited_for = False
        return used_ns

    def allow(self, time_ns: int) -> None:
        """Lets launches begin that use this time; 0: none."""
        if time_ns > 0:
            self._let(self.ran_ns + time_ns)
        else:
            self.until_ns = CLOSED

    def open(self) -> None:
        """Lets launches begin at any time."""
        self._let(OPEN)

    def _let(self, until_ns: int) -> None:
        self.until_ns = until_ns
        self.is_waited_for, self.is_waiting = True, False

    def ahead_ns(self, clock: int) -> int:
        """GPU time by which it is ahead of a virtual time."""
        return (self.clock - clock) * self.weight() // MAX_WEIGHT


@dataclass(slots=True)
class Turns:
    """Turns of the VMs of one GPU. Knows no clock: each look is told the time."""

    members: list[Member] = field(default_factory=list)
    clock: int = 0
    """Virtual time of the VMs that have work; never goes back."""
    _debts: dict[str, int] = field(default_factory=dict)
    """Virtual times of VMs that have left and were ahead: leaving and coming back gains nothing."""
    _holder: Member | None = None
    """VM whose turn it is."""
    _began_ns: int = 0
    _ending_ns: int | None = None
    """Time since which the next turn waits for launches from before."""
    _contenders: list[Member] = field(default_factory=list)
    """VMs that had work at the last look; none unless there were several."""
    _looked_ns: int = 0
    _sampled_ns: int = 0
    _count: int = 0
    _arms: int = 0

    @property
    def is_contended(self) -> bool:
        return bool(self._contenders)

    def join(self, name: str, weight: Callable[[], int], total: GpuTime, pages: Pages) -> Member:
        """Adds a worker; a look must follow."""
        self._debts = {vm: clock for vm, clock in self._debts.items() if clock > self.clock}
        member = Member(name, weight, total, pages, max(self.clock, self._debts.pop(name, 0)))
        member.ran_ns = min(pages.account().ran_ns, OPEN // 2)  # not 0 of a worker that was taken over: a claim
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Takes a worker out; a look must follow."""
        self.members.remove(member)
        self._contenders = [other for other in self._contenders if other is not member]
        if member.clock > self.clock:
            self._debts[member.name] = member.clock
        if self._holder is member:
            self._holder = None

    def look(self, now_ns: int) -> int | None:
        """Reads all accounts, charges what was used, and writes who may go; returns the time until the next look, if any."""
        elapsed_ns, self._looked_ns = max(0, now_ns - self._looked_ns), now_ns
        self._charge([member.read(now_ns, elapsed_ns) for member in self.members], elapsed_ns)
        self._advance()
        self._sample(now_ns)
        busy = [member for member in self.members if member.is_busy]
        for member in self.members:
            if not busy or busy == [member]:
                member.open()
            elif not member.is_busy:
                member.allow(TURN_NS - member.ahead_ns(self.clock))
        self._contenders = busy if len(busy) > 1 else []
        if self._contenders:
            self._give_turn(now_ns)
        else:
            self._holder = self._ending_ns = None
        return self._write()

    # ----------------------------------------------------------------------------------------------

    def _charge(self, used_ns: Sequence[int], elapsed_ns: int) -> None:
        """Charges times of launches. Where they overlap, each VM has had its part of the GPU's time."""
        overlap = max(1, sum(used_ns))
        charges = [used if overlap <= elapsed_ns else used * elapsed_ns // overlap for used in used_ns]
        for member, charge in zip(self.members, charges, strict=True):
            member.clock += charge * MAX_WEIGHT // max(1, member.weight())
            member.total.used_ns += charge
            if member in self._contenders:
                member.total.shared_ns += charge
                member.total.shared_of_ns += sum(charges)

    def _advance(self) -> None:
        """Advances the virtual time with the VMs that have work, and brings the others up to it."""
        busy = [member.clock for member in self.members if member.is_busy]
        latest = min(busy) if busy else max((member.clock for member in self.members), default=0)
        self.clock = max(self.clock, latest)
        for member in self.members:
            if not member.is_busy:
                member.clock = max(member.clock, self.clock)

    def _sample(self, now_ns: int) -> None:
        """Decides who has work."""
        span_ns = now_ns - self._sampled_ns
        for member in self.members:
            if span_ns < LOOK_NS:
                member.is_busy |= member.is_waiting
            else:
                member.is_busy = member.has_waited or 2 * member.recent_ns >= span_ns
                member.recent_ns, member.has_waited = 0, member.is_waiting
        if span_ns >= LOOK_NS:
            self._sampled_ns = now_ns

    def _give_turn(self, now_ns: int) -> None:
        """Lets the holder go on, or the next VM if its turn is over and nothing from before runs any more."""
        holder = self._holder
        is_over = holder is None or not holder.is_busy or holder.is_spent or now_ns - self._began_ns >= LONGEST_TURN_NS
        for member in self._contenders:
            if member is not holder or is_over:
                member.allow(0)
        if not is_over:
            return
        self._holder = None
        following = min(self._contenders, key=lambda member: (member.clock, member.turn))
        if self._must_wait(following, now_ns):
            return
        self._count += 1
        self._holder, self._began_ns = following, now_ns
        following.turn = self._count
        following.allow(TURN_NS)

    def _must_wait(self, following: Member, now_ns: int) -> bool:
        """True while launches of other VMs run that a turn waits for."""
        others = [other for other in self.members if other.is_running and other.is_waited_for and other.is_busy]
        others = [other for other in others if other is not following]
        if others and self._ending_ns is None:
            self._ending_ns = now_ns
        if others and now_ns - (self._ending_ns or 0) < DRAIN_NS:
            return True
        self._ending_ns = None
        for other in others:
            other.is_waited_for = False
        return False

    def _write(self) -> int | None:
        """Writes all grants; returns as `look`."""
        missed = False
        for member in self.members:
            if member.is_present or len(self.members) == 1:
                member.armed = 0
            elif member.armed == 0:
                self._arms += 1
                member.armed = self._arms
            member.pages.grant(member.until_ns, member.armed, self._looked_ns)
            missed |= member.armed != 0 and member.pages.account().since_ns != 0  # it began before it was armed
        present = sum(member.is_present for member in self.members)
        if present > 1 or (missed and present > 0):
            return LOOK_NS
        return SLOW_LOOK_NS if len(self.members) > 1 and (present or missed) else None


class Seat:
    """Place of one worker among those of its GPU, until it is closed."""

    def __init__(self, table: _Table, member: Member, pages: GatePages) -> None:
        self._table = table
        self._member = member
        self._pages = pages
        self._rings = select.epoll()  # never reads the bell: its worker may have made that block, and empty it
        self._rings.register(pages.bell.fileno(), select.EPOLLIN | select.EPOLLET)
        self._reader = PacedReader(self._rings, self._heard, TimeBudget(BELL_SHARE))
        self._reader.start()

    @property
    def fds(self) -> tuple[int, int, int]:
        """Descriptors of the gate for the worker, which stay ours."""
        return self._pages.fds

    @property
    def lasting(self) -> dict[str, Fd]:
        """Descriptors of the gate that another daemon needs; they stay ours."""
        return self._pages.lasting

    def look(self) -> None:
        """Brings the VM's figures up to date."""
        self._table.refresh()

    def close(self) -> None:
        """Gives the place up; a second call does nothing."""
        if self._member in self._table.turns.members:
            self._reader.stop()
            self._rings.close()
            self._table.leave(self._member)
            self._pages.close()

    def _heard(self) -> bool:
        self._rings.poll(0)
        self._table.hear()
        return False


class _Table:
    """Turns of one GPU on the daemon's loop."""

    def __init__(self, gpu: str, now_ns: Callable[[], int], cost_s: Callable[[], float]) -> None:
        self.turns = Turns(_arms=now_ns())  # workers know numbers of the daemon before
        self._gpu = gpu
        self._now_ns = now_ns
        self._cost_s = cost_s
        self._looked_ns = 0
        self._rests_until_s = 0.0
        """Time of the loop until which looks have had their share."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._logged_ns: int | None = None

    def join(self, name: str, weight: Callable[[], int], total: GpuTime, pages: GatePages) -> Seat:
        seat = Seat(self, self.turns.join(name, weight, total, pages), pages)
        self.look()
        return seat

    def leave(self, member: Member) -> None:
        self.look()  # charges what it has used
        self.turns.leave(member)
        self.look()

    def hear(self) -> None:
        """Looks as soon as looks may: a worker has rung."""
        if self._loop.time() >= self._rests_until_s:
            self.look()
        elif self._timer is None or self._timer.when() > self._rests_until_s:
            self._look_at(self._rests_until_s)

    def refresh(self) -> None:
        """Looks unless it has just done so: whoever asks for the figures of one VM asks for those of all."""
        if self._now_ns() - self._looked_ns >= LOOK_NS:
            self.look()

    def look(self) -> None:
        began_s = self._cost_s()
        now_ns = self._looked_ns = self._now_ns()
        wait_ns = self.turns.look(now_ns)
        now_s = self._loop.time()
        self._rests_until_s = now_s + (self._cost_s() - began_s) * (1 / LOOK_SHARE - 1)
        self._look_at(None if wait_ns is None else max(now_s + wait_ns / 1e9, self._rests_until_s))
        if self.turns.is_contended and (self._logged_ns is None or now_ns - self._logged_ns >= _LOG_NS):
            self._logged_ns = now_ns
            weights = {member.name: member.weight() for member in self.turns.members if member.is_busy}
            get_logger().info("gpu_contended", gpu=self._gpu, weights=weights)

    def _look_at(self, time_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if time_s is None else self._loop.call_at(time_s, self.look)


class GpuGates:
    """Gates of all GPUs of a daemon. A MIG instance counts as a GPU: instances run side by side."""

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, cost_s: Callable[[], float] = time.thread_time
    ) -> None:
        """`now_ns`: CLOCK_MONOTONIC, which accounts are kept by. `cost_s`: measures what looks cost."""
        self._now_ns = now_ns
        self._cost_s = cost_s
        self._tables: dict[str, _Table] = {}

    def join(
        self, gpu: str, name: str, weight: Callable[[], int], total: GpuTime, pages: GatePages | None = None
    ) -> Seat:
        """Gives a worker of the VM `name` a place among those of the GPU with this UUID. `weight` tells the VM's present
        one at each look. `total` is what is counted for the VM. `pages`: of a worker that was taken over.

        :raise OSError: the host lacks descriptors, memory or seals.
        """
        if gpu not in self._tables:
            self._tables[gpu] = _Table(gpu, self._now_ns, self._cost_s)
        return self._tables[gpu].join(name, weight, total, pages or GatePages())

    def turns(self, gpu: str) -> Turns:
        """Turns of a GPU's VMs.

        :raise KeyError: no VM has had a worker there.
        """
        return self._tables[gpu].turns


class _Link(Protocol):
    """Link to a worker, which is closed once the worker has ended."""

    @property
    def closed(self) -> bool: ...


class Seats:
    """Places of one VM's workers among those of their GPUs."""

    def __init__(self, gates: GpuGates, name: str, weight: Callable[[], int], total: GpuTime, log: Logger) -> None:
        """`weight`, `total`: see `GpuGates.join`."""
        self._gates = gates
        self._name = name
        self._weight = weight
        self._total = total
        self._log = log
        self._seats: dict[_Link, Seat] = {}

    def take(self, link: _Link, gpu: str) -> tuple[int, ...]:
        """Has a worker take turns with those of other VMs on a GPU; returns the gate's descriptors, none if it cannot."""
        try:
            seat = self._gates.join(gpu, self._name, self._weight, self._total)
        except OSError as error:
            self._log.warning("gpu_gate_missing", means="the VM's launches take no turns", why=str(error))
            return ()
        self._seats[link] = seat
        return seat.fds

    def lasting(self, link: _Link) -> dict[str, Fd]:
        """Descriptors that another daemon needs to have a worker take turns, by name; they stay ours."""
        seat = self._seats.get(link)
        return {} if seat is None else seat.lasting

    def resume(self, link: _Link, gpu: str, fds: dict[str, Fd]) -> int | None:
        """Has a worker of an earlier daemon go on to take turns, and takes what is `lasting` out of `fds`.

        Returns the descriptor of the grant that it gets, which stays ours; None: it takes no turns, as before.
        """
        account, bell = fds.pop("account", None), fds.pop("bell", None)
        if account is None or bell is None:
            return None
        try:
            seat = self._gates.join(gpu, self._name, self._weight, self._total, GatePages(account, bell))
        except (OSError, ValueError) as error:
            self._log.warning("gpu_gate_missing", means="the VM's launches take no turns", why=str(error))
            return None
        self._seats[link] = seat
        return seat.fds[0]

    def look(self) -> None:
        """Brings the VM's GPU time up to date."""
        for seat in self._seats.values():
            seat.look()

    def leave_ended(self) -> None:
        """Gives up the places of workers that have ended."""
        for link in [link for link in self._seats if link.closed]:
            self._seats.pop(link).close()

    def leave_all(self) -> None:
        """Gives up all places."""
        while self._seats:
            self._seats.popitem()[1].close()
