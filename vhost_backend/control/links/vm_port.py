"""Ports between the control system and the daemon: a VM, the host, and a VM's notices of its workers.

`vhost_backend.daemon.control_adapter` implements them over the daemon's VMs, `tests.fakes.control_vm` for unit tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from vhost_backend.cgroups.limits import USUAL_WEIGHT
from vhost_backend.cgroups.weights import Sharing
from vhost_backend.compiler.job import Target
from vhost_backend.control.links.channel_port import VmChannels
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.worker_protocol.control_messages import ControlSetup
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.marks import Marks
from vhost_backend.worker_protocol.protocol import FunctionFigures
from virtio_proto.control.api import AllotmentState, GpuInfo, LinkPauses, VmOrigin, VmState
from virtio_proto.control.verbs.status import GpuAllotment
from virtio_proto.control.verbs.vms import LimitsInfo, VmChanges

MigrationState: TypeAlias = Literal["starting", "quiescing", "copying", "restoring", "done", "failed"]


class GpuTimeView(Protocol):
    """GPU time of a VM: `vhost_backend.daemon.gpu_gate.GpuTime`."""

    @property
    def used_ns(self) -> int: ...

    @property
    def held_ns(self) -> int: ...

    @property
    def shared_ns(self) -> int: ...

    @property
    def shared_of_ns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class VmFacts:
    """Present facts of a VM. `gpu` is "" and `pes` 0 while that is not known, as no GPU has been chosen for it."""

    vm: str
    uuid: str
    gpu: str
    gpu_uuid: str
    pes: int
    state: VmState
    generation: int
    memory_quota_bytes: int
    memory_used_bytes: int = 0
    requests_done: int = 0
    requests_failed: int = 0
    in_flight: int = 0
    busy_ns: int = 0
    latency: tuple[int, ...] = ()
    """Operations of the engine by latency class (`virtio_proto.control.latency`), of the present worker."""
    memory_peak_bytes: int = 0
    """Most memory that the VM has held in the present worker."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Requests that were not answered with OK, in the present worker, by status."""
    compiling: int = 0
    compilations: Mapping[str, int] = field(default_factory=dict)
    """Programs that all workers asked for, by their end."""
    compile_ns: int = 0
    """Time that these took, from request to answer."""
    cpu_ns: int = 0
    stray_cpu_ns: int = 0
    gpu_time: GpuTimeView | None = None
    """None on engines without a GPU."""
    deadline_ns: int = 10_000_000_000
    usable_pes: int | None = None
    """Number of processing elements that the limits which are enforced let it use; None: all."""
    quiesced: bool = False
    stays: str = ""
    """Reason why the VM can never be migrated; "" if it can."""
    unseen: str = ""
    """Reason why the control system does not see what the VM's kernels do; "" if it does."""
    origin: VmOrigin = "file"
    problem: str = ""
    """Reason why the VM is not served with its settings; "" if it is."""
    ring_problem: str = ""
    """Reason why rings of its guest are not served; "" if they are."""
    allotment: int = 1
    """Number of the limits that the guest is told."""
    acknowledged: int = 0
    """Allotment that the guest says it has taken; 0: it has said nothing."""
    allotment_state: AllotmentState = "unused"
    pending: tuple[str, ...] = ()
    """Limits that were changed and are not enforced yet, or of which the guest was not told yet."""
    exceeded: tuple[str, ...] = ()
    """Limits that were lowered below the VM's use."""
    pes_quota: int = 0
    """Largest number of elements that the VM may be given; 0: the present number."""
    weight: int = USUAL_WEIGHT
    weight_of: Sharing = "thread"
    """Unit that the weight counts for."""
    socket: str = ""
    """Path at which the VM's QEMU connects; "" if the daemon was given the socket itself."""
    cores: str = ""
    """Processors that the VM's elements run on, if they do; "" if the host does not tell."""
    has_own_cores: bool = False
    """True if no other VM runs on them."""
    pauses: tuple[LinkPauses, ...] = ()
    """Links that the daemon left unread at least once, as the worker used up its budget of time."""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Names of the VM's GPU in selectors."""
        return tuple(name for name in (self.gpu, self.gpu_uuid) if name)


@dataclass(frozen=True, slots=True)
class HostResources:
    """Resources of a host, their allotment to its VMs, and what holds VMs to it."""

    gpus: tuple[GpuAllotment, ...]
    undecided: tuple[str, ...]
    """VMs whose GPU is chosen when their frontend connects."""
    memory_bytes: int
    memory_allotted_bytes: int
    overcommit: bool
    cgroup_version: int
    """0: no control groups."""
    no_cgroups: str
    """Reason why the host has none for VMs; "" if it has, or they are off."""


class HostRefusedError(Exception):
    """The host does not do what was asked; the text says why, and what is allowed."""


@dataclass(frozen=True, slots=True)
class ProgramView:
    """Program that a guest has registered for its VM."""

    number: int
    signatures: tuple[str, ...]
    num_functions: int
    is_kept: bool
    size_bytes: int
    problem: str
    """Reason why it did not compile for the present worker; "" if it did."""


