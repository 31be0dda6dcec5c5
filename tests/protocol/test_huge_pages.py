"""Regions of huge pages: a worker serves them, and survives one that shrinks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests import huge_pages
from tests.fakes.driver import FakeDriver
from tests.fakes.region import Region
from tests.protocol.worker_rig import WorkerRig, worker_rig
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.worker_protocol.protocol import VringBroken
from virtio_proto.schema import Opcode

PAGES = 4


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    try:
        with ExitStack() as stack:
            stack.enter_context(huge_pages.lent(PAGES))
            region = stack.enter_context(Region(PAGES * huge_pages.SIZE, fd=huge_pages.file(PAGES * huge_pages.SIZE)))
            driver = stack.enter_context(FakeDriver(region, num_queues=2))
            memory = stack.enter_context(InflightMemory())
            yield stack.enter_context(worker_rig(parts=(region, driver, memory)))
    except huge_pages.NoHugePagesError as error:
        pytest.skip(str(error))


def mapped_kib(rig: WorkerRig, field: str) -> int:
    """Sum of a field in the worker's list of mappings, over those of the region."""
    total, of_region = 0, False
    with open(f"/proc/{rig.process.pid}/smaps") as lines:
        for line in lines:
            if "-" in line.split()[0]:
                of_region = "vgc-region" in line
            elif of_region and line.startswith(f"{field}:"):
                total += int(line.split()[1])
    return total


def test_region_of_huge_pages_is_mapped_with_them(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    address = rig.ok(Opcode.ALLOC, {"size": 4096}, context=context).value
    rig.ok(Opcode.COPY_IN, {"dst": address, "src": 0, "size": 4}, b"data", context=context)
    assert mapped_kib(rig, "KernelPageSize") == 2048
    assert mapped_kib(rig, "Size") == PAGES * 2048


def test_region_of_huge_pages_that_shrinks_is_survived(rig: WorkerRig) -> None:
    rig.start()
    rig.ok(Opcode.NOP)
    os.ftruncate(rig.region.fd, 0)
    rig.driver.queues[0].kick()
    broken, _ = rig.expect(VringBroken)
    assert broken.reason == "the file behind the VM's region was truncated"
    os.ftruncate(rig.region.fd, rig.region.size)
    rig.stop()
    rig.driver.queues[0].raw.avail_idx = 0
    assert rig.start().ok
