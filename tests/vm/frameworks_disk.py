"""The disk with frameworks in Python in a guest: for tests and benchmarks, whose guests have it as /dev/vdb."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.vm.harness import Guest
from tools import frameworks

MOUNTED: Final = Path("/opt/frameworks")


def mount(guest: Guest) -> None:
    """Mounts the disk of a guest that has just booted."""
    guest.run(f"mkdir -p {MOUNTED} && mount -t ext4 -o ro /dev/vdb {MOUNTED}")


def command(program: str | Path, settings: Mapping[str, str]) -> str:
    """Shell command that runs a program in Python by `vgc exec`, with `settings` in its environment."""
    assigned = " ".join(f"{name}={value}" for name, value in settings.items())
    libraries = f"LD_LIBRARY_PATH={MOUNTED / frameworks.DISK_LIBRARIES}:$LD_LIBRARY_PATH"
    return f"{assigned} {libraries} vgc exec {MOUNTED / frameworks.DISK_PYTHON} {program}"
