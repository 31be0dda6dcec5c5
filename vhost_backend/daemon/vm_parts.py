"""Parts of a VM that its sides share, and what outlasts its frontends and workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import VmConfig
from vhost_backend.control.links.vm_port import VmControl
from vhost_backend.daemon.allotment import Allotment
from vhost_backend.daemon.compile_relay import CompileCounts
from vhost_backend.daemon.config_space import ConfigSpace
from vhost_backend.daemon.cpu_account import CpuTime
from vhost_backend.daemon.engines import Choice, Engines
from vhost_backend.daemon.fair_shares import FairShares
from vhost_backend.daemon.gpu_gate import GpuTime
from vhost_backend.daemon.guest_region import GuestRegion
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.keeping import VmKeep
from vhost_backend.daemon.process import WorkerCommand
from vhost_backend.daemon.registrations import Registrations
from vhost_backend.daemon.rings import Rings
from vhost_backend.daemon.runstate import Lifecycle
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.daemon.worker_clock import CpuAlarms
from vhost_backend.log import Logger
from vhost_backend.worker_protocol.budgets import LINK_SHARE, TimeBudget
from vhost_backend.worker_protocol.protocol import Stats


@dataclass(frozen=True, slots=True)
class Tools:
    """Services that the VMs of a daemon share for their workers."""

    compiler: Compiler
    engines: Engines
    command: WorkerCommand
    policy: RestartPolicy | None
    pace: Pace | None
    """Pace of the heartbeat of serving workers; None: they have none."""
    alarms: CpuAlarms
    shares: FairShares


_HELD: Final = ("memory_used_bytes", "num_contexts", "num_programs", "num_allocations", "in_flight")
"""Fields of `Stats` about what a worker holds."""


@dataclass(slots=True)
class Generations:
    """Numbers of workers, from 1 on."""

    next: int = 1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        number, self.next = self.next, self.next + 1
        return number


@dataclass(slots=True)
class History:
    """Facts about the workers of a VM that outlast its frontends."""

    registrations: Registrations
    known_calls: set[str] | None
    """System calls that the log has named; None: workers do not run under a filter that reports them."""
    choice: Choice | None = None
    """Engine of the present guest, or of the last; None: the VM never had a guest."""
    link_time: TimeBudget = field(default_factory=lambda: TimeBudget(LINK_SHARE))
    """Budget for reading what the workers send."""
    cpu_time: CpuTime = field(default_factory=CpuTime)
    gpu_time: GpuTime = field(default_factory=GpuTime)
    stats: Stats | None = None
    """Latest figures that a worker sent; None: no worker sent any yet."""
    compilations: CompileCounts = field(default_factory=CompileCounts)
    """Programs that workers asked for."""
    generations: Generations = field(default_factory=Generations)

    def worker_died(self) -> None:
        """Takes what the worker held out of the figures. Its counts stay until the next worker sends its own."""
        if self.stats is not None:
            nothing = dict.fromkeys(_HELD, 0)
            self.stats = structs.replace(self.stats, **nothing)


@dataclass(frozen=True, slots=True)
class VmParts:
    """Parts of a VM that both sides of it use, whether a frontend is connected or not."""

    allotment: Allotment
    log: Logger
    state: Lifecycle
    space: ConfigSpace
    rings: Rings
    region: GuestRegion
    control: VmControl | None
    """The control system's side of the VM; None: the daemon has no control system."""
    keep: VmKeep
    """The VM's place at the keeper."""

    @property
    def config(self) -> VmConfig:
        """Present settings."""
        return self.allotment.config

    @property
    def area_bytes(self) -> int:
        """Size of the control area that a worker shares with the daemon."""
        return 0 if self.control is None else self.control.area_bytes
