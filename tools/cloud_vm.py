"""Virtual machine that boots a disk image for clouds, such as Debian's or Ubuntu's: firmware, its own kernel, cloud-init.

A second disk, which cloud-init takes for its data source [NoCloud: a file system with the label CIDATA], logs root in on the serial
console and holds the project's packages. Changes to the image are dropped at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import image, qemu
from tools.architecture import X86_64
from tools.common import die
from tools.debs import guest, package

MEMORY_MIB: Final = 2048
PACKAGES: Final = ("libvgc1", "python3-vgc", "vgc-guest")
MOUNTED_AT: Final = "/media/vgc"
INSTALL: Final = f"apt install {MOUNTED_AT}/*.deb"
_QCOW: Final = b"QFI\xfb"
_QCOW_BACKING: Final = struct.Struct(">8xQ")
"""Begin of qcow2's header up to the offset of the backing file's name, which is 0 without such a file."""
_QCOW_FEATURES: Final = struct.Struct(">72xQ")
"""Begin of the header up to its incompatible features, which version 3 has."""
_QCOW_EXTERNAL_DATA: Final = 1 << 2
_BOOTABLE: Final = b"\x55\xaa"
"""End of a disk's first sector."""
_MESSAGE: Final = f"""
  virtio-gpu-compute: the device is on PCI as 1af4:1066.

    apt update
    {INSTALL}
    vgc info
    poweroff

"""
_GETTY: Final = "/run/systemd/system/serial-getty@ttyS0.service.d"
_LOG_IN: Final = f"""mkdir -p {_GETTY} /run/motd.d {MOUNTED_AT}
printf '[Service]\\nExecStart=\\nExecStart=-/sbin/agetty --autologin root --noclear - $TERM\\n' > {_GETTY}/log-in.conf
systemctl daemon-reload
mount -o ro LABEL=CIDATA {MOUNTED_AT}
cp {MOUNTED_AT}/message /run/motd.d/vgc
"""
"""Commands that the guest runs at each boot, before there is a console."""


def make_seed(folder: Path, packages: Sequence[Path] = ()) -> None:
    """Fills `folder` with the second disk's files: the project's packages of guests, and copies of `packages`."""
    for described in guest.packages():
        if described.name in PACKAGES:
            package.build(described, folder, compress=False)
    for deb in packages:
        shutil.copy(deb, folder)
    (folder / "message").write_text(_MESSAGE)
    (folder / "meta-data").write_text("instance-id: vgc\nlocal-hostname: guest\n")
    (folder / "user-data").write_text(f"#cloud-config\n{json.dumps({'bootcmd': [['sh', '-c', _LOG_IN]]}, indent=1)}\n")


@dataclass(frozen=True, slots=True)
class CloudMachine:
    """Machine that boots the disk `disk`, in qcow2 or raw."""

    disk: Path
    format: str
    seed: Path
    """Folder of the second disk's files."""
    has_network: bool
    accelerator: str
    qemu: qemu.Qemu

    def __str__(self) -> str:
        return f"QEMU {self.qemu.version}, {self.accelerator.upper()}"

    def argv(self) -> list[str]:
        """Returns QEMU's command line without consoles and the device."""
        cpu = "host" if self.accelerator == "kvm" else X86_64.cpu
        disk = f"if=virtio,format={self.format},snapshot=on,file={_escaped(self.disk)}"
        seed = f"if=virtio,readonly=on,driver=vvfat,label=CIDATA,dir={_escaped(self.seed)}"
        network = ["-nic", "user,model=virtio-net-pci"] if self.has_network else ["-nic", "none"]
        return [
            *self.qemu.argv,
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", *network),
            *("-machine", X86_64.machine, "-accel", self.accelerator, "-cpu", cpu),
            *("-smp", "2", "-m", str(MEMORY_MIB), "-drive", disk, "-drive", seed),
        ]


def machine(disk: Path, seed: Path, *, has_network: bool = True) -> CloudMachine:
    """Describes a machine for the image `disk` on this host. `seed`: folder that `make_seed` has filled."""
    found = qemu.find()
    accelerator = qemu.accelerator(found, image.build().kernel)
    return CloudMachine(disk.absolute(), _format(disk), seed, has_network, accelerator, found)


def _format(disk: Path) -> str:
    """Format of an image by its contents.

    An image that names other files is refused: whoever made it would have the guest read any file of this machine.
    """
    try:
        with open(os.open(disk, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            first = file.read(512) if stat.S_ISREG(mode) or stat.S_ISBLK(mode) else b""
    except OSError as error:
        die(f"{disk}: {error.strerror}")
    kind = "qcow2" if first.startswith(_QCOW) else "raw" if first.endswith(_BOOTABLE) else None
    if kind is None:
        die(
            f"{disk} is neither a disk image in qcow2 nor a raw one to boot",
            hint="such as Debian's generic cloud image",
        )
    if kind == "qcow2" and _names_files(first):
        die(
            f"{disk} is an image over another file, which it names",
            hint="`qemu-img convert -O qcow2` makes one of both, if you trust who made it",
        )
    return kind


def _names_files(header: bytes) -> bool:
    header = header.ljust(_QCOW_FEATURES.size, b"\0")
    is_version_2 = header[4:8] == b"\0\0\0\2"
    features = 0 if is_version_2 else _QCOW_FEATURES.unpack_from(header)[0]
    return bool(_QCOW_BACKING.unpack_from(header)[0] or features & _QCOW_EXTERNAL_DATA)


def _escaped(path: Path) -> str:
    """Path in an option of QEMU's, in which commas are doubled."""
    return str(path).replace(",", ",,")
