"""Choice of the VM's region among all memory that a frontend shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from vhost_backend.config.daemon import VmConfig, vm_uuid
from vhost_backend.daemon.guest_region import GuestRegion
from vhost_backend.fds import Fd
from vhost_backend.vhost_user.memory import MappedRegion, MemoryTable
from vhost_backend.vhost_user.messages import Gpa, Region, Uva, VringAddr

SIZE = 1 << 20


@pytest.fixture
def table() -> Iterator[MemoryTable]:
    table = MemoryTable()
    yield table
    table.clear()


def make_choice(region_file: Path | None = None) -> GuestRegion:
    return GuestRegion(VmConfig("a", vm_uuid("a"), region_bytes=SIZE, region_file=region_file))


def share(table: MemoryTable, fd: int = -1, *, size: int = SIZE, file_size: int = SIZE, offset: int = 0) -> int:
    """Adds memory behind the last, of a new file unless `fd` is given; returns its address."""
    if fd < 0:
        fd = os.memfd_create("memory")
        os.ftruncate(fd, file_size)
    address = (len(table) + 1) << 32
    table.add("ADD_MEM_REG", MappedRegion(Region(Gpa(address), size, Uva(address), offset), Fd(fd)))
    return address


def ring(address: int, used: int | None = None) -> VringAddr:
    return VringAddr(0, 0, Uva(address), Uva(address + 0x2000 if used is None else used), Uva(address + 0x1000))


def file_of(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, SIZE)
    return fd


def test_no_memory_is_chosen_before_a_ring_lies_in_it(table: MemoryTable) -> None:
    choice = make_choice()
    share(table)
    assert not choice.choose(table, [])
    assert (choice.entry, choice.problem) == (None, "")


def test_region_is_the_file_in_which_the_rings_lie(table: MemoryTable) -> None:
    choice = make_choice()
    addresses = [share(table) for _ in range(3)]
    assert choice.choose(table, [ring(addresses[1]), ring(addresses[1] + 0x4000)])
    assert choice.entry is not None
    assert choice.entry.region.uva == addresses[1]
    assert not choice.choose(table, [ring(addresses[1])]), "the region is the same as before"


@pytest.mark.parametrize(
    "shape",
    [
        {"size": SIZE // 2},
        {"size": SIZE * 2, "file_size": SIZE * 2},
        {"file_size": SIZE * 4},
        {"file_size": SIZE * 4, "offset": SIZE},
    ],
    ids=["smaller", "larger", "part of a file", "part of a file, at an offset"],
)
def test_other_memory_is_never_the_region(table: MemoryTable, shape: dict[str, int]) -> None:
    """A guest that has its rings in its RAM asks for it, and does not get it."""
    choice = make_choice()
    address = share(table, **shape)
    choice.choose(table, [ring(address)])
    assert choice.entry is None
    assert "a whole file of 1 MiB, as QEMU shares it with -object memory-backend-file" in choice.problem


def test_rings_in_two_files_name_none(table: MemoryTable) -> None:
    choice = make_choice()
    rings = [ring(share(table)), ring(share(table))]
    choice.choose(table, rings)
    assert choice.entry is None
    assert "2 shared files" in choice.problem
    assert "region_file" in choice.problem


def test_ring_that_is_spread_over_two_files_lies_in_none(table: MemoryTable) -> None:
    choice = make_choice()
    first, second = share(table), share(table)
    choice.choose(table, [ring(first, used=second)])
    assert choice.entry is None
    assert "other memory than the region" in choice.problem


def test_configured_file_is_the_region_and_no_other(table: MemoryTable, tmp_path: Path) -> None:
    choice = make_choice(tmp_path / "region")
    wrong, right = share(table), share(table, file_of(tmp_path / "region"))
    choice.choose(table, [ring(wrong), ring(right)])
    assert choice.entry is not None
    assert choice.entry.region.uva == right
    choice.choose(table, [ring(wrong)])
    assert choice.entry is None


def test_file_that_took_the_place_of_the_configured_one_is_another(table: MemoryTable, tmp_path: Path) -> None:
    choice = make_choice(tmp_path / "region")
    address = share(table, file_of(tmp_path / "region"))
    (tmp_path / "region").unlink()
    os.close(file_of(tmp_path / "region"))
    choice.choose(table, [ring(address)])
    assert choice.entry is None
    assert str(tmp_path / "region") in choice.problem


def test_configured_file_may_be_missing(table: MemoryTable, tmp_path: Path) -> None:
    choice = make_choice(tmp_path / "region")
    choice.choose(table, [ring(share(table))])
    assert choice.entry is None


def test_region_that_was_taken_away_is_no_longer_chosen(table: MemoryTable) -> None:
    choice = make_choice()
    address = share(table)
    choice.choose(table, [ring(address)])
    table.clear()
    assert choice.choose(table, [ring(address)])
    assert choice.entry is None
    assert "the frontend shares nothing" in choice.problem
