"""Fixtures of the ports' tests."""

from __future__ import annotations

import pytest

from tests.ports.machines import MACHINES, Machine


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    """Each machine; the test is skipped where its compiler is missing."""
    found = MACHINES[request.param]
    found.require()
    return found


@pytest.fixture
def big_endian() -> Machine:
    """The big-endian machine."""
    found = MACHINES["s390x"]
    found.require()
    return found
