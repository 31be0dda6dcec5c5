"""A guest whose RAM is shared memory, as virtiofs needs it, and that has two devices: each worker has its own region."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

NAMES: Final = ("one", "two")
HOLD: Final = """
import pathlib, guest_driver as vgc
with vgc.Device(0) as one, vgc.Device(1) as two:
    print(*sorted(device.info().vm_name for device in (one, two)))
    pathlib.Path("/root/open").touch()
    while not pathlib.Path("/root/leave").exists():
        pass
"""


def shared_files(pid: int) -> set[tuple[str, str]]:
    """Name and inode of each memory file, except the daemon's own, that a process and its descendants have mapped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    maps = Path(f"/proc/{pid}/maps").read_text()
    mapped = set(re.findall(r" (\d+) +/memfd:(vgc-region|memory-backend-memfd) ", maps))
    return mapped.union(*(shared_files(int(child)) for child in children))


def test_each_worker_maps_its_region_and_neither_ram_nor_the_others() -> None:
    settings = [VmSettings(name, region_bytes=16 << 20, extra={"engine": "null"}) for name in NAMES]
    with Vgcd(*settings) as vgcd, Guest(*(vgcd.device(name) for name in NAMES), shared_ram=True) as guest:
        command = f"python3 -c {shlex.quote(HOLD)}"
        holding = guest.start(command)
        guest.run("while ! test -e /root/open; do sleep 0.1; done")
        mapped = [shared_files(pid) for pid in vgcd.worker_pids()]
        guest.run("touch /root/leave")
        assert guest.result(holding, command).stdout == "one two\n"
        assert [{name for _, name in files} for files in mapped] == [{"vgc-region"}] * 2
        assert [len(files) for files in mapped] == [1, 1]
        assert mapped[0] != mapped[1]
