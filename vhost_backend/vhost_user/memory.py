"""Memory table: regions of guest memory that the frontend shares, each with a file descriptor.

The descriptors are held and passed to workers; the daemon never maps guest memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd
from vhost_backend.vhost_user.messages import MAX_MEM_SLOTS, Region

ADDRESS_SPACE: int = 1 << 64
MAX_FILE_OFFSET: int = 1 << 62


@dataclass(frozen=True, slots=True)
class MappedRegion:
    """Region with the file that holds it."""

    region: Region
    fd: Fd


class MemoryTable:
    """Regions of one session; owns their descriptors."""

    def __init__(self) -> None:
        self._entries: list[MappedRegion] = []

    def __iter__(self) -> Iterator[MappedRegion]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def size_bytes(self) -> int:
        return sum(entry.region.size_bytes for entry in self._entries)

    def replace(self, message: str, entries: list[MappedRegion]) -> None:
        """Replaces all regions by `entries`, which it takes over; on error they are closed and the table unchanged.

        :raise FrontendError: an entry is empty, overflows, exceeds its file or overlaps another.
        """
        fresh = MemoryTable()
        try:
            for entry in entries:
                fresh.add(message, entry)
        except FrontendError:
            for entry in entries:
                entry.fd.close()
            raise
        self.clear()
        self._entries = fresh._entries

    def add(self, message: str, entry: MappedRegion) -> None:
        """Adds a region, which it takes over; on error it is closed and the table unchanged.

        :raise FrontendError: as for `replace`, or there are too many regions.
        """
        try:
            self._check(message, entry)
        except FrontendError:
            entry.fd.close()
            raise
        self._entries.append(entry)

    def restore(self, entry: MappedRegion) -> None:
        """Adds a region that an earlier daemon's table had, which it takes over.

        It was checked when it came. A frontend may have shortened its file since; only its own worker maps it.
        """
        self._entries.append(entry)

    def _check(self, message: str, entry: MappedRegion) -> None:
        if len(self._entries) >= MAX_MEM_SLOTS:
            raise FrontendError(message, "number of regions", len(self) + 1, f"at most {MAX_MEM_SLOTS}")
        _check_bounds(message, entry.region)
        _check_file(message, entry)
        for other in self._entries:
            _check_overlap(message, entry.region, other.region)

    def remove(self, message: str, region: Region) -> None:
        """Removes the region with these addresses and this size; the file offset is ignored.

        :raise FrontendError: there is no such region.
        """
        for entry in self._entries:
            known = entry.region
            if (known.gpa, known.uva, known.size_bytes) == (region.gpa, region.uva, region.size_bytes):
                self._entries.remove(entry)
                entry.fd.close()
                return
        raise FrontendError(message, "region", _span(region.gpa, region), "one that was added")

    def clear(self) -> None:
        for entry in self._entries:
            entry.fd.close()
        self._entries = []


def _span(start: int, region: Region) -> str:
    return f"{start:#x}+{region.size_bytes:#x}"


def _check_bounds(message: str, region: Region) -> None:
    if region.size_bytes == 0:
        raise FrontendError(message, "memory size", 0, "1 or more")
    for field, start in (("guest address", region.gpa), ("user address", region.uva)):
        if start + region.size_bytes > ADDRESS_SPACE:
            raise FrontendError(message, field, _span(start, region), "a range below 2^64")
    if region.offset_bytes + region.size_bytes > MAX_FILE_OFFSET:
        raise FrontendError(message, "mmap offset", _span(region.offset_bytes, region), "a range below 2^62")


def _check_file(message: str, entry: MappedRegion) -> None:
    size = entry.fd.file_size()
    if size is None:
        raise FrontendError(message, "fd", "not a regular file", "a memfd or a file in /dev/shm or hugetlbfs")
    end = entry.region.offset_bytes + entry.region.size_bytes
    if end > size:
        raise FrontendError(message, "mmap offset + size", end, f"at most the file's {size} bytes")


def _check_overlap(message: str, new: Region, old: Region) -> None:
    for field, a, b in (("guest address", new.gpa, old.gpa), ("user address", new.uva, old.uva)):
        if a < b + old.size_bytes and b < a + new.size_bytes:
            allowed = f"a range that does not overlap {_span(b, old)}"
            raise FrontendError(message, field, _span(a, new), allowed)
