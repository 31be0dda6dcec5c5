"""A VM of the control system without a worker: its channels do what a test says, and note each command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs

from tests.fakes.vm_limits import limits_info
from vhost_backend.compiler.job import Target
from vhost_backend.control.links.channel_port import (
    AgainError,
    Batch,
    Binding,
    ChannelError,
    DeviceClock,
    ElementFigures,
    ElementState,
    Listener,
    Loss,
    WorkerGoneError,
)
from vhost_backend.control.links.vm_port import (
    HostRefusedError,
    HostResources,
    MigrationRefusedError,
    MigrationView,
    ProgramView,
    Progress,
    VmFacts,
)
from vhost_backend.daemon.migration import MigrationReport
from vhost_backend.worker_protocol.control_messages import Terms
from vhost_backend.worker_protocol.protocol import FunctionFigures
from virtio_proto.control import records
from virtio_proto.control.api import GpuInfo
from virtio_proto.control.records import Function, Level, Record
from virtio_proto.control.verbs.status import GpuAllotment
from virtio_proto.control.verbs.vms import LimitsInfo, VmChanges

CLOCK_NS: Final = 1_000_000


@dataclass(frozen=True)
class Bound:
    """The fake worker's view of a channel."""

    terms: Terms
    binding: Binding

    @property
    def function(self) -> Function:
        return Function(self.terms.function)


class FakeChannels:
    """Fake `VmChannels` of a VM with `num_pes` elements. `refuse` makes commands fail, `hold` delays them."""

    def __init__(self, num_pes: int = 4, *, ready: bool = True) -> None:
        self.bound: dict[int, Bound] = {}
        self.told: list[tuple[Any, ...]] = []
        self.refuse: dict[str, str] = {}
        self.full: set[tuple[str, Any]] = set()
        """Commands and channels, as ``("send", 3)``, that are answered with "busy" now."""
        self.hold: asyncio.Event | None = None
        self.states: list[ElementState] = []
        self._num_pes = num_pes
        self._ready = ready
        self._listener: Listener | None = None
        self._sequence: dict[int, int] = {}

    # ---- the port --------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def num_pes(self) -> int:
        return self._num_pes if self._ready else 0

    async def _do(self, command: str, *what: Any) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if not self._ready:
            raise WorkerGoneError("there is no worker")
        if command in self.refuse:
            raise ChannelError(self.refuse[command])
        if what and (command, what[0]) in self.full:
            raise AgainError("no room")
        self.told.append((command, *what))

    async def open(self, terms: Terms, bindings: Sequence[Binding]) -> None:
        await self._do("open", terms, tuple(bindings))
        for binding in bindings:
            assert binding.channel not in self.bound, "a number that is in use"
            self.bound[binding.channel] = Bound(terms, binding)

    async def close(self, channels: Sequence[int]) -> None:
        await self._do("close", tuple(channels))
        for channel in channels:
            del self.bound[channel]

    async def set(self, channels: Sequence[int], level: int, sample: int) -> None:
        await self._do("set", tuple(channels), level, sample)
        for channel in channels:
            bound = self.bound[channel]
            self.bound[channel] = replace(bound, terms=structs.replace(bound.terms, level=level, sample=sample))

    async def send(self, channel: int, data: bytes, *, eof: bool) -> None:
        await self._do("send", channel, data, eof)

    async def threshold(self, pes: Sequence[int], name: str, low: float, high: float) -> None:
        await self._do("threshold", tuple(pes), name, low, high)

    async def snapshot(self, deadline_ms: int) -> Sequence[ElementState]:
        await self._do("snapshot", deadline_ms)
        return self.states

    async def confine(self, pes: Sequence[int]) -> None:
        await self._do("confine", tuple(pes))

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        await self._do("stage_firmware", slot, version, os.pread(image_fd, 1 << 20, 0))

    async def activate_firmware(self, slot: int, pes: Sequence[int]) -> None:
        await self._do("activate_firmware", slot, tuple(pes))

    # ---- actions of the worker -------------------------------------------------------------------

    @property
    def listener(self) -> Listener:
        assert self._listener is not None, "no listener is set"
        return self._listener

    def lose(self, reason: str = "killed", fault: str | None = None, *, died: bool = True) -> None:
        self._ready = False
        self._sequence.clear()  # the next worker counts anew
        self.bound.clear()
        self.listener.on_lost(Loss(reason, fault, died))

    def come(self, num_pes: int | None = None) -> None:
        """Reports that a worker is ready."""
        self._num_pes = num_pes or self._num_pes
        self._ready = True
        self.listener.on_ready(self._num_pes)

    def on(self, pe: int, function: Function) -> Bound:
        """The channel of an element's function."""
        return next(b for b in self.bound.values() if b.binding.pe == pe and b.function == function)

    def emit(self, pe: int, *batch: Record, lost: int = 0, texts: Mapping[int, str] | None = None) -> None:
        """Pushes records of one element, all of one function."""
        binding = self.on(pe, batch[0].function).binding
        count = self._sequence[binding.channel] = self._sequence.get(binding.channel, 0) + len(batch)
        if texts:
            self.listener.on_texts(texts)
        data = b"".join(records.pack(record) for record in batch)
        self.listener.on_batch(Batch(binding.channel, binding.generation, count, lost, 0, 0, 500, CLOCK_NS, data))

    def number(self, num_pes: int, clock: DeviceClock) -> None:
        """Reports up to where the device numbers its elements."""
        self._num_pes = max(self._num_pes, num_pes)
        self.listener.on_device(clock, num_pes)

    def figure(self, time_ns: int, *figures: ElementFigures) -> None:
        self.listener.on_figures(time_ns, figures)


