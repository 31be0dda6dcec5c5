"""``make vm``: a shell in a guest with the device. `exit` powers it off; Ctrl-A X kills QEMU.

``make vm DEV=1`` (``--development``) boots the guest with compilers.
"""

from __future__ import annotations

import argparse
import subprocess

from tests.vm.vgcd import Vgcd, VmSettings
from tools import installation
from tools.common import REPOSITORY, say
from tools.machine import SHELL, machine

NAME = "demo"


def main() -> int:
    """Boots a guest on this terminal; returns QEMU's exit code."""
    parser = argparse.ArgumentParser(prog="tools.vm", description=__doc__)
    parser.add_argument("--development", action="store_true", help="a guest with compilers")
    development = parser.parse_args().development
    host = machine(development=True) if development else machine(memory_mib=1024)
    if development and not installation.has_toolkit():
        say(f"no mynvcc in the guest: there is no CUDA toolkit at {installation.TOOLKIT.relative_to(REPOSITORY)}")
    say(f"booting a guest ({host}); exit powers it off, Ctrl-A X kills QEMU")
    with Vgcd(VmSettings(NAME, num_queues=16), log_level="warning") as vgcd:
        device = vgcd.device(NAME)
        with device.region() as region:
            argv = [*host.argv(SHELL), *device.argv(region), "-serial", "mon:stdio"]
            return subprocess.run(argv, pass_fds=[region], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
