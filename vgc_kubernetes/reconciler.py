"""Keeps the VMs of ``vgcd`` equal to what the kubelet says that containers have.

The kubelet's list is the only record: a plugin that starts again, a daemon that was replaced or has lost its VMs, and a
kubelet that starts again all lead back to it. A VM is made when its container is about to start, which the kubelet tells,
and removed some time after the list has it no more, which the kubelet does not tell. Until then it harms nobody: if the
kubelet gives one of its elements to another container before, it goes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from control_center.address import Address
from control_center.errors import RefusedError, UnreachableError
from vgc_kubernetes import terms
from vgc_kubernetes.allocations import Allocation, allocations, vm_name
from vgc_kubernetes.device_folders import DeviceFolders
from vgc_kubernetes.errors import KubeletError, RequestError
from vgc_kubernetes.kubelet import Kubelet
from vgc_kubernetes.terms import DeviceShape
from vgc_kubernetes.vms import Engine, Offer, OwnVm, Vms, connected
from vgc_kubernetes.watched import Watched

log = structlog.get_logger()

PERIOD_S: Final = 5.0
RELEASE_AFTER_S: Final = 60.0
"""Time for which a VM stays that the kubelet's list has no more: a kubelet that has just started lists nothing yet."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms on which a host's processing elements and memory are given to containers."""

    control: Address
    """The daemon's control socket."""
    engine: Engine = "cpu"
    shape: DeviceShape = field(default_factory=DeviceShape)
    memory_unit_bytes: int = terms.MEMORY_UNIT_BYTES
    release_after_s: float = RELEASE_AFTER_S
    period_s: float = PERIOD_S
    """Period of comparing both sides."""

    @property
    def memory_resource(self) -> str:
        return terms.memory_resource(self.memory_unit_bytes)


class Reconciler:
    """The VMs of one host. `offer` is what its plugin publishes. `clock` counts seconds."""

    def __init__(self, given: Terms, kubelet: Kubelet, folders: DeviceFolders, clock: Callable[[], float]) -> None:
        self.terms = given
        self.folders = folders
        self.offer = Watched(Offer(0, 0, is_served=False))
        self.has_offer = False
        """True from the first answer of the daemon on."""
        self._kubelet = kubelet
        self._clock = clock
        self._lock = asyncio.Lock()
        self._missed_since: dict[str, float] = {}

    async def run(self) -> None:
        """Compares both sides again and again until cancelled."""
        while True:
            await self.reconcile()
            await asyncio.sleep(self.terms.period_s)

    async def prepare(self, elements: frozenset[str]) -> None:
        """Makes the VM of a container that is about to start, if it is not served already.

        :raise RequestError: there is no such container, it asks for no memory, or ``vgcd`` does not serve the VM.
        """
        name = vm_name(elements)
        async with self._lock:
            try:
                found = allocations(await self._kubelet.pods(), self.terms.memory_resource)
                async with self._vms() as vms:
                    if name not in found:
                        raise RequestError(f"the kubelet lists no container with the elements {_shown(elements)}")
                    await self._serve(vms, found[name], await vms.own())
            except (KubeletError, RefusedError, OSError) as error:
                raise RequestError(f"the container gets no VM: {error}") from None

    async def reconcile(self) -> None:
        """Compares both sides once. What cannot be done now is logged, and done next time."""
        async with self._lock:
            try:
                async with self._vms() as vms:
                    own = await vms.own()
                    await self.offer.set(await vms.offer(own))
                    self.has_offer = True
                    await self._compare(vms, own)
            except UnreachableError as error:
                log.warning("daemon_unavailable", reason=error.text)
                await self.offer.set(replace(self.offer.value, is_served=False))
            except (KubeletError, RefusedError, OSError) as error:
                log.warning("reconciling_failed", reason=str(error))

    async def _compare(self, vms: Vms, own: Mapping[str, OwnVm]) -> None:
        try:
            found = allocations(await self._kubelet.pods(), self.terms.memory_resource)
        except KubeletError:
            self._missed_since.clear()
            raise
        missed = (own.keys() | self.folders.vms()) - found.keys()
        now = self._clock()
        self._missed_since = {name: self._missed_since.get(name, now) for name in missed}
        for name in sorted(missed):
            if now - self._missed_since[name] >= self.terms.release_after_s:
                try:
                    await self._release(vms, name, own.get(name))
                except (RequestError, OSError) as error:
                    log.warning("vm_not_removed", vm=name, reason=str(error))
        for name in sorted(found.keys() - {vm.name for vm in own.values() if not vm.is_left_out}):
            if found[name].memory_units:
                try:
                    await self._serve(vms, found[name], await vms.own())
                except (RequestError, OSError) as error:
                    log.warning("vm_not_added", vm=name, container=found[name].container, reason=str(error))

    async def _serve(self, vms: Vms, allocation: Allocation, own: Mapping[str, OwnVm]) -> None:
        """:raise RequestError: ``vgcd`` does not serve the VM."""
        name = allocation.vm
        if allocation.shared:
            raise RequestError(
                f"the kubelet lists {_shown(allocation.shared)} of {allocation.container} for another container, too; "
                "allowed: elements that no other container has"
            )
        if not allocation.memory_units:
            raise RequestError(
                f"{allocation.container} has {len(allocation.elements)} of {terms.ELEMENTS} and no "
                f"{self.terms.memory_resource}; allowed: limits for both"
            )
        memory_bytes = allocation.memory_units * self.terms.memory_unit_bytes
        present = own.get(name)
        if present is not None and not present.is_left_out:
            if present.is_leaving:
                raise RequestError(f"VM {name} is leaving, as its QEMU has not ended yet; allowed: to try again")
            if present.memory_bytes == memory_bytes:
                self.folders.note(allocation)
                return
        await self._make_room(vms, allocation, own)
        self.folders.note(allocation)
        await vms.add(name, self.folders.socket(name), len(allocation.elements), memory_bytes)
        log.info(
            "vm_added",
            vm=name,
            container=allocation.container,
            elements=len(allocation.elements),
            memory_bytes=memory_bytes,
        )

    async def _make_room(self, vms: Vms, allocation: Allocation, own: Mapping[str, OwnVm]) -> None:
        """Removes VMs of containers that are gone: the kubelet gives an element to one container at a time."""
        for vm in own.values():
            elements = self.folders.elements(vm.name) or frozenset()
            if vm.name == allocation.vm or elements & allocation.elements:
                log.info("vm_replaced", vm=vm.name, container=allocation.container)
                await vms.remove(vm.name, now=not vm.is_left_out)
                if vm.name != allocation.vm:
                    self.folders.remove(vm.name)

    async def _release(self, vms: Vms, name: str, vm: OwnVm | None) -> None:
        if vm is None:
            self.folders.remove(name)
        elif not vm.is_leaving:
            log.info("vm_removed", vm=name)
            await vms.remove(name, now=False)

    @contextlib.asynccontextmanager
    async def _vms(self) -> AsyncIterator[Vms]:
        async with connected(self.terms.control, self.terms.shape, self.terms.engine) as vms:
            yield vms


def _shown(elements: frozenset[str]) -> str:
    return ", ".join(sorted(elements))[:200]
