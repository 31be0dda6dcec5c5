"""Frameworks in Python, unchanged from PyPI, in a guest: the examples, with `vgc exec`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.frameworks.examples import EXAMPLES, Example
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tests.vm.workbench import needs_toolkit
from tools import frameworks

pytestmark = [pytest.mark.vm, needs_toolkit]

MOUNTED: Final = Path("/opt/frameworks")
REGION_BYTES: Final = 256 << 20


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A guest with compilers and with a disk on which the frameworks are installed."""
    settings = VmSettings("frameworks", region_bytes=REGION_BYTES)
    with (
        Vgcd(settings) as vgcd,
        Guest(vgcd.device(settings.name), development=True, disks=[frameworks.disk()]) as guest,
    ):
        guest.run(f"mkdir -p {MOUNTED} && mount -t ext4 -o ro /dev/vdb {MOUNTED}")
        yield guest


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_computes_in_a_guest(guest: Guest, example: Example) -> None:
    if frameworks.python(example.framework) is None:
        pytest.skip("needs `make frameworks`")
    settings = " ".join(f"{name}={value}" for name, value in example.settings.items())
    libraries = f"LD_LIBRARY_PATH={MOUNTED / frameworks.DISK_LIBRARIES}:$LD_LIBRARY_PATH"
    done = guest.run(f"{settings} {libraries} vgc exec {MOUNTED / frameworks.DISK_PYTHON} {example.path}")
    assert example.says in done.stdout
