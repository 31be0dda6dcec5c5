"""Adapters of the daemon's VMs and host to the control system's ports."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, Protocol

from vhost_backend.compiler.job import Target
from vhost_backend.config.control import ControlConfig
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.config.engine import EngineConfig, why_stays
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import DeviceError, GuestMarked, VmConnected, VmDisconnected
from vhost_backend.control.host.gpu_events import GpuWatch
from vhost_backend.control.links.vm_port import (
    HostRefusedError,
    HostResources,
    MigrationRefusedError,
    MigrationView,
    ProgramView,
    Progress,
    VmFacts,
)
from vhost_backend.control.links.worker_channels import WorkerChannels
from vhost_backend.cores import lists
from vhost_backend.daemon.allotment import figures
from vhost_backend.daemon.capacity import Share
from vhost_backend.daemon.engines import Choice, Engines, plain_pes
from vhost_backend.daemon.gpus import Gpu
from vhost_backend.daemon.host_status import Ground, resources
from vhost_backend.daemon.migration import MigrationError
from vhost_backend.daemon.served_vm import ServedVm
from vhost_backend.daemon.vm import Vm
from vhost_backend.errors import VgcError
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.log import get_logger
from vhost_backend.worker_protocol.budgets import TimeBudget
from vhost_backend.worker_protocol.control_messages import ControlSetup
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.marks import MarkBudget, Marks
from vhost_backend.worker_protocol.protocol import FunctionFigures
from virtio_proto.control.api import GpuInfo, LinkPauses, VmOrigin
from virtio_proto.control.verbs.vms import LIMIT_NAMES, LimitFigures, LimitsInfo, UseFigures, VmChanges
from virtio_proto.schema import Status

SOFTWARE_GPU: Final = "cpu"
_SPACE: Final = uuid.UUID("0c0d0d9e-9a4e-5c0f-8d6b-3f1a7f2b6e55")


def _pauses(vm: Vm, channels: WorkerChannels) -> Iterator[LinkPauses]:
    """Links of a VM that were left unread."""
    links: tuple[tuple[Literal["messages", "records"], TimeBudget], ...] = (
        ("messages", vm.link_time),
        ("records", channels.record_time),
    )
    for name, budget in links:
        if budget.pauses:
            yield {"vm": vm.config.name, "link": name, "pauses": budget.pauses, "last_ns": budget.paused_ns}


class DaemonVmControl:
    """Implements `vhost_backend.control.links.vm_port.VmControl`: passes a VM's notices to its channels and to the bus."""

    def __init__(self, name: str, config: ControlConfig, bus: EventBus) -> None:
        self.channels = WorkerChannels(config, get_logger(vm=name))
        self.area_bytes = config.memory_bytes
        self._name = name
        self._bus = bus
        self._mark_budget = MarkBudget()

    def begin(self, link: WorkerLink) -> AbstractContextManager[tuple[ControlSetup, tuple[int, ...]]]:
        return self.channels.begin(link)

    def descriptors(self, link: WorkerLink) -> Mapping[str, HasFileno]:
        return self.channels.descriptors(link)

    def resume(self, link: WorkerLink, fds: dict[str, Fd]) -> None:
        self.channels.resume(link, fds)

    def serves(self, link: WorkerLink, num_pes: int, rows: int) -> None:
        self.channels.serves(link, num_pes, rows)

    def lost(self, reason: str, fault: str | None, *, died: bool) -> None:
        self.channels.lost(reason, fault, died=died)

    def drop_others(self) -> None:
        self.channels.drop_others()

    def marked(self, marks: Marks) -> None:
        dropped = self._mark_budget.take(len(marks.marks), marks.dropped)
        if dropped >= 0:
            self._bus.publish(GuestMarked(self._name, marks.process, marks.name, dropped, marks.marks))

    def connected(self, on: bool) -> None:
        self._bus.publish(VmConnected(self._name) if on else VmDisconnected(self._name))


