"""Requests to compile that are made to keep the daemon busy: what it does before a compiler runs is bounded."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from vhost_backend.compiler.job import LOOKED_AT, may_have
from vhost_backend.engines.cpu import cccl, toolchain
from vhost_backend.engines.cuda import host_code
from virtio_proto.schema import LIMITS

HEADER = "stdio.h"
LARGE = bytes(LIMITS["MAX_SOURCE_BYTES"])


def spelled(count: int) -> list[str]:
    """Names, all different, of one header."""
    spellings = ("".join(parts) for parts in itertools.product(("./", ".//"), repeat=16))
    return [f"{spelling}{HEADER}" for spelling in itertools.islice(spellings, count)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that the engine looks for."""
    seen: list[Path] = []

    def is_file(path: Path) -> bool:
        seen.append(path)
        return True

    monkeypatch.setattr(Path, "is_file", is_file)
    return seen


def test_a_header_that_a_source_spells_in_many_ways_is_not_looked_up(looks: list[Path]) -> None:
    names = spelled(LOOKED_AT // 64)
    source = "".join(f"#include <{name}>\n" for name in names).encode()
    assert len(source) <= LOOKED_AT
    assert host_code.is_likely(source, [Path("/usr/include")])
    assert looks == []


def test_a_header_of_the_folder_is_still_found(looks: list[Path]) -> None:
    assert not host_code.is_likely(f"#include <{HEADER}>\n".encode(), [Path("/usr/include")])
    assert looks == [Path("/usr/include") / HEADER]


def test_a_source_that_is_large_is_not_searched(looks: list[Path]) -> None:
    """It is compiled as if it had everything."""
    assert host_code.is_likely(LARGE, [Path("/usr/include")])
    assert cccl.names_cccl(LARGE)
    assert looks == []
    nothing = re.compile(rb"nothing has this")
    assert may_have(nothing, bytes(LOOKED_AT + 1))
    assert not may_have(nothing, bytes(LOOKED_AT))


def test_a_large_source_gets_the_headers_that_it_may_include() -> None:
    small, large = (toolchain.compile_job((), source).visible for source in (b"", LARGE))
    assert set(small) < set(large)
