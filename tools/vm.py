"""``make vm``: a shell in a guest with the device. `exit` powers it off; Ctrl-A X kills QEMU."""

from __future__ import annotations

import subprocess

from tests.vm.vgcd import Vgcd, VmSettings
from tools.common import say
from tools.machine import SHELL, machine

NAME = "demo"


def main() -> int:
    """Boots a guest on this terminal; returns QEMU's exit code."""
    host = machine(memory_mib=1024)
    say(f"booting a guest ({host}); exit powers it off, Ctrl-A X kills QEMU")
    with Vgcd(VmSettings(NAME, num_queues=16), log_level="warning") as vgcd:
        device = vgcd.device(NAME)
        with device.region() as region:
            argv = [*host.argv(SHELL), *device.argv(region), "-serial", "mon:stdio"]
            return subprocess.run(argv, pass_fds=[region], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
