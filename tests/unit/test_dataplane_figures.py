"""Figures of the data plane beside a VM's usage: the peak of its memory, failed requests by status."""

from __future__ import annotations

from tests.unit.plane_rig import LIMITS, plane_rig
from virtio_proto.schema import Opcode, Status


def test_peak_of_memory_stays_when_it_is_freed() -> None:
    with plane_rig(LIMITS) as rig:
        assert rig.plane.counts().memory_peak_bytes == 0
        context = rig.context()
        first, second = (rig.alloc(context, 100_000) for _ in range(2))
        peak = rig.plane.counts().memory_peak_bytes
        assert peak == rig.usage().memory_used_bytes >= 200_000
        for address in (first, second):
            rig.ok(Opcode.FREE, {"address": address}, context=context)
        rig.alloc(context, 100_000)
        assert rig.usage().memory_used_bytes < rig.plane.counts().memory_peak_bytes == peak


def test_refused_memory_is_no_peak() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        refused = rig.driver.request(Opcode.ALLOC, {"size": 2 * LIMITS.memory_bytes}, context=context)
        assert refused.status == Status.OUT_OF_MEMORY
        assert rig.plane.counts().memory_peak_bytes == 0


def test_failures_are_counted_by_status() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        assert rig.plane.counts().failures == ()
        for _ in range(3):
            rig.driver.request(Opcode.ALLOC, {"size": 2 * LIMITS.memory_bytes}, context=context)
        rig.driver.request(Opcode.FREE, {"address": 12345}, context=context)
        failures = rig.plane.counts().failures
        assert failures[Status.OUT_OF_MEMORY] == 3
        assert sum(failures) == rig.usage().requests_failed == 4
        assert failures[Status.OK] == 0
        assert len(failures) <= max(Status) + 1
