"""Huge pages for tests: files of them, and a loan of the machine's memory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SYSFS: Final = Path("/sys/kernel/mm/hugepages")


class NoHugePagesError(Exception):
    """The machine lends no huge pages; the text says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Huge pages of `size` bytes; `limit` is the kernel's file that says how many there may be or are."""

    size: int
    limit: Path
    memfd_flag: int
    name: str

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def lent(self, pages: int) -> Iterator[None]:
        """Lets programs have so many more huge pages, one test at a time. Takes root rights.

        :raise NoHugePagesError: the kernel has none, or not so many.
        """
        try:
            limit = self.limit.open("r+")
        except OSError as error:
            raise NoHugePagesError(f"no huge pages of {self}: {self.limit}: {error.strerror}") from None
        with limit:
            fcntl.flock(limit, fcntl.LOCK_EX)
            before = int(self.limit.read_text())
            try:
                self._set_limit(before + pages)
                os.close(self.file(pages * self.size))
                yield
            finally:
                with suppress(OSError):
                    self.limit.write_text(str(before))

    def _set_limit(self, pages: int) -> None:
        try:
            self.limit.write_text(str(pages))
        except OSError as error:
            raise NoHugePagesError(f"no huge pages of {self}: {self.limit}: {error.strerror}") from None

    def file(self, size_bytes: int) -> int:
        """Makes a memory file of huge pages, all of which it has; returns its descriptor.

        :raise NoHugePagesError: there are not so many.
        """
        fd = -1
        try:
            fd = os.memfd_create("vgc-region", os.MFD_CLOEXEC | os.MFD_HUGETLB | self.memfd_flag)
            os.ftruncate(fd, size_bytes)
            os.posix_fallocate(fd, 0, size_bytes)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise NoHugePagesError(f"no {size_bytes // self.size} huge pages of {self}: {error.strerror}") from None
        return fd


OF_2_MIB: Final = Kind(2 << 20, _SYSFS / "hugepages-2048kB/nr_overcommit_hugepages", os.MFD_HUGE_2MB, "2 MiB")
"""Pages that the kernel takes back as they are freed."""

OF_1_GIB: Final = Kind(1 << 30, _SYSFS / "hugepages-1048576kB/nr_hugepages", os.MFD_HUGE_1GB, "1 GiB")
"""Pages that the kernel has to set aside: it does not make them when they are asked for."""
