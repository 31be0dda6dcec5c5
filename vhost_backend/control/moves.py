"""Moving VMs' work and confining it: commands, what is under way, what has been."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from vhost_backend.control.channel_port import ChannelError, WorkerGoneError
from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.events import EventHub
from vhost_backend.control.fields import Fields
from vhost_backend.control.host_commands import find_side
from vhost_backend.control.interface import Interface
from vhost_backend.control.refusal import Kind, RefusedError, unknown
from vhost_backend.control.vm_port import MoveFailedError, MoveReport
from vhost_backend.control.vm_side import VmSide
from virtio_proto.control.api import MigrationInfo

MAX_REMEMBERED: Final = 256


class Moves:
    """All moves of a host's VMs."""

    def __init__(self, interface: Interface, hub: EventHub) -> None:
        self._interface = interface
        self._hub = hub
        self._all: deque[MigrationInfo] = deque(maxlen=MAX_REMEMBERED)
        self._numbers = itertools.count(1)

    def of(self, sees: Callable[[str], bool]) -> list[MigrationInfo]:
        return [move for move in self._all if sees(move["vm"])]

    def begin(self, side: VmSide, gpu: str | None, pes: Sequence[int] | None) -> MigrationInfo:
        """Starts to move a VM's work; `MigrationInfo` and the events ``migration`` say how it goes.

        :raise RefusedError: "busy": there is nothing that could be moved now.
        """
        facts = side.vm.facts()
        if facts.state != "ready":
            raise RefusedError("busy", f"{side.name} is {facts.state}; allowed: to move a VM that is ready")
        move = self._note(side, facts.gpu, facts.gpu if gpu is None else gpu)
        self._interface.spawn(self._run(side, move, gpu, pes))
        return move

    async def move(self, side: VmSide, gpu: str | None, pes: Sequence[int] | None) -> MigrationInfo:
        """As `begin`, and waits for its end."""
        facts = side.vm.facts()
        move = self._note(side, facts.gpu, facts.gpu if gpu is None else gpu)
        await self._run(side, move, gpu, pes)
        return move

    def _note(self, side: VmSide, source: str, target: str) -> MigrationInfo:
        move: MigrationInfo = {
            "migration": next(self._numbers),
            "vm": side.name,
            "source": source,
            "target": target,
            "state": "starting",
            "started_ns": self._interface.clock_ns(),
            "ended_ns": None,
            "bytes": 0,
            "paused_ns": 0,
            "text": "",
        }
        self._all.append(move)
        return move

    async def _run(self, side: VmSide, move: MigrationInfo, gpu: str | None, pes: Sequence[int] | None) -> None:
        def progress(report: MoveReport) -> None:
            self._step(move, report)

        try:
            self._step(move, await side.vm.migrate(gpu, None if pes is None else len(pes), progress))
        except MoveFailedError as error:
            move.update({"state": "failed", "text": str(error), "ended_ns": self._interface.clock_ns()})
            self._tell(move)

    def _step(self, move: MigrationInfo, report: MoveReport) -> None:
        before = move["state"]
        move.update(
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
            self._tell(move)

    def _tell(self, move: MigrationInfo) -> None:
        self._hub.event("migration", move["vm"], **move)

    async def confine(self, side: VmSide, pes: Sequence[int] | None) -> MigrationInfo:
        """Lets a VM's work run on some of its elements only, from their next blocks on; None: on all again.

        :raise RefusedError: "unknown": it has not all of them; "busy", "failed".
        """
        there = side.vm.channels.num_pes
        if pes is not None and not all(pe < there for pe in pes):
            raise unknown(f"{side.name} has not all of the {_ranges(pes)}", [f"0-{there - 1}"])
        before = side.confined_to
        move = self._note(side, _ranges(before), _ranges(pes))
        try:
            await side.vm.channels.confine(() if pes is None else pes)
        except ChannelError as error:
            move.update({"state": "failed", "text": str(error), "ended_ns": self._interface.clock_ns()})
            self._tell(move)
            kind: Kind = "busy" if isinstance(error, WorkerGoneError) else "failed"
            raise RefusedError(kind, f"{side.name} could not be confined: {error}") from None
        side.confined_to = None if pes is None else tuple(pes)
        move.update({"state": "done", "ended_ns": self._interface.clock_ns()})
        self._tell(move)
        return move


class MoveCommands:
    """Verbs about moves: migrate, confine, migrations."""

    def __init__(self, interface: Interface, moves: Moves) -> None:
        self._interface = interface
        self._moves = moves

    def handlers(self) -> Mapping[str, Handler]:
        return {"migrate": self._migrate, "confine": self._confine, "migrations": self._migrations}

    async def _migrate(self, caller: Caller, fields: Fields) -> MigrationInfo:
        side = find_side(self._interface, caller, fields.text("vm"))
        gpu = fields.optional_text("gpu")
        pes = fields.pes()
        fields.done()
        return self._moves.begin(side, gpu, pes)

    async def _confine(self, caller: Caller, fields: Fields) -> MigrationInfo:
        side = find_side(self._interface, caller, fields.text("vm"))
        pes = fields.pes()
        fields.done()
        if not side.vm.channels.ready:
            raise RefusedError("busy", f"{side.name} has no worker now; allowed: when its state is ready")
        facts = side.vm.facts()
        if (
            facts.gpu.isdecimal()
        ):  # a GPU's multiprocessors cannot be told to let blocks pass: a partition can be smaller
            return self._moves.begin(side, facts.gpu, pes or range(facts.pes_quota or facts.pes))
        return await self._moves.confine(side, pes)

    async def _migrations(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        fields.done()
        return {"migrations": self._moves.of(caller.peer.sees)}


def _ranges(pes: Sequence[int] | None) -> str:
    """Elements as people write them: ``0-3|8``."""
    if pes is None:
        return "all elements"
    parts: list[list[int]] = []
    for pe in sorted(pes):
        if parts and parts[-1][1] == pe - 1:
            parts[-1][1] = pe
        else:
            parts.append([pe, pe])
    return "elements " + "|".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