class DaemonVm:
    """Implements `vhost_backend.control.links.vm_port.ControlledVm`."""

    def __init__(self, served: ServedVm, channels: WorkerChannels, engines: Engines, roster: Roster) -> None:
        self.channels = channels
        self._roster = roster
        self._served = served
        self._vm = served.vm
        self._engines = engines

    @property
    def name(self) -> str:
        return self._vm.config.name

    @property
    def target(self) -> Target:
        choice = self._vm.choice
        assert choice is not None  # it has a worker
        return choice.target

    def facts(self) -> VmFacts:
        vm, stats, cpu_time, done = self._vm, self._vm.stats, self._vm.cpu_time, self._vm.compilations
        choice, place = vm.choice, vm.config.quarters.place
        gpu, gpu_uuid = _gpu_of(vm) if choice is None else _gpu_of_choice(choice)
        facts = VmFacts(
            vm=self.name,
            uuid=str(vm.config.uuid),
            gpu=gpu,
            gpu_uuid=gpu_uuid,
            pes=vm.num_pes or (_pes_of(vm) if choice is None else choice.pes),
            state=vm.state.shown,
            generation=vm.generation,
            allotment=vm.allotment.number,
            acknowledged=vm.allotment.acknowledged,
            allotment_state=vm.allotment_state,
            pending=tuple(_pending(vm)) if vm.is_connected else (),
            memory_quota_bytes=vm.config.quota.memory_bytes,
            pes_quota=vm.config.quota.pes or 0,
            deadline_ns=vm.config.deadline_ns,
            cpu_ns=cpu_time.used_ns,
            stray_cpu_ns=cpu_time.stray_ns,
            gpu_time=None if choice is None or choice.gpu is None else vm.gpu_time,
            quiesced=vm.quiesced,
            compiling=vm.compiling,
            compilations={"compiled": done.compiled, "cached": done.cached, "failed": done.failed},
            compile_ns=done.taken_ns,
            stays=why_stays(vm.config.engine.kind if choice is None else choice.engine),
            unseen="" if choice is None else choice.unseen,
            origin=self._roster.origin(self.name),
            problem=self._served.problem,
            ring_problem=vm.ring_problem,
            usable_pes=vm.allotment.enforced.quota.pes if vm.is_connected else None,
            weight=vm.config.quota.weight,
            weight_of=vm.config.quarters.sharing,
            socket=str(vm.config.socket or ""),
            cores="" if place is None else lists.shown(place.elements),
            has_own_cores=place is not None and place.own is not None,
            pauses=tuple(_pauses(vm, self.channels)),
        )
        if stats is None:
            return facts
        return replace(
            facts,
            exceeded=_exceeded(_use_of(vm), figures(vm.allotment.enforced)) if vm.is_connected else (),
            memory_used_bytes=stats.memory_used_bytes,
            requests_done=stats.requests_done,
            requests_failed=stats.requests_failed,
            in_flight=stats.in_flight,
            busy_ns=stats.busy_ns,
            latency=stats.latency,
            memory_peak_bytes=stats.memory_peak_bytes,
            failures=_by_status(stats.failures),
        )

    async def reset(self, reason: str) -> None:
        await self._vm.replace_worker(reason)

    async def quiesce(self, *, on: bool) -> None:
        await self._vm.quiesce(on=on)

    async def functions(self) -> Sequence[FunctionFigures] | None:
        return await self._vm.functions()

    def programs(self) -> Sequence[ProgramView]:
        registered = self._vm.registrations
        return [
            ProgramView(
                number,
                one.signatures,
                one.num_functions,
                registered.is_kept(number),
                one.size_bytes,
                registered.problem_of(number),
            )
            for number, one in registered
        ]

    async def migrate(self, gpu: str | None, pes: int | None, progress: Progress) -> MigrationView:
        source = self._vm.choice
        if source is None or not self._vm.is_connected:
            raise MigrationRefusedError(f"{self.name} has no guest; allowed: a VM that runs")
        if stays := why_stays(source.engine):  # before a target is looked for, which may be missing for another reason
            raise MigrationRefusedError(stays)
        target = await self._elsewhere(source, gpu, pes)
        try:
            return await self._vm.migrate(target, progress=progress)
        except MigrationError as error:
            raise MigrationRefusedError(str(error)) from None

    async def _elsewhere(self, source: Choice, gpu: str | None, pes: int | None) -> Choice:
        """Chooses the GPU and the elements that a VM migrates to, for the same engine, compiler and driver."""
        config = self._vm.config
        quota = replace(config.quota, pes=source.pes if pes is None else pes)
        if source.gpu is None:
            if gpu not in (None, *_gpu_of_choice(source)):
                raise MigrationRefusedError(
                    f"from the engine {source.engine} to GPU {gpu}; allowed: GPU {source.engine}"
                )
            return await self._engines.choose(replace(config, quota=quota, engine=source.config.engine))
        options = {key: value for key, value in config.engine.options.items() if key != "device"}
        if gpu is not None:
            options["device"] = int(gpu) if gpu.isdecimal() and len(gpu) <= 9 else gpu
        return await self._engines.choose(replace(config, quota=quota, engine=EngineConfig("cuda", options)))


def _gpu_of_choice(choice: Choice) -> tuple[str, str]:
    if choice.gpu is not None:
        return str(choice.gpu.index), choice.gpu.uuid
    return choice.engine, software_gpu_uuid() if choice.engine == SOFTWARE_GPU else ""


