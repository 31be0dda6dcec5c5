"""Control groups of version 2, of which the guest's kernel has all controllers, with the daemon's own code and launcher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import vhost_backend
from tests.vm.harness import Guest
from vhost_backend.sandbox.launch import launcher_path

pytestmark = pytest.mark.vm

PACKAGE: Final = Path(vhost_backend.__file__).parent
PROGRAM: Final = Path(__file__).parent / "guest_programs" / "cgroups_v2.py"
FILES: Final = (
    "__init__.py",
    "errors.py",
    "quarters.py",
    *(str(path.relative_to(PACKAGE)) for room in ("cgroups", "cores") for path in (PACKAGE / room).glob("*.py")),
)
HELD: Final = {
    "version": 2,
    "small": -9,
    "small killed": True,
    "large": 0,
    "large killed": False,
    "large throttled": False,
    "slow throttled": True,
    "elements": {"groups": ["elements-of", "elements"], "limits": ["25000 100000", "200"], "used again": True},
    "few": "BlockingIOError: [Errno 11] Resource temporarily unavailable",
}


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Guest() as booted:
        yield booted


def test_limits_hold_at_the_top_of_the_tree_and_in_delegated_groups(guest: Guest) -> None:
    for name in FILES:
        guest.put(PACKAGE / name, f"/tmp/vgcd/vhost_backend/{name}")
    guest.put(launcher_path(), "/tmp/vgcd/vgc-launch")
    guest.put(PROGRAM, "/tmp/vgcd/program.py")
    guest.run("mount -t cgroup2 none /sys/fs/cgroup")
    told = guest.run("PYTHONPATH=/tmp/vgcd:/usr/local/lib/vgc/python python3 /tmp/vgcd/program.py /tmp/vgcd").stdout
    seen: dict[str, Any] = json.loads(told)
    assert seen["by user"].pop("left") == []
    for place in ("at top", "delegated", "by user"):
        assert seen[place] == HELD
    assert seen["left"] == []
    assert seen["kept free"].startswith("/sys/fs/cgroup/vgcd-"), (
        "a service with processes in its own group can be restarted"
    )
    assert seen["group"] == "/sys/fs/cgroup/vgcd.service (version 2)"
    assert seen["own"] == "0::/vgcd.service/daemon"
