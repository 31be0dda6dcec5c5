"""Image of a Debian for clouds, as a disk in qcow2: a kernel, GRUB, systemd and cloud-init of Debian's packages, and nothing of ours.

Debian's own generic cloud image cannot be had everywhere its packages can. This one is installed by `mmdebstrap`, with all maintainer
scripts, and boots as that one does: firmware, GRUB, kernel, initramfs, systemd, cloud-init (data source NoCloud).

``python -m tools.cloud_image`` builds it in the cache and prints its path; it takes root's rights.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from tools import debian, ext4
from tools.common import cached, die, digest_of, say

SUITE: Final = "trixie"
PACKAGES: Final = (
    *("linux-image-cloud-amd64", "initramfs-tools", "grub-pc-bin", "grub2-common"),
    *("systemd-sysv", "systemd-resolved", "udev", "dbus", "kmod", "iproute2", "netplan.io", "login", "passwd", "sudo"),
    *("cloud-init", "cloud-guest-utils", "e2fsprogs", "fdisk", "apt", "ca-certificates", "procps", "less"),
)
"""Packages beside the essential ones. Not all of priority "important", as ifupdown of these fails beside netplan."""
NEEDED: Final = {"mmdebstrap": "mmdebstrap", "qemu-img": "qemu-utils"}
"""Programs that build it, and their packages."""

IMAGE: Final = "debian.qcow2"
LABEL: Final = "cloudimg-root"
SPARE_BYTES: Final = 1 << 30
SECTOR: Final = 512
FIRST_SECTOR: Final = 2048
"""Begin of the partition; GRUB lies before it."""
LINUX_PARTITION: Final = 0x83
KERNEL_ARGUMENTS: Final = "root=LABEL=cloudimg-root ro console=tty0 console=ttyS0,115200"
GRUB_MODULES: Final = (
    "biosdisk",
    "part_msdos",
    "ext2",
    "linux",
    "normal",
    "configfile",
    "serial",
    "search",
    "search_label",
)
GRUB_CONFIGURATION: Final = """set timeout=0
search --no-floppy --label {label} --set=root
menuentry "Debian" {{
    linux /vmlinuz {arguments}
    initrd /initrd.img
}}
"""
BIOS_CODE_BYTES: Final = 440
"""Length of the boot code in the first sector, before the partition table."""


def image() -> Path:
    """Path of the image; built if this file or its helpers changed."""
    sources = [Path(module) for module in (__file__, debian.__file__, ext4.__file__)]
    return cached("cloud", digest_of(sources), f"an image for clouds of Debian {SUITE}", _build) / IMAGE


def _build(folder: Path) -> None:
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            die(f"there is no {program}", hint=f"Debian: apt-get install {package}")
    if os.geteuid() != 0:
        die("packages are installed into the image with root's rights", hint="run it as root")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    root, raw = partial / "root", partial / "disk.raw"
    _install(root)
    _configure(root)
    ext4.make(root, partial / "root.ext4", label=LABEL, spare_bytes=SPARE_BYTES)
    _make_disk(root, partial / "root.ext4", raw)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, partial / IMAGE], check=True)
    shutil.rmtree(root)
    raw.unlink()
    (partial / "root.ext4").unlink()
    partial.rename(folder)


def _install(root: Path) -> None:
    """Installs Debian into `root`, in namespaces in which nothing of this machine can be changed by it."""
    with debian.private_apt(SUITE) as apt:
        key = next(iter((apt.folder / "sources.list").read_text().split("signed-by=")[1:])).split("]")[0]
    say(f"installing Debian {SUITE} with {len(PACKAGES)} packages and what they need")
    argv: list[str | Path] = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--ipc", "--uts"]
    argv += ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--keyring={key}", "--skip=output/dev"]
    argv += [f"--include={','.join(PACKAGES)}", "--format=directory", SUITE, root, debian.MIRROR]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _configure(root: Path) -> None:
    """Does what installers of disks do: mounts, GRUB's menu, and data sources that need no network."""
    (root / "etc/fstab").write_text(f"LABEL={LABEL} / ext4 rw,discard,errors=remount-ro 0 1\n")
    (root / "etc/hostname").write_text("debian\n")
    (root / "etc/machine-id").write_text("")  # each machine makes its own
    (root / "etc/cloud/cloud.cfg.d/90_sources.cfg").write_text("datasource_list: [NoCloud, None]\n")
    (root / "boot/grub").mkdir(exist_ok=True)
    menu = GRUB_CONFIGURATION.format(label=LABEL, arguments=KERNEL_ARGUMENTS)
    (root / "boot/grub/grub.cfg").write_text(menu)


def _make_disk(root: Path, partition: Path, disk: Path) -> None:
    """Writes a disk with GRUB, a table of one partition [UEFI specification, legacy MBR] and the partition."""
    core = "boot/grub/core.img"
    prefix = "--prefix=(hd0,msdos1)/boot/grub"
    words = ["grub-mkimage", "--format=i386-pc", prefix, f"--output=/{core}", *GRUB_MODULES]
    subprocess.run(["chroot", root, *words], check=True)
    code = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:BIOS_CODE_BYTES]
    sectors = partition.stat().st_size // SECTOR
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", LINUX_PARTITION, b"\xfe\xff\xff", FIRST_SECTOR, sectors)
    first = code.ljust(BIOS_CODE_BYTES, b"\0") + b"\0" * 6 + entry.ljust(64, b"\0") + b"\x55\xaa"
    with disk.open("wb") as file:
        file.write(first + (root / core).read_bytes())
    subprocess.run(
        ["dd", f"if={partition}", f"of={disk}", "bs=1M", "seek=1", "conv=notrunc,sparse", "status=none"], check=True
    )
    with disk.open("r+b") as file:
        file.truncate((FIRST_SECTOR + sectors) * SECTOR)


def main() -> None:
    print(image())


if __name__ == "__main__":
    main()