def _gpu_in_use(vm: Vm) -> Gpu | None:
    return None if vm.choice is None else vm.choice.gpu


def _gpu_of(vm: Vm) -> tuple[str, str]:
    """GPU of a VM that never had a guest, as far as the configuration says."""
    kind = vm.config.engine.kind
    if kind == SOFTWARE_GPU:
        return SOFTWARE_GPU, software_gpu_uuid()
    return ("null", "") if kind == "null" else ("", "")


def _pes_of(vm: Vm) -> int:
    """Processing elements of a VM that never had a guest; 0: its engine is not known."""
    return plain_pes(vm.config) if vm.config.engine.kind in (SOFTWARE_GPU, "null") else vm.config.quota.pes or 0


def software_gpu_uuid() -> str:
    """UUID of this host's software GPU, the same in every run."""
    return f"CPU-{uuid.uuid5(_SPACE, socket.gethostname())}"


class Reload(Protocol):
    """Effects of a changed configuration: `vhost_backend.daemon.server.Reload`."""

    @property
    def added(self) -> tuple[str, ...]: ...

    @property
    def removed(self) -> tuple[str, ...]: ...

    @property
    def changed(self) -> tuple[str, ...]: ...

    @property
    def live(self) -> tuple[str, ...]: ...

    @property
    def later(self) -> Mapping[str, list[str]]: ...

    @property
    def waiting(self) -> tuple[str, ...]: ...


class Roster(Protocol):
    """VMs that come and go: `vhost_backend.daemon.server.Daemon`."""

    @property
    def vms(self) -> Mapping[str, Vm]: ...

    @property
    def config(self) -> DaemonConfig:
        """Present configuration, with the VMs that were added beside it."""
        ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """VMs that are to outlast the daemon and cannot be served, each with the reason."""
        ...

    @property
    def reload_refused(self) -> str:
        """Reason why the configuration, as it was when it was read last, does not count; "" if it does."""
        ...

    async def reload_file(self, *, now: bool) -> Reload:
        """:raise VgcError: the configuration cannot be used; then nothing has changed."""
        ...

    async def add(self, name: str, settings: Mapping[str, Any], *, persists: bool) -> Reload:
        """:raise VgcError: the VM cannot be served with these settings; then nothing has changed."""
        ...

    def origin(self, name: str) -> VmOrigin:
        """Place from which a VM comes."""
        ...

    async def remove(self, name: str, *, now: bool) -> Reload:
        """:raise VgcError: it is the last one."""
        ...

    def configured(self, name: str) -> VmConfig:
        """Settings that count from the VM's next frontend on, at the latest."""
        ...

    async def set_limits(self, name: str, limits: Mapping[str, int]) -> None:
        """:raise VgcError: the host has not so much, or the VM is to leave; then nothing has changed."""
        ...


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except VgcError as error:
        raise HostRefusedError(str(error)) from None


def _changes(done: Reload) -> VmChanges:
    return {
        "added": list(done.added),
        "removed": list(done.removed),
        "changed": list(done.changed),
        "live": list(done.live),
        "later": dict(done.later),
        "waiting": list(done.waiting),
    }


def _use_of(vm: Vm) -> UseFigures:
    stats = vm.stats
    return {
        "memory_bytes": 0 if stats is None else stats.memory_used_bytes,
        "queue_depth": 0 if stats is None else stats.in_flight,
        "contexts": 0 if stats is None else stats.num_contexts,
    }


def _by_status(failures: Sequence[int]) -> dict[str, int]:
    """Counts by the names of statuses, without those that are 0."""
    return {Status(number).name.lower(): count for number, count in enumerate(failures) if count}


def _exceeded(used: UseFigures, limits: LimitFigures) -> tuple[str, ...]:
    """Limits below the use."""
    return tuple(name for name, count in used.items() if count > limits[name])  # type: ignore[literal-required]  # its keys


def _limits_info(vm: Vm, configured: VmConfig) -> LimitsInfo:
    present = figures(vm.config if vm.is_connected else configured)
    told = figures(vm.allotment.told if vm.is_connected else configured)
    limits = figures(vm.allotment.enforced if vm.is_connected else configured)
    told["weight"] = present["weight"]  # of which neither guest nor worker knows
    holds_now = (
        vm.is_connected or vm.config.quota.weight == configured.quota.weight
    )  # else a VM with these takes its place
    if holds_now and _gpu_in_use(vm) is None:
        limits["weight"] = vm.config.quarters.reached_weight
    else:
        limits["weight"] = present["weight"]
    used = _use_of(vm)
    return {
        "vm": vm.config.name,
        "configured": figures(configured),
        "told": told,
        "enforced": limits,
        "used": used,
        "pending": _pending(vm) if vm.is_connected else [],
        "later": _different(figures(configured), present),
        "exceeded": list(_exceeded(used, limits)),
        "allotment": vm.allotment.number,
        "acknowledged": vm.allotment.acknowledged or None,
        "allotment_state": vm.allotment_state,
    }


