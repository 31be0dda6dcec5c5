"""The control group of a daemon, for tests: a real one, where the host lets them have one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vhost_backend.cgroups import host
from vhost_backend.cgroups.host import Home
from vhost_backend.errors import HostError


@contextmanager
def home() -> Iterator[Home]:
    """A daemon's own group; skips the test on a host that has none for us. At the end no group is left in it."""
    try:
        made = host.find()
    except HostError as error:
        pytest.skip(str(error))
    try:
        yield made
    finally:
        made.close()
    assert not made.group.doors[0].parent.exists()
