"""Frameworks in Python, unchanged from PyPI, in a guest: the examples, with `vgc exec`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.frameworks.examples import EXAMPLES, Example
from tests.vm import frameworks_disk
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tests.vm.workbench import needs_toolkit
from tools import frameworks

pytestmark = [pytest.mark.vm, needs_toolkit]

REGION_BYTES: Final = 256 << 20


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A guest with compilers and with a disk on which the frameworks are installed."""
    settings = VmSettings("frameworks", region_bytes=REGION_BYTES)
    with (
        Vgcd(settings) as vgcd,
        Guest(vgcd.device(settings.name), development=True, disks=[frameworks.disk()]) as guest,
    ):
        frameworks_disk.mount(guest)
        yield guest


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_computes_in_a_guest(guest: Guest, example: Example) -> None:
    if frameworks.python(example.framework) is None:
        pytest.skip("needs `make frameworks`")
    assert example.says in guest.run(frameworks_disk.command(example.path, example.settings)).stdout
