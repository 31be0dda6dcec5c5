"""Versions of the driver API's functions, guest_driver/cuda/runtime/driver/versions.txt, against NVIDIA's header."""

from __future__ import annotations

import re
import sysconfig
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY

RUNTIME: Final = REPOSITORY / "guest_driver/cuda/runtime"
INCLUDE: Final = Path(sysconfig.get_path("purelib"), "nvidia/cu13/include")
HEADERS: Final = tuple(INCLUDE / name for name in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"))
WIDER: Final = 3020
"""CUDA's version that made sizes and addresses wider, whose forms are the oldest here."""
PER_THREAD: Final = 7000


def ours() -> dict[str, int]:
    lines = (RUNTIME / "driver/versions.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {name: int(since) for name, since in rows}


def theirs() -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Versions of each function's forms, and of those for the calling thread's own default stream."""
    plain, per_thread = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    if not all(header.exists() for header in HEADERS):
        pytest.skip("needs nvidia-cuda-runtime")
    for header in HEADERS:
        for name, since, suffix in re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?\)", header.read_text()):
            (per_thread if suffix else plain)[name].add(int(since))
    return plain, per_thread


def test_versions_are_those_of_nvidias_header() -> None:
    plain, _ = theirs()
    for name, since in ours().items():
        known = plain[name]
        assert since == (WIDER if WIDER in known else min(known)), name


def test_forms_of_threads_came_with_the_function_or_with_cuda_7() -> None:
    _, per_thread = theirs()
    for name, since in ours().items():
        if name in per_thread:
            assert min(per_thread[name]) == max(since, PER_THREAD), name


def test_every_function_has_its_version() -> None:
    names = (RUNTIME / "build/driver/names.txt").read_text().split()
    bases = {re.sub(r"(_v\d+)?(_pt[ds][sz])?$", "", name) for name in names}
    assert bases == set(ours())
