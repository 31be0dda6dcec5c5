"""Feeds the meters of a host's VMs while somebody asks, and costs nothing while nobody does.

It opens the function *load* on every VM, for each as an instance of the control system's own, so that a worker that
refuses or does not answer hides no other VM's load; and looks once a period what the elements have reported. When nobody
has asked for a while the instances are closed again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from vhost_backend.control.access import Peer
from vhost_backend.control.fields import Fields
from vhost_backend.control.functions import MODULES
from vhost_backend.control.functions.base import FunctionModule
from vhost_backend.control.instances import Instance
from vhost_backend.control.interface import Interface, Opening
from vhost_backend.control.load.meter import Sample, VmMeter
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.vm_side import VmSide
from vhost_backend.log import Logger
from virtio_proto.control.records import Function
from virtio_proto.control.selector import Selector

PERIOD_S: Final = 0.5
KEPT_S: Final = 60.0
"""After the last question."""
_ITSELF: Final = Peer("load management", "admin")


class LoadWatch:
    """The meters, by VM."""

    def __init__(self, interface: Interface, log: Logger, *, period_s: float = PERIOD_S) -> None:
        self._interface = interface
        self._log = log
        self._period_s = period_s
        self._meters: dict[str, VmMeter] = {}
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def meter(self, vm: str) -> VmMeter:
        return self._meters.setdefault(vm, VmMeter())

    def ask(self) -> None:
        """Watches from now on, for a while."""
        self._asked_at = asyncio.get_running_loop().time()
        if self._task is None or self._task.done():
            self._task = self._interface.spawn(self._watch())

    async def close(self) -> None:
        """Stops watching; channels end with their workers."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        opening = [asyncio.ensure_future(self._open(name)) for name in self._interface.sides]
        try:
            while asyncio.get_running_loop().time() - self._asked_at < KEPT_S:
                await asyncio.sleep(self._period_s)
                for side in self._interface.sides.values():
                    self.look(side)
        finally:
            for task in opening:
                self._interface.spawn(self._end(task))

    async def _end(self, opening: asyncio.Task[Instance | None]) -> None:
        if (instance := await opening) is not None:
            await self._interface.close_instance(instance)

    async def _open(self, vm: str) -> Instance | None:
        """None: its worker refuses; then what perf channels of others report is all there is."""
        module: FunctionModule = MODULES[Function.LOAD.name.lower()]
        terms = module.terms(Fields("open", {"period_ms": int(self._period_s * 1000)}))
        opening = Opening(Selector(vm=vm, fn=("load",)), terms, owner=_ITSELF.name, keep=True, internal=True)
        try:
            return await self._interface.open(_ITSELF, opening)
        except RefusedError as error:
            self._log.warning("load_not_watched", of_vm=vm, error=str(error), guest=True)
            return None

    def look(self, side: VmSide) -> None:
        """Notes what a VM's elements have reported last."""
        busy_ns = {pe: figures.busy_ns for pe, figures in side.figures.items()}
        if busy_ns:
            self.meter(side.name).note(Sample(side.figures_ns, busy_ns))
        elif side.name in self._meters:
            self._meters[side.name] = VmMeter()
