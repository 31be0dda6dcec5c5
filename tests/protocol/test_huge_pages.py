"""Regions of huge pages: a worker serves them, and survives one that shrinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests import huge_pages
from tests.fakes.driver import FakeDriver
from tests.fakes.region import Region
from tests.protocol.worker_rig import Parts, WorkerRig, needs_walls, survive_a_region_that_shrinks, worker_rig
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.sandbox.terms import SandboxMode
from virtio_proto.schema import Opcode

PAGES = {huge_pages.OF_2_MIB: 4, huge_pages.OF_1_GIB: 1}


@pytest.fixture(params=PAGES, ids=str)
def pages(request: pytest.FixtureRequest) -> huge_pages.Kind:
    kind: huge_pages.Kind = request.param
    return kind


@pytest.fixture
def parts(pages: huge_pages.Kind) -> Iterator[Parts]:
    size = PAGES[pages] * pages.size
    try:
        with ExitStack() as stack:
            stack.enter_context(pages.lent(PAGES[pages]))
            region = stack.enter_context(Region(size, fd=pages.file(size)))
            driver = stack.enter_context(FakeDriver(region, num_queues=2))
            yield region, driver, stack.enter_context(InflightMemory())
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


def test_region_of_huge_pages_is_mapped_with_them(parts: Parts, pages: huge_pages.Kind) -> None:
    with worker_rig(parts=parts) as rig:
        rig.start()
        context = rig.context()
        address = rig.ok(Opcode.ALLOC, {"size": 4096}, context=context).value
        rig.ok(Opcode.COPY_IN, {"dst": address, "src": 0, "size": 4}, b"data", context=context)
        assert mapped_kib(rig, "KernelPageSize") << 10 == pages.size
        assert mapped_kib(rig, "Size") << 10 == PAGES[pages] * pages.size


@pytest.mark.parametrize("sandbox", ["off", pytest.param("strict", marks=needs_walls)])
def test_region_of_huge_pages_that_shrinks_is_survived(sandbox: SandboxMode, parts: Parts) -> None:
    with worker_rig(sandbox, parts=parts) as rig:
        survive_a_region_that_shrinks(rig)
