"""Firmware management of one host: checks, compiles and stages images, activates them a few elements first, rolls back.

A failure on one element rolls back the whole rollout. A VM never gets an image again whose worker died soon after the
activation, that died in a hook, or that did not return from its self test: the VM's elements, or those of its next
worker, run the version from before.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from vhost_backend.compiler.service import Compiler
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FirmwareChanged, FirmwareReported, WorkerLost, WorkerReady
from vhost_backend.control.firmware import build, signing
from vhost_backend.control.firmware.floors import VersionFloors
from vhost_backend.control.firmware.unit import Activation, Unit
from vhost_backend.control.links.firmware import Elements, FirmwareError
from vhost_backend.sandbox import memfd
from virtio_proto.control.api import FirmwareImage, FirmwareInfo
from virtio_proto.control.firmware import Image, ImageError
from virtio_proto.schema import ProgramKind

MAX_IMAGES: Final = 16
_CLIENT: Final = "control system"
"""Name under which firmware is compiled; no VM can have it, as it contains a space."""
WITHIN_S: Final = 5.0
"""Time that processing elements have to come to a poll point."""
PROBATION_S: Final = 10.0
"""Time after a change in which the death of a worker is blamed on the change."""

Chosen: TypeAlias = Mapping[str, Sequence[int]]
"""Elements by VM."""


@dataclass(slots=True)
class Staged:
    """Image that this host has accepted."""

    image: Image
    staged_ns: int
    engines: set[str]


@dataclass(slots=True)
class Standing:
    """Version that a VM's processing elements are to run, in this worker and in later ones."""

    version: str
    since_s: float
    before: str | None


