"""Guests that several files of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tests.vm.workbench import Workbench


@pytest.fixture(scope="session")
def development_guest() -> Iterator[Guest]:
    """A guest with compilers and a device. It boots once: tests leave the device as they found it."""
    with Vgcd(VmSettings("development")) as vgcd, Guest(vgcd.device("development"), development=True) as guest:
        yield guest


@pytest.fixture
def workbench(development_guest: Guest, request: pytest.FixtureRequest) -> Iterator[Workbench]:
    """A folder of the test's own in the development guest."""
    bench = Workbench(development_guest, f"/root/work/{request.node.name}")
    yield bench
    bench.clear()
