"""Finds a QEMU that has the generic vhost-user device: the system's, or Debian's unpacked into the cache.

``python -m tools.qemu`` prepares it and prints the command that starts it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.architecture import X86_64, Architecture
from tools.common import cache_folder, locked, say
from tools.debian import private_apt, unpack

DEVICE: Final = "vhost-user-test-device-pci"
SUITES: Final = ("trixie", "trixie-backports")
FIRMWARE: Final = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")
PROBE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Qemu:
    """Usable QEMU: the beginning of its command line, and its version for people."""

    argv: tuple[str, ...]
    version: str


@cache
def find(architecture: Architecture = X86_64) -> Qemu:
    """Returns the QEMU that emulates the machine. The first call on a host may download it."""
    argv = _system(architecture) or _unpacked(architecture)
    version = _output([*argv, "-version"]).split("version ", 1)[1].split()[0]
    return Qemu(argv, version)


@cache
def accelerator(qemu: Qemu, kernel: Path) -> str:
    """Returns ``kvm`` if `kernel` boots with it, else ``tcg``.

    Only a boot is proof: /dev/kvm may exist and refuse a machine, or stop it at its first instructions. The kernel
    gets no root file system, so that a successful boot panics at once and ends QEMU.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    argv = [*qemu.argv, "-accel", "kvm", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]
    argv += ["-kernel", str(kernel), "-append", "panic=-1 quiet"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as boot:
        timer = threading.Timer(PROBE_SECONDS, boot.kill)
        timer.start()
        assert boot.stderr is not None
        refused = any("KVM" in line for line in boot.stderr)
        if refused:
            boot.kill()
        timer.cancel()
    return "kvm" if boot.returncode == 0 else "tcg"


def _program(architecture: Architecture) -> str:
    return f"qemu-system-{architecture.name}"


def _system(architecture: Architecture) -> tuple[str, ...] | None:
    """Returns the installed QEMU, if it lists the device; its version would be no proof."""
    program = shutil.which(_program(architecture))
    if program is None:
        return None
    argv = [program, "-machine", "none", "-device", f"{DEVICE},help"]
    done = subprocess.run(argv, capture_output=True, check=False)
    return (program,) if done.returncode == 0 else None


def unpacked_root(architecture: Architecture = X86_64) -> Path:
    """Folder with Debian's QEMU and all that it needs; the first call downloads it."""
    root = cache_folder() / ("qemu" if architecture == X86_64 else f"qemu-{architecture.name}")
    with locked(root.with_name(f"{root.name}.lock")):
        if not root.exists():
            _unpack_into(root, architecture)
    return root


def _unpacked(architecture: Architecture) -> tuple[str, ...]:
    """Returns Debian's QEMU in the cache, run with its own C library so that it fits any host."""
    root = unpacked_root(architecture)
    return (
        str(root / "lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        str(root / "usr/lib/x86_64-linux-gnu"),
        str(root / "usr/bin" / _program(architecture)),
        *(word for folder in FIRMWARE for word in ("-L", str(root / folder)) if (root / folder).exists()),
    )


def _unpack_into(root: Path, architecture: Architecture) -> None:
    say(f"unpacking Debian's QEMU for {architecture.name}, which has the {DEVICE}, into {root}")
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with private_apt(*SUITES) as apt:
        unpack(apt.fetch([architecture.qemu_package], release=SUITES[-1]), partial)
    partial.rename(root)


def _output(argv: Sequence[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True).stdout


if __name__ == "__main__":
    say(f"QEMU {find().version} has the {DEVICE}")
    print(shlex.join(find().argv))
