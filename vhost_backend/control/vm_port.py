"""What the control interface knows of a VM and may do to it: implemented over the daemon's VMs, and by a fake in tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from vhost_backend.compiler.job import Target
from vhost_backend.control.channel_port import VmChannels
from virtio_proto.control.api import GpuInfo

VmState: TypeAlias = Literal["stopped", "starting", "ready", "recovering", "failed", "migrating"]
MoveState: TypeAlias = Literal["starting", "quiescing", "copying", "restoring", "done", "failed"]


@dataclass(frozen=True, slots=True)
class VmFacts:
    """What is known of a VM now. `gpu` is "" while nothing has been chosen for it, `pes` then 0."""

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
    deadline_ns: int = 10_000_000_000
    quiesced: bool = False
    pes_quota: int = 0
    """How many elements it may be given; 0: as many as it has."""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Everything that its GPU goes by in a selector."""
        return tuple(name for name in (self.gpu, self.gpu_uuid) if name)


class MoveFailedError(Exception):
    """A VM's work cannot be moved so; the text says why."""


class MoveReport(Protocol):
    """How a move goes: `vhost_backend.daemon.migration.MigrationReport`."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def state(self) -> MoveState: ...

    @property
    def ended_ns(self) -> int | None: ...

    @property
    def bytes(self) -> int: ...

    @property
    def paused_ns(self) -> int: ...

    @property
    def text(self) -> str: ...


Progress: TypeAlias = Callable[[MoveReport], None]


class ControlledVm(Protocol):
    """One VM. Its methods are called on the daemon's loop."""

    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> VmChannels: ...

    @property
    def target(self) -> Target:
        """What programs for it are compiled for. Only while it has a worker."""
        ...

    def facts(self) -> VmFacts: ...

    async def reset(self, reason: str) -> None:
        """Replaces its worker; the requests in flight are answered with DEVICE_LOST."""
        ...

    async def migrate(self, gpu: str | None, pes: int | None, progress: Progress) -> MoveReport:
        """Moves its work to a worker on another GPU, or with another number of elements; `progress` sees each step.

        :raise MoveFailedError: it cannot be tried. One that was tried and failed is reported.
        """
        ...

    async def quiesce(self, *, on: bool) -> None:
        """Takes no new requests from now on, or takes them again. Those in flight finish."""
        ...


class Host(Protocol):
    """What the control interface asks of the host."""

    async def gpus(self) -> tuple[GpuInfo, ...]:
        """The GPUs there are, the software GPU too."""
        ...

    async def watch(self, on_xid: Callable[[str, int], None]) -> None:
        """Tells of errors that devices report: UUID and Xid. Returns if there is nothing to watch, else when cancelled."""
        ...
