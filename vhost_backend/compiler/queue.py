"""Fair queue of compiler slots: a bounded number of compilers, VMs served in turn, no VM with all the slots."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from vhost_backend.errors import QuotaError


class Ticket:
    """Request for a slot. It may stand in the queues of several VMs; the first whose turn comes serves it."""

    def __init__(self) -> None:
        self._granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
    """Slots for compilers. VMs with open tickets are served in turn."""

    def __init__(self, max_running: int, max_waiting_per_vm: int) -> None:
        self._free = max_running
        self._max_running_per_vm = max(1, max_running - 1)
        self._max_waiting_per_vm = max_waiting_per_vm
        self._running: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()

    def enqueue(self, vm: str, ticket: Ticket) -> None:
        """Queues `ticket` for `vm`, and grants it at once if a slot is free.

        :raise QuotaError: the VM has too many open tickets.
        """
        queue = deque(waiting for waiting in self._waiting.get(vm, ()) if waiting.is_open)
        if len(queue) >= self._max_waiting_per_vm:
            raise QuotaError(f"{len(queue)} programs of this VM wait for a compiler; wait for some to finish")
        queue.append(ticket)
        self._waiting[vm] = queue
        self._grant()

    def release(self, vm: str) -> None:
        """Gives back a slot that was charged to `vm`."""
        self._free += 1
        self._running[vm] -= 1
        if self._running[vm] == 0:
            del self._running[vm]
        self._grant()

    def _grant(self) -> None:
        while self._free > 0:
            vm = self._next_vm()
            if vm is None:
                return
            ticket = self._waiting[vm].popleft()
            self._waiting.move_to_end(vm)
            self._free -= 1
            self._running[vm] = self._running.get(vm, 0) + 1
            ticket.grant(vm)

    def _next_vm(self) -> str | None:
        """VM whose turn it is, with its first ticket open; forgets VMs without open tickets."""
        for vm, queue in list(self._waiting.items()):
            while queue and not queue[0].is_open:
                queue.popleft()
            if not queue:
                del self._waiting[vm]
            elif self._running.get(vm, 0) < self._max_running_per_vm:
                return vm
        return None
