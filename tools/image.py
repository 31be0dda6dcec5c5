"""Guest image, built from Debian packages: kernel, initramfs and a read-only base file system.

Two layers, so that a change of the project's own files costs a fraction of a second:

``base``
    Debian's cloud kernel, and Debian packages in an ext4 image that the guest mounts read-only from virtio-blk
    (`tools/base_image.py`). Lies in the cache.
``initramfs``
    busybox, two kernel modules and the project's files, which the guest lays over the base.

Measured under emulation on two cores: the agent runs after 3.5 to 5 s, with 67 MiB of guest memory in use. A single
initramfs with everything boots no faster (4.4 to 8.5 s; compressed with zstd 5.1 to 5.4 s) and takes 370 MiB.

``python -m tools.image`` builds it and prints its path.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import base_image
from tools.common import BUILD, REPOSITORY, locked, say
from tools.cpio import CpioArchive

GUEST_FILES: Final = REPOSITORY / "tools" / "guest"
PROJECT_FOLDERS: Final = {
    "guest_driver": "opt/vgc/lib/guest_driver",
    "virtio_proto": "opt/vgc/lib/virtio_proto",
    "examples": "root/examples",
}
"""Folders of the project that the guest gets, and their paths there."""

NOT_FOR_GUESTS: Final = frozenset({".o", ".d", ".new"})


@dataclass(frozen=True, slots=True)
class Image:
    """Guest image: three files that QEMU takes, none of which a guest can change."""

    kernel: Path
    initramfs: Path
    base: Path


def build() -> Image:
    """Builds the image from the working tree, if it is out of date."""
    base = base_image.folder()
    initramfs = BUILD / "initramfs.cpio"
    archive = _initramfs(base)
    with locked(BUILD / "initramfs.lock"):
        if not initramfs.exists() or initramfs.read_bytes() != archive:
            partial = initramfs.with_suffix(".partial")
            partial.write_bytes(archive)
            partial.rename(initramfs)  # a guest that is booting keeps the old file
    return Image(base / "vmlinuz", initramfs, base / "base.ext4")


def _initramfs(base: Path) -> bytes:
    archive = CpioArchive()
    for folder in ("proc", "sys", "dev", "base", "top", "root"):
        archive.add_folder(folder)
    archive.add_file("bin/busybox", base / "busybox")
    archive.add_file("init", GUEST_FILES / "init")
    for module in sorted((base / "modules").iterdir()):
        archive.add_file(f"modules/{module.name}", module)
    for name, path in _layer().items():
        archive.add_file(f"layer/{name}", path)
    return archive.data()


def _layer() -> dict[str, Path]:
    """Files of the project in the guest: path there -> file here."""
    layer = {f"opt/vgc/sbin/{name}": GUEST_FILES / name for name in ("start", "agent.py")}
    layer["opt/vgc/motd"] = GUEST_FILES / "motd"
    layer["opt/vgc/bin/vgc"] = GUEST_FILES / "vgc"
    for source, target in PROJECT_FOLDERS.items():
        for path in sorted((REPOSITORY / source).rglob("*")):
            if path.is_file() and path.suffix not in NOT_FOR_GUESTS and "__pycache__" not in path.parts:
                layer[f"{target}/{path.relative_to(REPOSITORY / source)}"] = path
    return layer


if __name__ == "__main__":
    built = build()
    say(f"guest image: {built.base} ({built.base.stat().st_size >> 20} MiB), {built.initramfs}")
