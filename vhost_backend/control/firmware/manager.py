"""Firmware management of one host: checks, compiles and stages images, activates them a few elements first, rolls back.

Evidence about an image comes from workers, in which guest code runs and may forge it. So the evidence of a VM counts for
that VM alone and bars nothing: an element whose self test fails, or whose hook faults, goes back with the others of its
worker, and the image may be activated again. The death of a worker is no evidence at all, as guest code can die at any
moment: the next worker takes the version that was activated last. Only people take that back.

Another daemon finds images, standing versions and floors at the keeper. Of the firmware that a worker has, it finds there
what its daemon knew last; the worker itself tells what has come of changes that were under way.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from vhost_backend.compiler.service import Compiler
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FirmwareChanged, FirmwareReported, FirmwareTold, WorkerLost, WorkerReady
from vhost_backend.control.firmware import build, signing
from vhost_backend.control.firmware.floors import VersionFloors
from vhost_backend.control.firmware.records import FloorRecord, ImageRecord, StandingRecord, UnitRecord
from vhost_backend.control.firmware.unit import Activation, Unit
from vhost_backend.control.links.firmware import Elements, FirmwareError, FirmwareFound
from vhost_backend.fds import Fd
from vhost_backend.keeper.client import Kept
from vhost_backend.keeper.record import Record, unpack
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import get_logger
from vhost_backend.sandbox import memfd
from virtio_proto.control.api import FirmwareImage, FirmwareInfo, FirmwareProblem
from virtio_proto.control.firmware import MAX_BYTES, Image, ImageError
from virtio_proto.schema import ProgramKind

MAX_IMAGES: Final = 16
_CLIENT: Final = "control system"
"""Name under which firmware is compiled; no VM can have it, as it contains a space."""
WITHIN_S: Final = 5.0
"""Time that processing elements have to come to a poll point."""
SOON_S: Final = 10.0
"""Time after a change in which the death of a worker is told beside the change."""

Chosen: TypeAlias = Mapping[str, Sequence[int]]
"""Elements by VM."""


@dataclass(slots=True)
class Staged:
    """Image that this host has accepted."""

    image: Image
    staged_ns: int
    engines: set[str]

    def record(self) -> ImageRecord:
        return ImageRecord(self.staged_ns, tuple(sorted(self.engines)))


@dataclass(slots=True)
class Standing:
    """Version that a VM's processing elements are to run, in this worker and in later ones."""

    version: str
    since_s: float
    before: str | None


