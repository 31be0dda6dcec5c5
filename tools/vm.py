"""``make vm``: a shell in a guest with the device. `exit` powers it off; Ctrl-A X kills QEMU.

``make vm DEV=1`` (``--development``) boots the guest with compilers. ``FRAMEWORKS=1`` (``--frameworks``) gives it the frameworks
in Python that ``make frameworks`` has installed, else tinygrad alone, as ``python``. ``FILES=FOLDER`` (``--files``) gives it copies of
files or folders, in /root. ``MACHINE=aarch64`` (``--machine``) emulates a guest of such a machine.

``IMAGE=FILE`` (``--image``) boots a disk image for clouds instead, such as Debian's, in which nothing of the project is installed
yet: root is logged in on the console, and the packages to install are there. What is changed on the disk is dropped at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.vm.vgcd import Vgcd, VmSettings
from tools import cloud_vm, frameworks, installation
from tools.architecture import ARCHITECTURES, X86_64, wanted
from tools.common import REPOSITORY, die, say
from tools.machine import FILES, FRAMEWORKS, SHELL, disk, machine

NAME = "demo"
SHELL_MEMORY_MIB = 1024


def packed(paths: Sequence[Path], folder: Path) -> Path:
    """Packs files and folders, without git's, into an image that a guest unpacks when it starts. `folder`: its place."""
    image = folder / "files.tar"
    with tarfile.open(image, "w") as archive:
        for path in paths:
            archive.add(path.resolve(), path.resolve().name, filter=_without_git)
    return image


def disks(files: Path | None, packages: Path | None) -> tuple[str, list[str]]:
    """Gives a shell's guest disks. Returns the kernel arguments that start it, and arguments of QEMU."""
    kernel, argv = [SHELL], []
    given = [(name, image) for name, image in ((FILES, files), (FRAMEWORKS, packages)) if image is not None]
    for letter, (name, image) in zip("bc", given, strict=False):
        kernel.append(f"{name}=/dev/vd{letter}")
        argv += disk(image)
    return " ".join(kernel), argv


def boot_image(disk: Path) -> int:
    """Boots a disk image for clouds on this terminal; returns QEMU's exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="vgc-cloud-") as folder,
        Vgcd(VmSettings(NAME), log_level="warning") as vgcd,
    ):
        host = cloud_vm.machine(disk, Path(folder))
        cloud_vm.make_seed(Path(folder))
        say(f"booting {disk} ({host}), which takes minutes without KVM; poweroff ends it, Ctrl-A X kills QEMU")
        device = vgcd.device(NAME)
        with device.region() as region:
            argv = [*host.argv(), *device.argv(region), "-serial", "mon:stdio"]
            return subprocess.run(argv, pass_fds=[region], check=False).returncode


def _without_git(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == ".git" else entry


def main() -> int:
    """Boots a guest on this terminal; returns QEMU's exit code."""
    parser = argparse.ArgumentParser(prog="tools.vm", description=__doc__)
    parser.add_argument("--development", action="store_true", help="a guest with compilers")
    parser.add_argument("--frameworks", action="store_true", help="one with frameworks in Python, and with compilers")
    parser.add_argument("--files", type=Path, nargs="+", default=[], help="files and folders to copy into the guest")
    parser.add_argument(
        "--image", type=Path, help="disk image for clouds, in qcow2 or raw, to boot instead of the project's guest"
    )
    parser.add_argument("--machine", choices=sorted(ARCHITECTURES), default=wanted().name, help="default: %(default)s")
    arguments = parser.parse_args()
    emulated = ARCHITECTURES[arguments.machine]
    if arguments.frameworks and emulated != X86_64:
        die(f"the frameworks are installed for {X86_64.name} alone", hint="FRAMEWORKS=1 or MACHINE, not both")
    development = arguments.development or arguments.frameworks
    if arguments.image is not None:
        if development or arguments.files or emulated != X86_64:
            die("--image boots the image as it is", hint="IMAGE without DEV, FRAMEWORKS, FILES and MACHINE")
        return boot_image(arguments.image)
    for path in arguments.files:
        if not path.exists():
            die(f"{path}: no such file or folder")
    memory_mib = None if development else SHELL_MEMORY_MIB
    host = machine(development=development, memory_mib=memory_mib, wanted=emulated)
    if development and not installation.has_toolkit():
        say(f"no mynvcc in the guest: there is no CUDA toolkit at {installation.TOOLKIT.relative_to(REPOSITORY)}")
    if arguments.frameworks and frameworks.python() is None:
        say("`make frameworks` installs numba, Triton and PyCUDA, too: this guest has tinygrad alone")
    say(f"booting a guest ({host}); exit powers it off, Ctrl-A X kills QEMU")
    with (
        tempfile.TemporaryDirectory(prefix="vgc-files-") as folder,
        Vgcd(VmSettings(NAME, num_queues=16), log_level="warning") as vgcd,
    ):
        device = vgcd.device(NAME)
        with device.region() as region:
            kernel, drives = disks(
                packed(arguments.files, Path(folder)) if arguments.files else None,
                frameworks.disk() if arguments.frameworks else None,
            )
            argv = [*host.argv(kernel), *device.argv(region), *drives, "-serial", "mon:stdio"]
            return subprocess.run(argv, pass_fds=[region], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