class FakeControlledVm:
    """Fake `ControlledVm` over fake channels."""

    def __init__(self, name: str, num_pes: int = 4, *, ready: bool = True, gpu: str = "cpu") -> None:
        self.channels = FakeChannels(num_pes, ready=ready)
        self.gpu = gpu
        self.resets: list[str] = []
        self.quiesced = False
        self.move_problem = ""
        self.stays = ""
        self.work: Sequence[FunctionFigures] | None = ()
        self.registered: Sequence[ProgramView] = ()
        """Work by function; None: the worker does not say."""
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def target(self) -> Target:
        return Target("cpu")

    def facts(self) -> VmFacts:
        ready = self.channels.ready
        return VmFacts(
            vm=self._name,
            uuid="00000000-0000-0000-0000-000000000000",
            gpu=self.gpu,
            gpu_uuid=f"GPU-{self.gpu}" if self.gpu else "",
            pes=self.channels.num_pes,
            state="ready" if ready else "stopped",
            generation=1,
            memory_quota_bytes=1 << 28,
            quiesced=self.quiesced,
            stays=self.stays,
        )

    async def functions(self) -> Sequence[FunctionFigures] | None:
        return self.work

    def programs(self) -> Sequence[ProgramView]:
        return self.registered

    async def reset(self, reason: str) -> None:
        self.resets.append(reason)

    async def migrate(self, gpu: str | None, pes: int | None, progress: Progress) -> MigrationView:
        if self.move_problem:
            raise MigrationRefusedError(self.move_problem)
        progress(MigrationReport(self._name, self.gpu, gpu or self.gpu, "copying", 1))
        target = gpu or f"{pes} elements"
        report = MigrationReport(self._name, self.gpu, target, "done", 1, ended_ns=2, bytes=64, paused_ns=9)
        self.gpu = gpu or self.gpu
        return report

    async def quiesce(self, *, on: bool) -> None:
        self.quiesced = on


class FakeHost:
    """A host whose only device is the software GPU, and whose configuration has a new VM whenever it is read."""

    def __init__(self) -> None:
        self.problem = ""
        self.asked: list[tuple[str, bool]] = []
        """VMs that were to be added or removed, "" for a reload, and whether now."""
        self.added: dict[str, tuple[Mapping[str, Any], bool]] = {}
        """Settings of the VMs that were added, and whether they persist."""
        self.no_cgroups = ""
        self.given: dict[str, int] = {}
        """Limits that were set."""
        self.left_out: dict[str, str] = {}
        self.reload_refused = ""

    async def reload(self, *, now: bool) -> VmChanges:
        return self._changes("", now=now, added=["new"])

    async def add(self, vm: str, settings: Mapping[str, Any], *, persists: bool) -> VmChanges:
        done = self._changes(vm, now=False, added=[vm])
        self.added[vm] = (settings, persists)
        return done

    async def remove(self, vm: str, *, now: bool) -> VmChanges:
        return self._changes(vm, now=now, removed=[vm])

    async def resources(self) -> HostResources:
        gpu: GpuAllotment = {
            "gpu": "cpu",
            "pes": 4,
            "pes_allotted": 2,
            "vms": 2,
            "sharing": 1,
            "memory_bytes": 1 << 34,
            "memory_allotted_bytes": 1 << 29,
        }
        return HostResources(
            (gpu,), ("web2",), 1 << 34, 1 << 30, overcommit=True, cgroup_version=0, no_cgroups=self.no_cgroups
        )

    def limits(self, vm: str) -> LimitsInfo:
        return limits_info(vm, self.given)

    async def set_limits(self, vm: str, limits: Mapping[str, int]) -> LimitsInfo:
        if self.problem:
            raise HostRefusedError(self.problem)
        self.given = {**self.given, **limits}
        return limits_info(vm, self.given)

    def _changes(self, vm: str, *, now: bool, added: Sequence[str] = (), removed: Sequence[str] = ()) -> VmChanges:
        if self.problem:
            raise HostRefusedError(self.problem)
        self.asked.append((vm, now))
        return {"added": list(added), "removed": list(removed), "changed": [], "waiting": [] if now else list(removed)}

    async def watch(self) -> None:
        """Does nothing: no device is watched."""

    async def gpus(self) -> tuple[GpuInfo, ...]:
        return ({"gpu": "cpu", "uuid": "GPU-cpu", "name": "software GPU", "kind": "cpu", "pes": 4, "memory_bytes": 1},)


def text(pe: int, said: str, level: int = Level.INFO, function: Function = Function.STDIO, kind: int = 1) -> Record:
    """Makes a record with a text."""
    return Record(1000, function, level, kind, pe, 0, 0, 0, said.encode())
