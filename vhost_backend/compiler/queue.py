"""Fair queue of compiler slots: the VM that has used compilers least is served first, and long runs yield to it.

Each compilation runs undisturbed for a time slice. After that it is stopped as soon as a VM waits that has nothing running
and has used less, and queued again as a long one. A long run is not stopped, so that a compilation loses one run at most and
then ends, by itself or by its own limit. Long runs come first in the slots that they may have, so none waits for ever; but
neither they nor one VM ever have all the slots.

Runs are stopped rather than frozen, as a frozen compiler keeps its memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Final

from vhost_backend.errors import QuotaError

_HALF_LIFE_S: Final = 60.0
"""Time after which half of what a VM has used is forgotten."""
_FORGOTTEN_S: Final = 1e-3
"""Time that counts as none."""


class Ticket:
    """Request for a slot. It may stand in the queues of several VMs; the first whose turn comes serves it."""

    def __init__(self, *, is_long: bool = False) -> None:
        """`is_long`: the compilation has been stopped once."""
        loop = asyncio.get_running_loop()
        self._granted: asyncio.Future[None] = loop.create_future()
        self.stopped: asyncio.Future[None] = loop.create_future()
        """Done when the run is to be stopped, and its slot given back."""
        self.is_long = is_long
        self.may_be_stopped = False
        self.charged_until = 0.0
        self.vm: str | None = None
        """VM that a granted slot is charged to; give the slot back with `FairSlots.release`."""

    @property
    def is_open(self) -> bool:
        """True while the ticket waits: neither granted nor cancelled."""
        return not self._granted.done()

    async def granted(self) -> None:
        """Waits for the slot. Cancelling closes the ticket, unless it was granted just before (then `vm` is set)."""
        await self._granted

    def grant(self, vm: str) -> None:
        """Grants the slot, charged to `vm`."""
        self.vm = vm
        self._granted.set_result(None)


class FairSlots:
    """Slots for compilers. Of VMs with open tickets, the one that has used least is served first; then in turn."""

    def __init__(self, max_running: int, max_waiting_per_vm: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds since some time."""
        self._clock = clock
        self._used: defaultdict[str, float] = defaultdict(float)
        """Seconds of slots, of late, by VM."""
        self._aged_until = clock()
        self._max_running = max_running
        self._all_but_one = max(1, max_running - 1)
        """Most slots of a VM, and most slots with long runs."""
        self._running: list[Ticket] = []
        """Tickets with a slot, the longest-running first."""
        self._first = _Turns(max_waiting_per_vm)
        self._long = _Turns(None)

    def enqueue(self, vm: str, ticket: Ticket) -> None:
        """Queues `ticket` for `vm`, and grants it at once if a slot is free.

        :raise QuotaError: the VM has too many open tickets. Tickets of long runs are never refused.
        """
        (self._long if ticket.is_long else self._first).add(vm, ticket)
        self._grant()

    def end_slice(self, ticket: Ticket) -> None:
        """Allows that a running ticket is stopped for others from now on."""
        ticket.may_be_stopped = not ticket.is_long
        self._stop_for_others()

    def release(self, ticket: Ticket) -> None:
        """Gives back the slot of a ticket that was granted."""
        self._charge()
        self._running.remove(ticket)
        self._grant()

    def _charge(self) -> None:
        """Charges VMs for the time since the last charge, and forgets part of what was before."""
        now = self._clock()
        kept = 0.5 ** ((now - self._aged_until) / _HALF_LIFE_S)
        self._aged_until = now
        running = self._count()
        for vm, used in list(self._used.items()):
            self._used[vm] = used * kept
            if used * kept < _FORGOTTEN_S and not running[vm]:
                del self._used[vm]
        for ticket in self._running:
            self._used[ticket.vm or ""] += now - ticket.charged_until
            ticket.charged_until = now

    def _grant(self) -> None:
        self._charge()
        while len(self._running) < self._max_running:
            turn = self._next()
            if turn is None:
                break
            vm, ticket = turn
            self._running.append(ticket)
            ticket.charged_until = self._clock()
            ticket.grant(vm)
        self._stop_for_others()

    def _next(self) -> tuple[str, Ticket] | None:
        """Takes the ticket whose turn it is: (VM, ticket)."""
        running = self._count()

        def may_run(vm: str) -> bool:
            return running[vm] < self._all_but_one

        is_room = sum(ticket.is_long for ticket in self._running) < self._all_but_one
        return (self._long.take(may_run, self._used) if is_room else None) or self._first.take(may_run, self._used)

    def _stop_for_others(self) -> None:
        """Stops a run for each VM that waits, has nothing running and has used less; the run of the VM that used most."""
        self._charge()
        running = self._count()
        waiting = sorted((vm for vm in self._first.vms() if not running[vm]), key=self._used.__getitem__)
        leaving = sum(ticket.stopped.done() for ticket in self._running)
        stoppable = [ticket for ticket in self._running if ticket.may_be_stopped and not ticket.stopped.done()]
        stoppable.sort(key=lambda ticket: self._used[ticket.vm or ""], reverse=True)
        for vm, ticket in zip(waiting[leaving:], stoppable, strict=False):
            if self._used[vm] < self._used[ticket.vm or ""]:
                ticket.stopped.set_result(None)

    def _count(self) -> Counter[str]:
        """Number of slots of each VM."""
        return Counter(ticket.vm for ticket in self._running if ticket.vm is not None)


class _Turns:
    """Open tickets of VMs, which take turns."""

    def __init__(self, max_per_vm: int | None) -> None:
        self._max_per_vm = max_per_vm
        self._queues: OrderedDict[str, deque[Ticket]] = OrderedDict()

    def add(self, vm: str, ticket: Ticket) -> None:
        """Adds a ticket behind those of the same VM.

        :raise QuotaError: the VM has too many.
        """
        queue = deque(waiting for waiting in self._queues.get(vm, ()) if waiting.is_open)
        if self._max_per_vm is not None and len(queue) >= self._max_per_vm:
            raise QuotaError(
                f"{len(queue)} programs of this VM wait for a compiler; allowed: {self._max_per_vm}, so wait for some to finish"
            )
        queue.append(ticket)
        self._queues[vm] = queue

    def take(self, may_run: Callable[[str], bool], used: Mapping[str, float]) -> tuple[str, Ticket] | None:
        """Takes the first ticket of the VM that has used least among those that may run; it is the last in turn then."""
        vms = [vm for vm in self.vms() if may_run(vm)]
        if not vms:
            return None
        vm = min(vms, key=used.__getitem__)
        self._queues.move_to_end(vm)
        return vm, self._queues[vm].popleft()

    def vms(self) -> list[str]:
        """VMs with open tickets, in turn; forgets the others."""
        for vm, queue in list(self._queues.items()):
            while queue and not queue[0].is_open:
                queue.popleft()
            if not queue:
                del self._queues[vm]
        return list(self._queues)
