"""Guest image, built from Debian packages: kernel, initramfs and a read-only base file system.

Two layers, so that a change of the project's own files costs a fraction of a second:

``base``
    Debian's cloud kernel, and Debian packages in an ext4 image that the guest mounts read-only from virtio-blk
    (`tools/base_image.py`). Lies in the cache.
``initramfs``
    busybox, two kernel modules and the project's files, which the guest lays over the base: those that
    ``make install-guest`` installs, in /usr/local, and examples.

The development image has a base with compilers, and what compiling programs needs of the project.

Measured under emulation on two cores: the agent runs after 3.5 to 5 s, with 67 MiB of guest memory in use. A single
initramfs with everything boots no faster (4.4 to 8.5 s; compressed with zstd 5.1 to 5.4 s) and takes 370 MiB.

Images of other machines than x86-64 are made here, too (`tools.architecture`), with the driver cross-compiled.

``python -m tools.image [--development] [--machine aarch64]`` builds it and prints its path.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import base_image, cross, installation
from tools.architecture import ARCHITECTURES, X86_64, Architecture
from tools.common import BUILD, REPOSITORY, locked, say
from tools.cpio import CpioArchive
from vhost_backend.engines.cpu import cccl

GUEST_FILES: Final = REPOSITORY / "tools" / "guest"
PREFIX: Final = "usr/local"
POWER_BUTTON: Final = "acpi/PWRF/00000080"
"""Program that busybox's acpid runs when the power button is pressed: the name is ACPI's of that event."""

TOOLKIT_LINK: Final = "usr/local/cuda"
"""Place of the CUDA toolkit where Makefiles of CUDA programs look for one."""


@dataclass(frozen=True, slots=True)
class Image:
    """Guest image: three files that QEMU takes and that no guest can change, and the driver in it."""

    kernel: Path
    initramfs: Path
    base: Path
    driver: installation.Built
    """Driver as it was compiled for the guest's machine."""


def build(*, development: bool = False, machine: Architecture = X86_64) -> Image:
    """Builds the image from the working tree, if it is out of date."""
    base = base_image.folder(base_image.DEVELOPMENT if development else base_image.RUNTIME, machine)
    kind = f"{'' if machine == X86_64 else f'.{machine.name}'}{'.dev' if development else ''}"
    initramfs = BUILD / f"initramfs{kind}.cpio"
    driver = installation.built_here() if machine == X86_64 else cross.build(machine)
    archive = _initramfs(base, _project_files(driver, development=development))
    with locked(BUILD / "initramfs.lock"):
        if not initramfs.exists() or initramfs.read_bytes() != archive:
            partial = initramfs.with_suffix(".partial")
            partial.write_bytes(archive)
            partial.rename(initramfs)  # a guest that is booting keeps the old file
    return Image(base / "vmlinuz", initramfs, base / "base.ext4", driver)


def _initramfs(base: Path, layer: installation.Files) -> bytes:
    archive = CpioArchive()
    for folder in ("proc", "sys", "dev", "base", "top", "root"):
        archive.add_folder(folder)
    archive.add_file("bin/busybox", base / "busybox")
    archive.add_file("init", GUEST_FILES / "init")
    for module in sorted((base / "modules").iterdir()):
        archive.add_file(f"modules/{module.name}", module)
    for name, entry in layer.items():
        match entry:
            case installation.Link(target):
                archive.add_link(f"layer/{name}", target)
            case Path() if entry.is_dir():
                archive.add_folder(f"layer/{name}")
            case Path():
                archive.add_file(f"layer/{name}", entry)
            case bytes():
                archive.add_bytes(f"layer/{name}", entry, installation.mode(entry))
    return archive.data()


def _project_files(driver: installation.Built, *, development: bool) -> installation.Files:
    """Files of the project in the guest, by their paths there."""
    layout = installation.Layout()
    installed = dict(installation.runtime(layout, driver))
    layer: dict[str, Path | installation.Link | bytes] = {
        f"opt/vgc/sbin/{name}": GUEST_FILES / name for name in ("start", "agent.py")
    }
    layer[f"opt/vgc/{POWER_BUTTON}"] = GUEST_FILES / POWER_BUTTON
    layer["opt/vgc/motd"] = GUEST_FILES / ("motd.dev" if development else "motd")
    if development:
        installed |= installation.development(layout, driver, nvcc=True)
        if "bin/mynvcc" not in installed:
            layer["opt/vgc/motd"] = _without("mynvcc", GUEST_FILES / "motd.dev")
        installed |= _host_libraries(layout)
        layer[TOOLKIT_LINK] = installation.Link(f"{layout.cuda}")
    layer |= {f"{PREFIX}/{name}": entry for name, entry in installed.items()}
    for path in sorted((REPOSITORY / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            layer[f"root/{path.relative_to(REPOSITORY)}"] = path
    return layer


def _without(program: str, message: Path) -> bytes:
    """A message of commands, a line each, without those of a program."""
    lines = message.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(program)).encode()


def _host_libraries(layout: installation.Layout) -> installation.Files:
    """CUB, Thrust and libcu++, where the host has them: guest and host need the same release."""
    found = cccl.cccl()
    files: dict[str, Path] = {}
    for folder in found.visible if found else ():
        for path in sorted(folder.source.rglob("*")):
            if path.is_file():
                files[f"{layout.cuda}/include/cccl/{path.relative_to(folder.source.parent)}"] = path
    return files


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.image", description="Builds the guest image.")
    parser.add_argument("--development", action="store_true", help="the image with compilers")
    parser.add_argument("--machine", choices=sorted(ARCHITECTURES), default=X86_64.name, help="default: %(default)s")
    arguments = parser.parse_args()
    built = build(development=arguments.development, machine=ARCHITECTURES[arguments.machine])
    say(f"guest image: {built.base} ({built.base.stat().st_size >> 20} MiB), {built.initramfs}")


if __name__ == "__main__":
    main()