class FirmwareManager:
    """Serves the control API's firmware verbs. All methods belong to the event loop's thread."""

    def __init__(
        self,
        keys: signing.Keys,
        compiler: Compiler,
        bus: EventBus,
        tasks: BackgroundTasks,
        *,
        elements_of: Callable[[str], Elements],
        clock_ns: Callable[[], int],
    ) -> None:
        self._keys = keys
        self._compiler = compiler
        self._bus = bus
        self._tasks = tasks
        self._elements_of = elements_of
        self._clock_ns = clock_ns
        self._built_in = build.built_in()
        self._images: dict[str, Staged] = {}
        self._units: dict[str, Unit] = {}
        self._standing: dict[str, Standing] = {}
        self._condemned: set[tuple[str, str]] = set()  # (vm, version)
        self._floors = VersionFloors(self._built_in)
        self._locks: dict[str, asyncio.Lock] = {}
        bus.subscribe(WorkerReady, self._worker_ready)
        bus.subscribe(WorkerLost, self._worker_lost)
        bus.subscribe(FirmwareReported, self._reported)

    # ---- workers come and go -----------------------------------------------------------------------

    def _worker_ready(self, event: WorkerReady) -> None:
        self._tasks.spawn(self._take(self._elements_of(event.vm)))

    async def _take(self, elements: Elements) -> None:
        """Manages the elements of a new worker: brings them to the firmware that the VM is to run."""
        unit = self._units[elements.vm] = Unit(elements, self._built_in)
        standing = self._standing.get(elements.vm)
        if standing is None or standing.version not in self._images:
            return
        try:
            async with self._alone_with([elements.vm]):
                await self._stage_on(unit, self._images[standing.version])
                await unit.activate(unit.slot_of(standing.version), range(elements.num_pes), WITHIN_S)
        except FirmwareError as error:
            self._tell(elements.vm, {"version": standing.version, "problem": str(error)})

    def _worker_lost(self, event: WorkerLost) -> None:
        """Forgets a VM's elements; if the worker has died soon after a change, the change is taken back."""
        vm = event.vm
        unit = self._units.pop(vm, None)
        if unit is not None:
            unit.lose()
        standing = self._standing.get(vm)
        if standing is None or not event.loss.died or self._seconds() - standing.since_s > PROBATION_S:
            return
        self._condemn(vm, standing.version, "the worker died soon after the change")
        if standing.before is None or standing.before == self._built_in:
            del self._standing[vm]
        else:
            self._standing[vm] = Standing(standing.before, self._seconds() - PROBATION_S, None)

    def _reported(self, event: FirmwareReported) -> None:
        """Condemns an image that an element has gone back from by itself."""
        vm, report = event.vm, event.report
        unit = self._units.get(vm)
        version = None if unit is None else unit.reported(report)
        if unit is None or version is None or version not in self._images or (vm, version) in self._condemned:
            return  # a hostile worker may report this for any element, any number of times
        self._condemn(vm, version, f"element {report.pe}: {unit.pes[report.pe].text}")
        self._tasks.spawn(self._leave(unit, version))

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left: a new VM of its name starts with the built-in version."""
        self._units.pop(vm, None)
        self._standing.pop(vm, None)
        self._condemned = {(name, version) for name, version in self._condemned if name != vm}
        self._floors.forget_vm(vm)
        if vm in self._locks and not self._locks[vm].locked():
            del self._locks[vm]

    # ---- verbs -------------------------------------------------------------------------------------

    def info(self, visible: Callable[[str], bool] = lambda _vm: True) -> FirmwareInfo:
        """Images, and the versions on the elements of visible VMs."""
        images: list[FirmwareImage] = [
            {
                "version": version,
                "key": staged.image.manifest.key,
                "name": staged.image.manifest.name,
                "sha256": hashlib.sha256(staged.image.signed + staged.image.signature).hexdigest(),
                "staged_ns": staged.staged_ns,
                "engine": "|".join(sorted(staged.engines)),
            }
            for version, staged in self._images.items()
        ]
        return {
            "images": images,
            "pes": [row for vm, unit in self._units.items() if visible(vm) for row in unit.table()],
        }

    def active(self, vm: str) -> str:
        """Version on a VM's elements; ``mixed`` if they differ, "" while the VM has no worker."""
        unit = self._units.get(vm)
        return "" if unit is None else unit.active()

    async def stage(self, data: bytes, vms: Sequence[str], *, force: bool = False) -> dict[str, Any]:
        """Checks an image and loads it into the spare slot of these VMs; with `force` also one older than they have run.

        :raise FirmwareError: the image is malformed, too old, has no trusted signature or does not compile, or a worker
            refuses it.
        """
        staged = self._accept(data)
        version = staged.image.manifest.version
        async with self._alone_with(vms):
            if not force:
                for vm in vms:
                    self._floors.refuse_older(vm, version)
            for vm in vms:
                unit = self._unit(vm)
                self._refuse_condemned(vm, version)
                if version not in unit.versions:
                    await self._stage_on(unit, staged)
        self._images[version] = staged
        self._tell(None, {"staged": version, "vms": list(vms), "forced": force})
        return {"version": version, "vms": list(vms)}

    async def activate(self, version: str, chosen: Chosen, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Changes elements to a staged version: first one of each VM, and the others if that succeeds.

        :raise FirmwareError: a VM does not have the version. Failures on elements are in the result.
        """
        return await self._change(dict.fromkeys(chosen, version), chosen, within_s)

    async def roll_back(self, chosen: Chosen, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Changes elements to the version in their other slot, which has run on the VM before.

        :raise FirmwareError: the slot is empty, or its version was staged and never ran.
        """
        targets = {}
        for vm, pes in chosen.items():
            unit = self._unit(vm)
            slots = {1 - unit.pes[pe].slot for pe in pes}
            version = unit.versions[slots.pop()] if len(slots) == 1 else None
            if version is None:
                raise FirmwareError("busy", f"{vm}: elements without another version, or with different ones")
            if version not in unit.proven:
                raise FirmwareError("busy", f"{vm} never ran {version}; allowed: activate it, or a version that ran")
            targets[vm] = version
        return await self._change(targets, chosen, within_s)

    # ---- steps -------------------------------------------------------------------------------------

    def _tell(self, vm: str | None, detail: dict[str, Any]) -> None:
        self._bus.publish(FirmwareChanged(vm, detail))

    def _seconds(self) -> float:
        return self._clock_ns() / 1e9

    def _unit(self, vm: str) -> Unit:
        unit = self._units.get(vm)
        if unit is None:
            raise FirmwareError("busy", f"{vm} has no worker now; allowed: VMs that run")
        return unit

    def _accept(self, data: bytes) -> Staged:
        try:
            image = signing.verify(data, self._keys)
        except ImageError as error:
            raise FirmwareError("denied" if "sign" in str(error) else "malformed", str(error)) from None
        made = image.manifest
        if made.abi != build.abi():
            raise FirmwareError("malformed", f"image for abi {made.abi}; allowed: {build.abi()}, this host's hooks")
        known = self._images.get(made.version)
        if made.version == self._built_in or (known is not None and known.image.signed != image.signed):
            raise FirmwareError("malformed", f"another image has version {made.version}; allowed: a new version")
        if known is None and len(self._images) >= MAX_IMAGES:
            raise FirmwareError("quota", f"{MAX_IMAGES} images are staged; allowed: no more until the daemon restarts")
        return known or Staged(image, self._clock_ns(), set())

    async def _stage_on(self, unit: Unit, staged: Staged) -> None:
        slot = unit.spare_slot()
        target = unit.elements.target
        source_fd = memfd.sealed("vgc-firmware", staged.image.source.encode())
        result = await self._compiler.submit(_CLIENT, ProgramKind.CUDA_SOURCE, source_fd, (), target)
        try:
            if result.image_fd is None:
                raise FirmwareError("failed", f"does not compile for {target.engine}: {result.log[:2000]}")
            if self._units.get(unit.elements.vm) is not unit:  # the command would reach the next worker
                raise FirmwareError("busy", f"{unit.elements.vm} has lost its worker meanwhile; allowed: to try again")
            await unit.stage(slot, staged.image.manifest.version, result.image_fd)
        finally:
            if result.image_fd is not None:
                os.close(result.image_fd)
        staged.engines.add(target.engine)

    async def _change(self, versions: Mapping[str, str], chosen: Chosen, within_s: float) -> dict[str, Any]:
        async with self._alone_with(chosen):
            return await self._change_now(versions, chosen, within_s)

    async def _change_now(self, versions: Mapping[str, str], chosen: Chosen, within_s: float) -> dict[str, Any]:
        for vm, version in versions.items():
            self._refuse_condemned(vm, version)
        slots = {vm: self._unit(vm).slot_of(version) for vm, version in versions.items()}
        before = {vm: {pe: self._unit(vm).pes[pe].slot for pe in pes} for vm, pes in chosen.items()}
        self._stand(versions)
        first = {vm: pes[:1] for vm, pes in chosen.items()}
        rest = {vm: pes[1:] for vm, pes in chosen.items()}
        for stage in (first, rest):
            done = await self._activate(slots, stage, within_s)
            if any(result.failed for result in done.values()):
                problems = self._problems(done)
                self._unstand(versions)
                await self._replace_hung(versions, done)
                await self._restore(before, within_s)
                return self._result(versions, problems, "rolled back")
        for vm, version in versions.items():
            self._floors.raise_to(vm, version)
        for vm in versions.keys() & self._standing.keys():
            self._standing[vm].since_s = self._seconds()
        return self._result(versions, [], "active")

    async def _replace_hung(self, versions: Mapping[str, str], done: Mapping[str, Activation]) -> None:
        """Replaces the workers of VMs with an element that does not return from its self test."""
        for vm, result in done.items():
            unit = self._units.get(vm)
            if result.hung and unit is not None:
                pe = result.hung[0]
                why = f"element {pe}: {unit.pes[pe].text}"
                self._condemn(vm, versions[vm], why)
                await unit.elements.replace_worker(f"firmware {versions[vm]}: {why}")

    async def _leave(self, unit: Unit, version: str) -> None:
        """Rolls back all elements of a VM from an image that has died on one of them."""
        vm = unit.elements.vm
        async with self._alone_with([vm]):
            if self._units.get(vm) is not unit or version not in unit.versions:
                return
            self._unstand({vm: version})
            slot = unit.slot_of(version)
            pes = [pe for pe, element in enumerate(unit.pes) if element.slot == slot]
            await self._activate({vm: 1 - slot}, {vm: pes}, WITHIN_S)
            self._tell(vm, {"version": version, "state": "rolled back", "active": self.active(vm)})

    @asynccontextmanager
    async def _alone_with(self, vms: Iterable[str]) -> AsyncIterator[None]:
        """Excludes other changes of these VMs' firmware in the block; other VMs do not wait."""
        async with AsyncExitStack() as held:
            for vm in sorted(set(vms)):  # always in this order: two rollouts cannot wait for each other
                await held.enter_async_context(self._locks.setdefault(vm, asyncio.Lock()))
            yield

    def _condemn(self, vm: str, version: str, problem: str) -> None:
        """Bars the VM from this image."""
        self._condemned.add((vm, version))
        self._floors.forget(vm, version)
        self._tell(vm, {"version": version, "problem": problem})

    def _refuse_condemned(self, vm: str, version: str) -> None:
        if (vm, version) in self._condemned:
            raise FirmwareError(
                "denied", f"{vm}: firmware {version} killed its worker before; allowed: another version"
            )

    def _stand(self, versions: Mapping[str, str]) -> None:
        """Sets the versions that VMs are to run; from now on the death of a worker is blamed on the change."""
        for vm, version in versions.items():
            self._standing[vm] = Standing(version, self._seconds(), self._unit(vm).active())

    def _unstand(self, versions: Mapping[str, str]) -> None:
        for vm, version in versions.items():
            standing = self._standing.get(vm)
            if standing is None or standing.version != version:
                continue
            del self._standing[vm]
            if standing.before in self._images:
                self._standing[vm] = Standing(standing.before, self._seconds() - PROBATION_S, None)

    async def _activate(self, slots: Mapping[str, int], chosen: Chosen, within_s: float) -> dict[str, Activation]:
        async def one(vm: str) -> Activation:
            try:
                return await self._unit(vm).activate(slots[vm], chosen[vm], within_s)
            except asyncio.CancelledError:
                if vm in self._units:
                    raise
                return Activation((), tuple(chosen[vm]), ())  # its worker died during the change
            except FirmwareError:
                return Activation((), tuple(chosen[vm]), ())

        results = await asyncio.gather(*(one(vm) for vm in chosen))
        return dict(zip(chosen, results, strict=True))

    async def _restore(self, before: Mapping[str, Mapping[int, int]], within_s: float) -> None:
        for vm, slots in before.items():
            unit = self._units.get(vm)
            if unit is None:
                continue
            for slot in set(slots.values()):
                pes = [pe for pe, was in slots.items() if was == slot]
                await self._activate({vm: slot}, {vm: pes}, within_s)

    def _problems(self, failed: Mapping[str, Activation]) -> list[dict[str, Any]]:
        return [
            {"vm": vm, "pe": pe, "text": self._why(vm, pe)} for vm, result in failed.items() for pe in result.failed
        ]

    def _result(self, versions: Mapping[str, str], problems: list[dict[str, Any]], state: str) -> dict[str, Any]:
        detail = {"state": state, "versions": dict(versions), "problems": problems}
        self._tell(None, detail)
        return detail

    def _why(self, vm: str, pe: int) -> str:
        unit = self._units.get(vm)
        return "its worker died" if unit is None else unit.pes[pe].text or "the worker refused"