@dataclass(slots=True)
class _Adoption:
    """Worker of an earlier daemon, until it has told of its firmware."""

    record: UnitRecord
    found: FirmwareFound | None = None
    told: asyncio.Event = field(default_factory=asyncio.Event)


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
        shelf: Shelf | None = None,
    ) -> None:
        """`shelf`: of firmware at the keeper; None: all of it ends with the daemon."""
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
        self._floors = VersionFloors(self._built_in)
        self._locks: dict[str, asyncio.Lock] = {}
        self._shelf = shelf or Shelf("firmware")
        self._generations: dict[str, int] = {}
        self._adoptions: dict[str, _Adoption] = {}
        self._read()
        bus.subscribe(FirmwareTold, self._told)
        bus.subscribe(WorkerReady, self._worker_ready)
        bus.subscribe(WorkerLost, self._worker_lost)
        bus.subscribe(FirmwareReported, self._reported)

    # ---- workers come and go -----------------------------------------------------------------------

    def _worker_ready(self, event: WorkerReady) -> None:
        """Manages the elements of a new worker."""
        vm = event.vm
        elements = self._elements_of(vm)
        if elements.num_pes == 0:
            return  # the worker is gone again
        unit = self._units[vm] = Unit(elements, self._built_in)
        self._generations[vm] = event.generation
        adoption = self._adoptions.get(vm)
        if adoption is not None and adoption.record.generation == event.generation:
            unit.restore(adoption.record)
            self._tasks.spawn(self._adopt(unit, adoption))
            return
        self._adoptions.pop(vm, None)
        if vm in self._standing:
            self._tasks.spawn(self._take(unit))

    def _told(self, event: FirmwareTold) -> None:
        adoption = self._adoptions.get(event.vm)
        if adoption is not None:
            adoption.found = event.found
            adoption.told.set()

    async def _adopt(self, unit: Unit, adoption: _Adoption) -> None:
        """Brings the firmware of an earlier daemon's worker up to date, which nobody changes before that."""
        vm = unit.elements.vm
        async with self._alone_with([vm]):
            with suppress(TimeoutError):  # its control system has failed
                async with asyncio.timeout(WITHIN_S):
                    await adoption.told.wait()
            if self._units.get(vm) is not unit:
                return
            del self._adoptions[vm]
            gone = set() if adoption.found is None else unit.correct(adoption.found)
            for version in gone & self._images.keys() - unit.left:
                self._go_back(unit, version, next(element.text for element in unit.pes if element.text))
            if (standing := self._standing.get(vm)) is not None and standing.version in gone:
                self._unstand({vm: standing.version})
            self._keep(vm)

    async def _take(self, unit: Unit) -> None:
        """Brings a new worker's elements to the firmware that the VM is to run."""
        vm = unit.elements.vm
        async with self._alone_with([vm]):
            standing = self._standing.get(vm)
            if standing is None or standing.version not in self._images or self._units.get(vm) is not unit:
                return
            version = standing.version
            try:
                await self._stage_on(unit, self._images[version])
            except FirmwareError as error:
                self._tell(vm, {"version": version, "problem": str(error)})
                return
            slots, chosen = {vm: unit.slot_of(version)}, {vm: range(len(unit.pes))}
            done = (await self._activate(slots, chosen, WITHIN_S))[vm]
            if not done.failed:
                self._floors.raise_to(vm, version)
            self._keep(vm)
        if not done.failed:
            return
        if not done.died:  # a death is told as such
            pe = done.failed[0]
            self._tell(
                vm, {"version": version, "problem": f"element {pe} of the new worker: {self._why(vm, pe, done)}"}
            )

    def _worker_lost(self, event: WorkerLost) -> None:
        """Forgets a VM's elements; the next worker takes the version that stands."""
        vm = event.vm
        unit = self._units.pop(vm, None)
        self._adoptions.pop(vm, None)
        if unit is not None:
            unit.lose()
        self._keep(vm)
        standing = self._standing.get(vm)
        if standing is None or not event.loss.died or self._seconds() - standing.since_s > SOON_S:
            return
        what = (
            f"the worker died within {SOON_S:g} s of the change, which is not held against the image, as guest code can "
            "die at any time: vgcctl fault ls says what it died of"
        )
        self._tell(vm, {"version": standing.version, "problem": what})

    def _reported(self, event: FirmwareReported) -> None:
        """Has all elements of a worker go back from an image that one of them has gone back from by itself."""
        vm, report = event.vm, event.report
        unit = self._units.get(vm)
        version = None if unit is None else unit.reported(report)
        if unit is None or version is None or version not in self._images or version in unit.left:
            return  # a hostile worker may report this for any element, any number of times
        self._go_back(unit, version, f"element {report.pe}: {unit.pes[report.pe].text}")
        self._keep(vm)

    def _go_back(self, unit: Unit, version: str, problem: str) -> None:
        unit.left.add(version)
        self._tell(unit.elements.vm, {"version": version, "problem": problem})
        self._tasks.spawn(self._leave(unit, version))

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left: a new VM of its name starts with the built-in version."""
        self._units.pop(vm, None)
        self._standing.pop(vm, None)
        self._floors.forget_vm(vm)
        self._adoptions.pop(vm, None)
        self._keep(vm)
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
                if version not in unit.versions:
                    await self._stage_on(unit, staged)
            self._images[version] = staged
            self._keep_image(staged)
            for vm in vms:
                self._keep(vm)
        self._tell(None, {"staged": version, "vms": list(vms), "forced": force})
        return {"version": version, "vms": list(vms)}

    async def activate(self, version: str, chosen: Chosen, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Changes elements to a staged version: first one of each VM, and the VM's others if that succeeds.

        A VM where it fails goes back, for itself.

        :raise FirmwareError: a VM does not have the version. Failures on elements are in the result.
        """
        return await self._change(dict.fromkeys(chosen, version), chosen, within_s)

    async def roll_back(self, chosen: Chosen, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Changes elements to the version in their other slot, which has run on the VM before.

        A VM without a worker, whose workers may die of the image, has its next one begin with the version from before.

        :raise FirmwareError: the slot is empty, or its version was staged and never ran.
        """
        targets, waiting = dict[str, str](), dict[str, str]()
        for vm, pes in chosen.items():
            if vm not in self._units and vm in self._standing:
                waiting[vm] = self._standing[vm].version
                continue
            unit = self._unit(vm)
            slots = {1 - unit.pes[pe].slot for pe in pes}
            version = unit.versions[slots.pop()] if len(slots) == 1 else None
            if version is None:
                raise FirmwareError("busy", f"{vm}: elements without another version, or with different ones")
            if version not in unit.proven:
                raise FirmwareError("busy", f"{vm} never ran {version}; allowed: activate it, or a version that ran")
            targets[vm] = version
        self._unstand(waiting)
        for vm in waiting:
            self._keep(vm)
        return await self._change(targets, {vm: chosen[vm] for vm in targets}, within_s)

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
        if known is None:
            self._make_room()
        return known or Staged(image, self._clock_ns(), set())

    def _make_room(self) -> None:
        """Forgets the oldest image that no VM has, if there are as many as allowed.

        :raise FirmwareError: VMs have all of them.
        """
        if len(self._images) < MAX_IMAGES:
            return
        used = {version for unit in self._units.values() for version in unit.versions}
        for standing in self._standing.values():
            used |= {standing.version, standing.before}
        unused = next((version for version in self._images if version not in used), None)
        if unused is None:
            text = f"VMs have {MAX_IMAGES} images; allowed: no more, until one of them is on no VM any more"
            raise FirmwareError("quota", text)
        del self._images[unused]
        self._shelf.set({f"image/{unused}": None})

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
        slots = {vm: self._unit(vm).slot_of(version) for vm, version in versions.items()}
        before = {vm: {pe: self._unit(vm).pes[pe].slot for pe in pes} for vm, pes in chosen.items()}
        for vm, version in versions.items():
            self._unit(vm).left.discard(version)
        self._stand(versions)
        for vm in versions:
            self._keep(vm)
        left, problems = dict(chosen), list[FirmwareProblem]()
        for part in (slice(0, 1), slice(1, None)):
            done = await self._activate(slots, {vm: pes[part] for vm, pes in left.items()}, within_s)
            failed = {vm: result for vm, result in done.items() if result.failed}
            problems += self._problems(failed)
            for vm, result in failed.items():
                del left[vm]
                if not result.died:  # else the next worker takes the image
                    self._unstand({vm: versions[vm]})
                    await self._replace_hung(vm, versions[vm], result)
                    await self._restore({vm: before[vm]}, within_s)
        for vm in left:
            self._floors.raise_to(vm, versions[vm])
        for vm in left.keys() & self._standing.keys():
            self._standing[vm].since_s = self._seconds()
        for vm in versions:
            self._keep(vm)
        return self._result(versions, problems, "rolled back" if problems else "active")

    async def _replace_hung(self, vm: str, version: str, done: Activation) -> None:
        """Replaces a VM's worker if an element of it does not return from its self test."""
        unit = self._units.get(vm)
        if done.hung and unit is not None:
            pe = done.hung[0]
            await unit.elements.replace_worker(f"firmware {version}: element {pe}: {unit.pes[pe].text}")

    async def _leave(self, unit: Unit, version: str) -> None:
        """Rolls back all elements of a worker from an image that has died on one of them."""
        vm = unit.elements.vm
        async with self._alone_with([vm]):
            if self._units.get(vm) is not unit or version not in unit.versions:
                return
            slot = unit.slot_of(version)
            pes = [pe for pe, element in enumerate(unit.pes) if element.slot == slot]
            await self._activate({vm: 1 - slot}, {vm: pes}, WITHIN_S)
            self._keep(vm)
            self._tell(vm, {"version": version, "state": "rolled back", "active": self.active(vm)})

    # ---- at the keeper ---------------------------------------------------------------------------

    def _keep(self, vm: str) -> None:
        """Leaves the firmware of a VM with the keeper, as far as it has changed."""
        unit, standing, ran = self._units.get(vm), self._standing.get(vm), self._floors.ran(vm)
        wanted: dict[str, Record | None] = {
            f"unit/{vm}": None if unit is None else unit.record(self._generations[vm]),
            f"standing/{vm}": None
            if standing is None
            else StandingRecord(standing.version, standing.since_s, standing.before),
            f"floor/{vm}": FloorRecord(ran) if ran else None,
        }
        self._shelf.set(wanted)

    def _keep_image(self, staged: Staged) -> None:
        if self._shelf.is_kept:
            key = f"image/{staged.image.manifest.version}"
            with Fd(memfd.sealed("vgc-image", staged.image.signed + staged.image.signature)) as file:
                self._shelf.set({key: staged.record()}, {key: file})

    def _read(self) -> None:
        """Reads what an earlier daemon has left."""
        for key, entry in self._shelf.take().items():
            kind, _, name = key.partition("/")
            match kind:
                case "image":
                    self._read_image(name, entry)
                case "standing":
                    told = unpack(entry.blob, StandingRecord)
                    self._standing[name] = Standing(told.version, told.since_s, told.before)
                case "floor":
                    for version in unpack(entry.blob, FloorRecord).ran:
                        self._floors.raise_to(name, version)
                case "unit":
                    self._adoptions[name] = _Adoption(unpack(entry.blob, UnitRecord))

    def _read_image(self, version: str, entry: Kept) -> None:
        record = unpack(entry.blob, ImageRecord)
        assert entry.fd is not None
        with entry.fd as file:
            data = memfd.read(file.fileno(), MAX_BYTES)
        try:
            image = signing.verify(data, self._keys)
        except ImageError as error:  # its key has been withdrawn
            get_logger().warning("firmware_left_out", version=version, why=str(error))
            self._shelf.set({f"image/{version}": None})
            return
        self._images[version] = Staged(image, record.staged_ns, set(record.engines))

    # ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone_with(self, vms: Iterable[str]) -> AsyncIterator[None]:
        """Excludes other changes of these VMs' firmware in the block; other VMs do not wait."""
        async with AsyncExitStack() as held:
            for vm in sorted(set(vms)):  # always in this order: two rollouts cannot wait for each other
                await held.enter_async_context(self._locks.setdefault(vm, asyncio.Lock()))
            yield

    def _stand(self, versions: Mapping[str, str]) -> None:
        """Sets the versions that VMs are to run, also in their next workers."""
        for vm, version in versions.items():
            self._standing[vm] = Standing(version, self._seconds(), self._unit(vm).active())

    def _unstand(self, versions: Mapping[str, str]) -> None:
        for vm, version in versions.items():
            standing = self._standing.get(vm)
            if standing is None or standing.version != version:
                continue
            del self._standing[vm]
            if standing.before in self._images:
                self._standing[vm] = Standing(standing.before, self._seconds() - SOON_S, None)

    async def _activate(self, slots: Mapping[str, int], chosen: Chosen, within_s: float) -> dict[str, Activation]:
        async def one(vm: str) -> Activation:
            unit = self._units.get(vm)
            done = Activation((), tuple(chosen[vm]), ())
            try:
                done = await self._unit(vm).activate(slots[vm], chosen[vm], within_s)
            except asyncio.CancelledError:
                if self._units.get(vm) is unit:
                    raise
            except FirmwareError:
                pass
            died = unit is None or self._units.get(vm) is not unit
            return Activation((), tuple(chosen[vm]), (), died=True) if died else done

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

    def _problems(self, failed: Mapping[str, Activation]) -> list[FirmwareProblem]:
        return [
            {"vm": vm, "pe": pe, "text": self._why(vm, pe, result)}
            for vm, result in failed.items()
            for pe in result.failed
        ]

    def _result(self, versions: Mapping[str, str], problems: list[FirmwareProblem], state: str) -> dict[str, Any]:
        detail = {"state": state, "versions": dict(versions), "problems": problems}
        self._tell(None, detail)
        return detail

    def _why(self, vm: str, pe: int, done: Activation) -> str:
        if done.died:
            return "its worker died, and the next one takes the version"
        unit = self._units.get(vm)
        return (unit is not None and unit.pes[pe].text) or "the worker refused"
