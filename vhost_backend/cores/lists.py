"""Lists of processors in Linux's notation, such as "0-3,8" [Linux: Documentation/admin-guide/cputopology.rst]."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import groupby
from typing import Final

MAX_CORE: Final = 8191
"""Highest number of a processor that Linux can be built for."""

_PART: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def parse(text: str) -> frozenset[int]:
    """Reads a list of processors; at least one.

    :raise ValueError: it is no list, names none, or one above `MAX_CORE`.
    """
    cores: set[int] = set()
    for part in text.strip().split(","):
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= MAX_CORE:
            raise ValueError(f"{part!r} is no processor and no range of them, within 0-{MAX_CORE}")
        cores.update(range(first, last + 1))
    return frozenset(cores)


def shown(cores: Collection[int]) -> str:
    """Writes a list of processors; "none" for an empty one."""
    ranges = []
    for _, run in groupby(enumerate(sorted(cores)), lambda item: item[1] - item[0]):
        numbers = [number for _, number in run]
        ranges.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(ranges) or "none"
