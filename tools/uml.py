"""Finds User-Mode Linux, Linux as a program of this host: the system's, or Debian's unpacked into the cache.

It is a second vhost-user frontend beside QEMU, with the kernel's own code; it boots in about a second and needs no KVM.
``python -m tools.uml`` prepares it and prints its path.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say
from tools.debian import private_apt, unpack

PROGRAM: Final = "linux.uml"
PACKAGE: Final = "user-mode-linux"
SUITE: Final = "bookworm"
"""Oldest suite that the project builds on: its kernel needs a C library that every supported host has."""

MODULES: Final = "usr/lib/uml/modules"


@dataclass(frozen=True, slots=True)
class UserModeLinux:
    """Kernel that runs as a program, and the folder of its modules (``kernel/drivers/...``)."""

    program: Path
    modules: Path

    def argv(self, *, socket: Path, virtio_id: int, init: tuple[str, ...], folder: Path) -> list[str]:
        """Builds the command line of a machine with the host's files, read-only, and one virtio device.

        `socket`: the device's backend; `init`: the first process; `folder`: for the kernel's own files. The console is the
        standard output.
        """
        program, *arguments = init
        return [
            str(self.program),
            *("mem=128M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
            *("console=tty0", "con=null", "con0=null,fd:1", f"uml_dir={folder}", f"umid={virtio_id}"),
            f"virtio_uml.device={socket}:{virtio_id}",
            *(f"init={program}", "--", *arguments),
        ]


@cache
def find() -> UserModeLinux:
    """Returns the User-Mode Linux to use. The first call on a machine may download it."""
    program = shutil.which(PROGRAM)
    root = Path("/") if program is not None else _unpacked()
    (release,) = (root / MODULES).iterdir()
    return UserModeLinux(Path(program or root / "usr/bin" / PROGRAM), release)


def _unpacked() -> Path:
    root = cache_folder() / "uml"
    with locked(cache_folder() / "uml.lock"):
        if not root.exists():
            _unpack_into(root)
    return root


def _unpack_into(root: Path) -> None:
    say(f"no {PROGRAM} on this machine: unpacking Debian's into {root}")
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with private_apt(SUITE) as apt:
        unpack([apt.fetch_alone(PACKAGE)], partial)
    partial.rename(root)


if __name__ == "__main__":
    found = find()
    say(f"User-Mode Linux with the modules of {found.modules.name}")
    print(found.program)
