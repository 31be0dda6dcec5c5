"""When a guest is told of other limits, and which its worker is asked to enforce."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from vhost_backend.config.daemon import MIB, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.allotment import Allotment
from vhost_backend.log import get_logger


def settings(memory_mib: int) -> VmConfig:
    return VmConfig("a", vm_uuid("a"), quota=QuotaConfig(memory_bytes=memory_mib * MIB))


def test_guest_is_not_told_of_limits_that_its_worker_has_not_taken() -> None:
    """Raises them twice, the second time less, before the worker has answered."""

    async def story() -> None:
        asked: list[VmConfig] = []
        allotment = Allotment(settings(50), get_logger())
        allotment.serve_by(asked.append, settings(50))
        allotment.change(settings(100))
        allotment.change(settings(90))
        assert (allotment.number, allotment.told) == (1, settings(50))
        first, second = asked
        allotment.enforces(first)
        assert allotment.number == 1
        allotment.enforces(second)
        assert (allotment.number, allotment.told) == (2, settings(90))
        allotment.acknowledge(2)
        assert asked[-1] == settings(90)
        allotment.end()

    asyncio.run(story())


def test_what_is_lowered_is_told_at_once() -> None:
    async def story() -> None:
        asked: list[VmConfig] = []
        allotment = Allotment(settings(50), get_logger())
        allotment.serve_by(asked.append, settings(50))
        allotment.change(settings(20))
        assert (allotment.number, allotment.told) == (2, settings(20))
        assert asked == [replace(settings(20), quota=settings(50).quota)], "until the guest has acknowledged"
        allotment.end()

    asyncio.run(story())