class MigrationRefusedError(Exception):
    """A VM cannot be migrated as asked; the text says why."""


class MigrationView(Protocol):
    """Progress of a migration: `vhost_backend.daemon.migration.MigrationReport`."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def state(self) -> MigrationState: ...

    @property
    def ended_ns(self) -> int | None: ...

    @property
    def bytes(self) -> int: ...

    @property
    def paused_ns(self) -> int: ...

    @property
    def text(self) -> str: ...


Progress: TypeAlias = Callable[[MigrationView], None]


class ControlledVm(Protocol):
    """VM, as the control system uses it. Its methods are called on the daemon's event loop."""

    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> VmChannels: ...

    @property
    def target(self) -> Target:
        """Compilation target of the VM's programs. Only while the VM has a worker."""
        ...

    def facts(self) -> VmFacts: ...

    async def reset(self, reason: str) -> None:
        """Replaces the VM's worker; requests in flight are answered with DEVICE_LOST."""
        ...

    async def migrate(self, gpu: str | None, pes: int | None, progress: Progress) -> MigrationView:
        """Migrates the VM to a worker on another GPU, or with another number of elements; `progress` sees each step.

        :raise MigrationRefusedError: the migration cannot be tried. The report says so if one was tried and failed.
        """
        ...

    async def functions(self) -> Sequence[FunctionFigures] | None:
        """Work of the VM by function; None: its worker does not say. Without a worker, no function has any."""
        ...

    def programs(self) -> Sequence[ProgramView]:
        """Programs that the guest has registered, in that order."""
        ...

    async def quiesce(self, *, on: bool) -> None:
        """Stops taking new requests, or takes them again. Requests in flight finish."""
        ...


class Host(Protocol):
    """Host, as the control system uses it."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """VMs that were added to stay and cannot be served, each with the reason."""
        ...

    @property
    def reload_refused(self) -> str:
        """Reason why the configuration, as it was when it was read last, does not count; "" if it does."""
        ...

    async def gpus(self) -> tuple[GpuInfo, ...]:
        """All GPUs of the host, with the software GPU."""
        ...

    async def resources(self) -> HostResources:
        """Resources of the host, and their allotment to its VMs."""
        ...

    async def reload(self, *, now: bool) -> VmChanges:
        """Serves the VMs of the configuration as it is now; VMs that leave lose their frontend if `now`.

        :raise HostRefusedError: the configuration is wrong; then nothing has changed.
        """
        ...

    async def add(self, vm: str, settings: Mapping[str, Any], *, persists: bool) -> VmChanges:
        """Serves one VM more, with settings as in the configuration; after a restart of the daemon again if it `persists`.

        :raise HostRefusedError: the settings are wrong, or the host does not have what they need; then nothing has changed.
        """
        ...

    async def remove(self, vm: str, *, now: bool) -> VmChanges:
        """Serves a VM no more once its frontend has gone, or `now`; forgets one that is left out.

        :raise HostRefusedError: it is the last one, or those that stay cannot be saved.
        """
        ...

    def limits(self, vm: str) -> LimitsInfo:
        """Limits of a VM: configured, told, enforced, used."""
        ...

    async def set_limits(self, vm: str, limits: Mapping[str, int]) -> LimitsInfo:
        """Changes limits of a VM, by name, until the configuration is read again.

        :raise HostRefusedError: the host has not so much, or the VM is to leave; then nothing has changed.
        """
        ...

    async def watch(self) -> None:
        """Publishes `DeviceError` events. Returns if there is no device to watch, else when cancelled."""
        ...


class VmControl(Protocol):
    """Control system of one VM, as the VM informs it of its workers. Called from the event loop; only `begin` may raise."""

    @property
    def area_bytes(self) -> int:
        """Size of the control area that workers share with the daemon."""
        ...

    def begin(self, link: WorkerLink) -> AbstractContextManager[tuple[ControlSetup, tuple[int, ...]]]:
        """The control system's part of a new worker's `Setup`, and its descriptors, which are open in the block.

        :raise OSError: the host has no descriptors or no memory for it.
        """
        ...

    def descriptors(self, link: WorkerLink) -> Mapping[str, HasFileno]:
        """Descriptors that another daemon needs to take a worker over, by name; they stay the control system's."""
        ...

    def resume(self, link: WorkerLink, fds: dict[str, Fd]) -> None:
        """Takes a worker of another daemon over, in place of `begin`, and those of `fds` that are named as in `descriptors`."""
        ...

    def serves(self, link: WorkerLink, num_pes: int, rows: int) -> None:
        """The worker is ready and serves the guest, in place of any earlier worker."""
        ...

    def lost(self, reason: str, fault: str | None, *, died: bool) -> None:
        """The worker is gone and reaped, or did not start; fields as of `Loss`.

        `died`: True if it died by itself, ready or not, and was not ended by the daemon.
        """
        ...

    def drop_others(self) -> None:
        """Workers that ended before they served the guest are gone."""
        ...

    def marked(self, marks: Marks) -> None:
        """A worker says that the guest's programs have marked something. Guest code may have made it up."""
        ...

    def connected(self, on: bool) -> None:
        """A frontend has connected, or has gone."""
        ...
