"""``make vm``: a shell in a guest with the device. `exit` powers it off; Ctrl-A X kills QEMU.

``make vm DEV=1`` (``--development``) boots the guest with compilers. ``FILES=FOLDER`` (``--files``) gives it copies of
files or folders, in /root.
"""

from __future__ import annotations

import argparse
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.vm.vgcd import Vgcd, VmSettings
from tools import installation
from tools.common import REPOSITORY, die, say
from tools.machine import SHELL, disk, machine

NAME = "demo"


def drive(paths: Sequence[Path], folder: Path) -> list[str]:
    """Packs files and folders, without git's, into a drive that the guest unpacks when it starts.

    `folder`: place of the drive's file. Returns arguments of QEMU.
    """
    packed = folder / "files.tar"
    with tarfile.open(packed, "w") as archive:
        for path in paths:
            archive.add(path.resolve(), path.resolve().name, filter=_without_git)
    return disk(packed)


def _without_git(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == ".git" else entry


def main() -> int:
    """Boots a guest on this terminal; returns QEMU's exit code."""
    parser = argparse.ArgumentParser(prog="tools.vm", description=__doc__)
    parser.add_argument("--development", action="store_true", help="a guest with compilers")
    parser.add_argument("--files", type=Path, nargs="+", default=[], help="files and folders to copy into the guest")
    arguments = parser.parse_args()
    development = arguments.development
    for path in arguments.files:
        if not path.exists():
            die(f"{path}: no such file or folder")
    host = machine(development=True) if development else machine(memory_mib=1024)
    if development and not installation.has_toolkit():
        say(f"no mynvcc in the guest: there is no CUDA toolkit at {installation.TOOLKIT.relative_to(REPOSITORY)}")
    say(f"booting a guest ({host}); exit powers it off, Ctrl-A X kills QEMU")
    with (
        tempfile.TemporaryDirectory(prefix="vgc-files-") as folder,
        Vgcd(VmSettings(NAME, num_queues=16), log_level="warning") as vgcd,
    ):
        device = vgcd.device(NAME)
        with device.region() as region:
            argv = [*host.argv(SHELL), *device.argv(region), "-serial", "mon:stdio"]
            if arguments.files:
                argv += drive(arguments.files, Path(folder))
            return subprocess.run(argv, pass_fds=[region], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
