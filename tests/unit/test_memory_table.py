"""The memory table: regions that a frontend may share; every descriptor is closed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd
from vhost_backend.vhost_user.memory import MappedRegion, MemoryTable
from vhost_backend.vhost_user.messages import MAX_MEM_SLOTS, Gpa, Region, Uva

PAGE = 4096


@pytest.fixture
def table() -> Iterator[MemoryTable]:
    table = MemoryTable()
    yield table
    table.clear()


def entry(gpa: int = 0, uva: int = 0, size: int = PAGE, offset: int = 0, file_size: int = PAGE) -> MappedRegion:
    fd = os.memfd_create("region")
    os.ftruncate(fd, file_size)
    return MappedRegion(Region(Gpa(gpa), size, Uva(uva), offset), Fd(fd))


def refused(table: MemoryTable, bad: MappedRegion) -> str:
    """Adds a bad region, which must be closed and leave the table unchanged; returns the field at fault."""
    before = len(table)
    with pytest.raises(FrontendError) as caught:
        table.add("ADD_MEM_REG", bad)
    assert bad.fd.closed
    assert len(table) == before
    return caught.value.field


def test_region_is_held_until_removed(table: MemoryTable) -> None:
    held = entry(gpa=PAGE, uva=2 * PAGE)
    table.add("ADD_MEM_REG", held)
    assert [item.region for item in table] == [held.region]
    table.remove("REM_MEM_REG", held.region)
    assert len(table) == 0
    assert held.fd.closed


def test_empty_region_is_refused(table: MemoryTable) -> None:
    assert refused(table, entry(size=0)) == "memory size"


def test_region_that_wraps_guest_addresses_is_refused(table: MemoryTable) -> None:
    assert refused(table, entry(gpa=2**64 - PAGE + 1)) == "guest address"


def test_region_that_wraps_user_addresses_is_refused(table: MemoryTable) -> None:
    assert refused(table, entry(uva=2**64 - 1)) == "user address"


def test_region_with_a_wrapping_offset_is_refused(table: MemoryTable) -> None:
    assert refused(table, entry(offset=2**64 - 1)) == "mmap offset"


def test_region_that_ends_at_the_last_address_is_accepted(table: MemoryTable) -> None:
    table.add("ADD_MEM_REG", entry(gpa=2**64 - PAGE, uva=2**64 - PAGE))
    assert len(table) == 1


def test_region_beyond_its_file_is_refused(table: MemoryTable) -> None:
    assert refused(table, entry(size=2 * PAGE)) == "mmap offset + size"
    assert refused(table, entry(offset=1)) == "mmap offset + size"


def test_region_without_a_file_is_refused(table: MemoryTable) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    pipe = MappedRegion(Region(Gpa(0), PAGE, Uva(0), 0), Fd(reading))
    assert refused(table, pipe) == "fd"


@pytest.mark.parametrize("shift", [-PAGE + 1, -1, 0, 1, PAGE - 1])
def test_overlapping_regions_are_refused(table: MemoryTable, shift: int) -> None:
    table.add("ADD_MEM_REG", entry(gpa=10 * PAGE, uva=10 * PAGE))
    assert refused(table, entry(gpa=10 * PAGE + shift, uva=50 * PAGE)) == "guest address"
    assert refused(table, entry(gpa=50 * PAGE, uva=10 * PAGE + shift)) == "user address"


def test_adjacent_regions_are_accepted(table: MemoryTable) -> None:
    for i in (1, 0, 2):
        table.add("ADD_MEM_REG", entry(gpa=i * PAGE, uva=i * PAGE))
    assert table.size_bytes() == 3 * PAGE


def test_more_regions_than_slots_are_refused(table: MemoryTable) -> None:
    for i in range(MAX_MEM_SLOTS):
        table.add("ADD_MEM_REG", entry(gpa=i * PAGE, uva=i * PAGE))
    assert refused(table, entry(gpa=99 * PAGE, uva=99 * PAGE)) == "number of regions"


def test_removing_an_unknown_region_is_refused(table: MemoryTable) -> None:
    held = entry()
    table.add("ADD_MEM_REG", held)
    with pytest.raises(FrontendError, match="one that was added"):
        table.remove("REM_MEM_REG", Region(Gpa(0), 2 * PAGE, Uva(0), 0))
    assert not held.fd.closed


def test_refused_table_leaves_the_old_one_in_place(table: MemoryTable) -> None:
    held = entry()
    table.add("ADD_MEM_REG", held)
    bad = [entry(gpa=PAGE, uva=PAGE), entry(gpa=PAGE, uva=5 * PAGE)]
    with pytest.raises(FrontendError, match="overlap"):
        table.replace("SET_MEM_TABLE", bad)
    assert all(item.fd.closed for item in bad)
    assert list(table) == [held]


def test_new_table_closes_the_old_one(table: MemoryTable) -> None:
    held, fresh = entry(), entry()
    table.add("ADD_MEM_REG", held)
    table.replace("SET_MEM_TABLE", [fresh])
    assert held.fd.closed
    assert list(table) == [fresh]
