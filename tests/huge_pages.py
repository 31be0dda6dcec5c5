"""Huge pages for tests: files of them, and a loan of the machine's memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

SIZE: Final = 2 << 20
"""Bytes of a huge page."""

_LIMIT: Final = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages")


class NoHugePagesError(Exception):
    """The machine lends no huge pages; the text says why."""


@contextmanager
def lent(pages: int) -> Iterator[None]:
    """Lets programs have so many more huge pages, which the kernel takes back as they are freed. Takes root rights.

    :raise NoHugePagesError: the kernel has none, or not so many.
    """
    try:
        before = int(_LIMIT.read_text())
        _LIMIT.write_text(str(before + pages))
    except OSError as error:
        raise NoHugePagesError(f"no huge pages of 2 MiB: {_LIMIT}: {error.strerror}") from None
    try:
        os.close(file(pages * SIZE))
        yield
    finally:
        with suppress(OSError):
            _LIMIT.write_text(str(before))


def file(size_bytes: int) -> int:
    """Makes a memory file of huge pages, all of which it has; returns its descriptor.

    :raise NoHugePagesError: there are not so many.
    """
    fd = os.memfd_create("vgc-region", os.MFD_CLOEXEC | os.MFD_HUGETLB | os.MFD_HUGE_2MB)
    try:
        os.ftruncate(fd, size_bytes)
        os.posix_fallocate(fd, 0, size_bytes)
    except OSError as error:
        os.close(fd)
        raise NoHugePagesError(f"no {size_bytes // SIZE} huge pages of 2 MiB: {error.strerror}") from None
    return fd
