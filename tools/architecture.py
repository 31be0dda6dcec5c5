"""Machines that guests are emulated on: what Debian, QEMU and the C compilers call each, and how QEMU starts it.

Tests boot guests of the machine that `VGC_GUEST_MACHINE` names, and of x86-64 by default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from tools.common import die

VARIABLE: Final = "VGC_GUEST_MACHINE"


@dataclass(frozen=True, slots=True)
class Architecture:
    """Machine of a guest. `name` is that of ``uname -m``, and QEMU's."""

    name: str
    debian: str
    """Debian's name of it."""
    triplet: str
    """Folder of its libraries in Debian, and prefix of its cross compiler."""
    kernel: str
    """Debian's metapackage of the kernel."""
    qemu_package: str
    machine: str
    """QEMU's ``-machine``."""
    cpu: str
    """QEMU's ``-cpu`` when it emulates one."""
    console: str
    """The kernel's name of the serial port."""

    @property
    def is_native(self) -> bool:
        """True if programs for it run on this host as they are."""
        return self.name == os.uname().machine

    @property
    def compiler(self) -> str:
        """C compiler for it."""
        return "cc" if self.is_native else f"{self.triplet}-gcc"


X86_64: Final = Architecture(
    name="x86_64",
    debian="amd64",
    triplet="x86_64-linux-gnu",
    kernel="linux-image-cloud-amd64",
    qemu_package="qemu-system-x86",
    machine="q35,sata=off,smm=off",
    cpu="max,la57=off",  # five-level paging only costs emulation time
    console="ttyS0",
)
AARCH64: Final = Architecture(
    name="aarch64",
    debian="arm64",
    triplet="aarch64-linux-gnu",
    kernel="linux-image-cloud-arm64",
    qemu_package="qemu-system-arm",
    machine="virt",
    cpu="max,pauth-impdef=on",  # the architected signing of pointers costs half of the emulation's time
    console="ttyAMA0",
)
RISCV64: Final = Architecture(
    name="riscv64",
    debian="riscv64",
    triplet="riscv64-linux-gnu",
    kernel="linux-image-riscv64",
    qemu_package="qemu-system-riscv",
    machine="virt",
    cpu="rv64",
    console="ttyS0",
)
ARCHITECTURES: Final = {one.name: one for one in (X86_64, AARCH64, RISCV64)}


def wanted() -> Architecture:
    """The machine that `VGC_GUEST_MACHINE` names."""
    name = os.environ.get(VARIABLE) or X86_64.name
    if name not in ARCHITECTURES:
        die(f"{VARIABLE}={name}: there is no guest of such a machine", hint=f"there are: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]
