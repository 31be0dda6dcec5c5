"""Migrations of a host's VMs and confinement to processing elements: verbs, and a list of running and ended ones."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import Kind, RefusedError, unknown
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import MigrationChanged
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ChannelError, WorkerGoneError
from vhost_backend.control.links.vm_port import MigrationRefusedError, MigrationView
from virtio_proto.control.api import MigrationInfo
from virtio_proto.control.verbs.base import Request, Verb
from virtio_proto.control.verbs.migrations import Confine, Migrate, MigrationList, Migrations

MAX_REMEMBERED: Final = 256


class MigrationService:
    """Starts migrations and remembers the last `MAX_REMEMBERED` of all VMs of the host."""

    def __init__(self, bus: EventBus, tasks: BackgroundTasks, clock_ns: Callable[[], int]) -> None:
        self._bus = bus
        self._tasks = tasks
        self._clock_ns = clock_ns
        self._all: deque[MigrationInfo] = deque(maxlen=MAX_REMEMBERED)
        self._numbers = itertools.count(1)

    def of(self, sees: Callable[[str], bool]) -> list[MigrationInfo]:
        """Migrations of the VMs that `sees` accepts, oldest first."""
        return [migration for migration in self._all if sees(migration["vm"])]

    def begin(self, side: VmSide, gpu: str | None, pes: Sequence[int] | None) -> MigrationInfo:
        """Starts a migration; its `MigrationInfo` and the events ``migration`` report its progress.

        :raise RefusedError: "busy": the VM is not ready, or can never be migrated.
        """
        facts = side.vm.facts()
        if facts.stays:
            raise RefusedError("busy", f"{side.name}: {facts.stays}")
        if facts.state != "ready":
            raise RefusedError("busy", f"{side.name} is {facts.state}; allowed: to migrate a VM that is ready")
        migration = self._note(side, facts.gpu, facts.gpu if gpu is None else gpu)
        self._tasks.spawn(self._run(side, migration, gpu, pes))
        return migration

    async def migrate(self, side: VmSide, gpu: str | None, pes: Sequence[int] | None) -> MigrationInfo:
        """Migrates a VM, and returns when the migration has ended."""
        facts = side.vm.facts()
        migration = self._note(side, facts.gpu, facts.gpu if gpu is None else gpu)
        await self._run(side, migration, gpu, pes)
        return migration

    def _note(self, side: VmSide, source: str, target: str) -> MigrationInfo:
        migration: MigrationInfo = {
            "migration": next(self._numbers),
            "vm": side.name,
            "source": source,
            "target": target,
            "state": "starting",
            "started_ns": self._clock_ns(),
            "ended_ns": None,
            "bytes": 0,
            "paused_ns": 0,
            "text": "",
        }
        self._all.append(migration)
        return migration

    async def _run(self, side: VmSide, migration: MigrationInfo, gpu: str | None, pes: Sequence[int] | None) -> None:
        def progress(report: MigrationView) -> None:
            self._step(migration, report)

        try:
            self._step(migration, await side.vm.migrate(gpu, None if pes is None else len(pes), progress))
        except MigrationRefusedError as error:
            migration.update({"state": "failed", "text": str(error), "ended_ns": self._clock_ns()})
            self._tell(migration)

    def _step(self, migration: MigrationInfo, report: MigrationView) -> None:
        before = migration["state"]
        migration.update(
            {
                "source": report.source,
                "target": report.target,
                "state": report.state,
                "ended_ns": report.ended_ns,
                "bytes": report.bytes,
                "paused_ns": report.paused_ns,
                "text": report.text,
            }
        )
        if before != report.state:
            self._tell(migration)

    def _tell(self, migration: MigrationInfo) -> None:
        self._bus.publish(MigrationChanged(migration["vm"], migration.copy()))

    async def confine(self, side: VmSide, pes: Sequence[int] | None) -> MigrationInfo:
        """Confines a VM to some of its processing elements, from their next blocks on; None: lets it use all again.

        :raise RefusedError: "unknown": the VM has fewer processing elements; "busy": its worker is gone; "failed": the
          worker refused.
        """
        there = side.vm.channels.num_pes
        if pes is not None and not all(pe < there for pe in pes):
            raise unknown(f"{side.name} has not all of the {_ranges(pes)}", [f"0-{there - 1}"])
        before = side.confined_to
        migration = self._note(side, _ranges(before), _ranges(pes))
        try:
            await side.vm.channels.confine(() if pes is None else pes)
        except ChannelError as error:
            migration.update({"state": "failed", "text": str(error), "ended_ns": self._clock_ns()})
            self._tell(migration)
            kind: Kind = "busy" if isinstance(error, WorkerGoneError) else "failed"
            raise RefusedError(kind, f"{side.name} could not be confined: {error}") from None
        side.confine(None if pes is None else tuple(pes))
        migration.update({"state": "done", "ended_ns": self._clock_ns()})
        self._tell(migration)
        return migration


class MigrationCommands:
    """Verbs about migrations: migrate, confine, migrations."""

    def __init__(self, registry: InstanceRegistry, migrations: MigrationService) -> None:
        self._registry = registry
        self._migrations = migrations

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {Migrate: self._migrate, Confine: self._confine, Migrations: self._list}

    async def _migrate(self, caller: Caller, asked: Migrate.Request) -> MigrationInfo:
        return self._migrations.begin(self._registry.side(caller.peer, asked.vm), asked.gpu, asked.elements)

    async def _confine(self, caller: Caller, asked: Confine.Request) -> MigrationInfo:
        side = self._registry.side(caller.peer, asked.vm)
        pes = asked.elements
        if not side.vm.channels.ready:
            raise RefusedError("busy", f"{side.name} has no worker now; allowed: when its state is ready")
        facts = side.vm.facts()
        if facts.gpu.isdecimal():  # SMs cannot be told to take no blocks, but the VM can migrate to a smaller partition
            return self._migrations.begin(side, facts.gpu, pes or range(facts.pes_quota or facts.pes))
        return await self._migrations.confine(side, pes)

    async def _list(self, caller: Caller, _asked: Request) -> MigrationList:
        return {"migrations": self._migrations.of(caller.peer.sees)}


def _ranges(pes: Sequence[int] | None) -> str:
    """Formats numbers of processing elements as in a selector: ``0-3|8``."""
    if pes is None:
        return "all elements"
    parts: list[list[int]] = []
    for pe in sorted(pes):
        if parts and parts[-1][1] == pe - 1:
            parts[-1][1] = pe
        else:
            parts.append([pe, pe])
    return "elements " + "|".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
