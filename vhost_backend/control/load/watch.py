"""Load watch: feeds the load meters of a host's VMs while clients ask for loads, and costs nothing otherwise.

It opens an internal instance of the function *load* for each VM, so that a worker that refuses or does not answer hides
no other VM's load, and samples once a period the figures that the processing elements report. It closes the instances
`KEPT_S` after the last request.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from vhost_backend.control.api.access import Peer
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.functions.base import FunctionModule
from vhost_backend.control.functions.modules import MODULES
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.instances.registry import InstanceRegistry, Opening
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.load.meter import Sample, VmMeter
from vhost_backend.log import Logger
from virtio_proto.control.records import Function
from virtio_proto.control.selector import Selector
from virtio_proto.control.verbs.channels import Open

PERIOD_S: Final = 0.5
KEPT_S: Final = 60.0
"""Time to go on sampling after the last request."""
_ITSELF: Final = Peer("load management", "admin")


class LoadWatch:
    """Load meters of all VMs, by VM."""

    def __init__(
        self, registry: InstanceRegistry, tasks: BackgroundTasks, log: Logger, *, period_s: float = PERIOD_S
    ) -> None:
        self._registry = registry
        self._tasks = tasks
        self._log = log
        self._period_s = period_s
        self._meters: dict[str, VmMeter] = {}
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def meter(self, vm: str) -> VmMeter:
        return self._meters.setdefault(vm, VmMeter())

    def ask(self) -> None:
        """Starts to sample, or goes on, for `KEPT_S`."""
        self._asked_at = asyncio.get_running_loop().time()
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn(self._watch())

    async def close(self) -> None:
        """Stops sampling; channels end with their workers."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        opening: dict[VmSide, asyncio.Task[Instance | None]] = {}
        try:
            while asyncio.get_running_loop().time() - self._asked_at < KEPT_S:
                served = set(self._registry.sides.values())
                for side in served - opening.keys():  # all of them at first, then new ones
                    opening[side] = asyncio.ensure_future(self._open(side.name))
                for side in opening.keys() - served:
                    self._forget(side, opening.pop(side))
                await asyncio.sleep(self._period_s)
                for side in self._registry.sides.values():
                    self.look(side)
        finally:
            for task in opening.values():
                self._tasks.spawn(self._end(task))

    def _forget(self, side: VmSide, opening: asyncio.Task[Instance | None]) -> None:
        """Lets go of a VM that has left; a new VM of its name may be there already."""
        if side.name not in self._registry.sides:
            self._meters.pop(side.name, None)
        self._tasks.spawn(self._end(opening))

    async def _end(self, opening: asyncio.Task[Instance | None]) -> None:
        if (instance := await opening) is not None:
            await self._registry.close_instance(instance)

    async def _open(self, vm: str) -> Instance | None:
        """Opens a VM's instance; None if its worker refuses, so that only other users' perf channels report its figures."""
        module: FunctionModule = MODULES[Function.LOAD.name.lower()]
        terms = module.terms(Open.Request(selector="fn=load", period_ms=int(self._period_s * 1000)))
        opening = Opening(Selector(vm=vm, fn=("load",)), terms, owner=_ITSELF.name, keep=True, internal=True)
        try:
            return await self._registry.open(_ITSELF, opening)
        except RefusedError as error:
            self._log.warning("load_not_watched", of_vm=vm, error=str(error), guest=True)
            return None

    def look(self, side: VmSide) -> None:
        """Notes the latest figures of a VM's elements."""
        busy_ns = {pe: figures.busy_ns for pe, figures in side.figures.items()}
        if busy_ns:
            self.meter(side.name).note(Sample(side.figures_ns, busy_ns))
        elif side.name in self._meters:
            self._meters[side.name] = VmMeter()