def _pending(vm: Vm) -> list[str]:
    """Limits that were changed and are not enforced yet, or of which the guest was not told yet."""
    allotment, present = vm.allotment, figures(vm.config)
    late = {*_different(present, figures(allotment.told)), *_different(present, figures(allotment.enforced))}
    return [name for name in LIMIT_NAMES if name in late and name != "weight"]  # of which guest and worker know nothing


def _different(one: LimitFigures, other: LimitFigures) -> list[str]:
    return [name for name in LIMIT_NAMES if one[name] != other[name]]  # type: ignore[literal-required]  # its keys


class DaemonHost:
    """Implements `vhost_backend.control.links.vm_port.Host`."""

    def __init__(self, roster: Roster, engines: Engines, bus: EventBus, ground: Ground) -> None:
        self._roster = roster
        self._ground = ground
        self._engines = engines
        self._bus = bus
        self._watch: GpuWatch | None = None

    async def gpus(self) -> tuple[GpuInfo, ...]:
        """The software GPU, and the GPUs that the drivers of VMs with a CUDA engine see."""
        found: dict[str, GpuInfo] = {"": _software_gpu()}
        for vm in list(self._roster.vms.values()):
            if vm.config.engine.kind in ("auto", "cuda"):
                survey = await self._engines.survey(vm.config.engine)
                found |= {gpu.uuid: self._info(gpu, survey.driver_version) for gpu in survey.gpus}
        return tuple(found.values())

    async def resources(self) -> HostResources:
        shares = [Share(self._roster.configured(name), _gpu_in_use(vm)) for name, vm in self._roster.vms.items()]
        return resources(self._ground, shares, await self.gpus(), overcommit=self._roster.config.overcommit)

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._roster.left_out

    @property
    def reload_refused(self) -> str:
        return self._roster.reload_refused

    async def reload(self, *, now: bool) -> VmChanges:
        with _refusals():
            return _changes(await self._roster.reload_file(now=now))

    async def add(self, vm: str, settings: Mapping[str, Any], *, persists: bool) -> VmChanges:
        with _refusals():
            return _changes(await self._roster.add(vm, settings, persists=persists))

    async def remove(self, vm: str, *, now: bool) -> VmChanges:
        with _refusals():
            return _changes(await self._roster.remove(vm, now=now))

    def limits(self, vm: str) -> LimitsInfo:
        return _limits_info(self._roster.vms[vm], self._roster.configured(vm))

    async def set_limits(self, vm: str, limits: Mapping[str, int]) -> LimitsInfo:
        with _refusals():
            await self._roster.set_limits(vm, limits)
        return self.limits(vm)

    async def watch(self) -> None:
        log = get_logger()
        if len(await self.gpus()) < 2:  # the software GPU alone, which reports no errors
            return
        self._watch = GpuWatch(
            lambda gpu_uuid, xid: self._bus.publish(DeviceError(gpu_uuid, xid)),
            lambda problem: log.warning("gpus_not_watched", problem=problem),
        )
        try:
            await self._watch.start()
            await asyncio.get_running_loop().create_future()
        finally:
            await self._watch.close()

    def _info(self, gpu: Gpu, cuda_version: str) -> GpuInfo:
        versions = None if self._watch is None else self._watch.versions
        own = None if versions is None else versions.of(gpu.uuid)
        info = _gpu_info(gpu, f"CUDA {cuda_version}" if versions is None else versions.driver)
        if own is not None:
            info["vbios_version"] = own.vbios_version
            info["pci_bus_id"] = own.pci_bus_id
        return info


def _software_gpu() -> GpuInfo:
    return {
        "gpu": SOFTWARE_GPU,
        "uuid": software_gpu_uuid(),
        "name": "software GPU on the host's processors",
        "kind": "cpu",
        "pes": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "arch": os.uname().machine,
    }


def _gpu_info(gpu: Gpu, driver_version: str) -> GpuInfo:
    return {
        "gpu": str(gpu.index),
        "uuid": gpu.uuid,
        "name": gpu.name,
        "kind": "cuda",
        "pes": gpu.num_pes,
        "memory_bytes": gpu.memory_bytes,
        "arch": gpu.arch,
        "driver_version": driver_version,
    }
