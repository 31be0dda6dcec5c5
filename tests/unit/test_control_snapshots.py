"""The merged snapshot: the time skew between its elements."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fakes.control_vm import FakeControlledVm
from tests.unit.registry_rig import rig
from vhost_backend.control.faults import snapshots
from vhost_backend.control.faults.snapshots import VmSnapshot
from vhost_backend.control.links.channel_port import ElementState
from virtio_proto.control.api import SnapshotInfo


def state(pe: int, at_ns: int) -> ElementState:
    return ElementState(pe, "spin", 1, 0, 1, since_ns=1, last_record_ns=0, at_ns=at_ns)


def test_skew_is_the_time_between_the_first_and_the_last_element(tmp_path: Path) -> None:
    seen = asyncio.run(taken(tmp_path))
    assert (seen["time_ns"], seen["skew_ns"], seen["coverage"]) == (100, 30, 1.0)
    assert [(pe["vm"], pe["pe"], pe["hung"]) for pe in seen["pes"]] == [
        ("web1", 0, False),
        ("web1", 1, True),
        ("web2", 0, False),
    ]


async def taken(folder: Path) -> SnapshotInfo:
    async with rig(folder, FakeControlledVm("web1", 2), FakeControlledVm("web2", 1)) as made:
        first, second = made.system.registry.sides.values()
        parts = [VmSnapshot(first, (0, 1), (state(0, 105), state(1, 100))), VmSnapshot(second, (0,), (state(0, 130),))]
        return snapshots.assemble(parts, 999, lambda side, seen: side is first and seen.pe == 1)
