"""PCI functions of a guest as files: a tree as sysfs has it, and programs that see it at /sys.

The device's registers are a file, so that a driver brings it up, and never gets an answer.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto import schema

REGION_BYTES: Final = 4 << 20
_BAR_BYTES: Final = 0x1000
_COMMON, _NOTIFY, _ISR, _DEVICE = range(1, 5)
_AREAS: Final = {_COMMON: (0, 56), _NOTIFY: (0x800, 4), _ISR: (0x100, 1), _DEVICE: (0x200, 0x200)}
"""Offset and length of virtio's areas in BAR 0 [virtio 1.3 §4.1.4]."""
_CAPABILITIES_AT: Final = 0x40
_CAPABILITY_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class PciFiles:
    """The tree in `sys`, of which functions are added, and a folder of state."""

    sys: Path
    state: Path

    def make(self) -> None:
        """Makes a tree without functions."""
        for driver in ("uio_pci_generic", "virtio-pci"):
            (self.sys / "bus/pci/drivers" / driver).mkdir(parents=True)
            (self.sys / "bus/pci/drivers" / driver / "unbind").touch()
        (self.sys / "bus/pci/devices").mkdir()
        (self.sys / "bus/pci/drivers_probe").touch()

    def add(self, address: str, ids: tuple[int, int], *, bar: int, contents: bytes) -> Path:
        """Adds a function with one BAR that has these contents, and returns its folder."""
        folder = self.sys / "bus/pci/devices" / address
        folder.mkdir()
        for name, value in zip(("vendor", "device"), ids, strict=True):
            (folder / name).write_text(f"{value:#06x}\n")
        lines = [f"{0:#018x} {0:#018x} {0:#018x}\n"] * bar
        lines.append(f"{0x10000000:#018x} {0x10000000 + len(contents) - 1:#018x} {0x40200:#018x}\n")
        (folder / "resource").write_text("".join(lines))
        (folder / f"resource{bar}").write_bytes(contents)
        (folder / "config").write_bytes(_configuration_space())
        (folder / "driver_override").touch()
        return folder

    def add_device(self, address: str, config: bytes, *, driver: str = "uio_pci_generic") -> Path:
        """Adds a device whose configuration is `config`, bound to `driver`."""
        registers = bytearray(_BAR_BYTES)
        struct.pack_into("<IIII HHBB HH", registers, 0, 0, 2**32 - 1, 0, 0, 0, 2, 0, 0, 0, 64)
        at, _ = _AREAS[_DEVICE]
        registers[at : at + len(config)] = config
        folder = self.add(address, (0x1AF4, 0x1040 + schema.VIRTIO_ID), bar=0, contents=bytes(registers))
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
        return folder

    def add_region(self, address: str, contents: bytes = b"") -> Path:
        """Adds an ivshmem function and returns the file of its memory."""
        contents = contents.ljust(REGION_BYTES, b"\0")
        return self.add(address, (0x1AF4, 0x1110), bar=2, contents=contents) / "resource2"

    def open(self, options: str = "") -> str:
        """Opens a device in a process that sees this tree at /sys; returns the error's class and text."""
        script = (
            "import guest_driver as vgc\n"
            f"try: vgc.Device(open_timeout_s=0.05, state_dir={str(self.state)!r}, {options})\n"
            "except vgc.VgcError as error: print(type(error).__name__, error)\n"
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VGC_")}
        argv = [*_namespaces(), "sh", "-c", 'mount --bind "$1" /sys && shift && exec "$@"', "sh", str(self.sys)]
        argv += [sys.executable, "-c", script]
        done = subprocess.run(
            argv, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True, timeout=ANSWERS_WITHIN_S
        )
        return done.stdout


def _namespaces() -> list[str]:
    program = shutil.which("unshare")
    argv = [str(program), "--mount"] if os.geteuid() == 0 else [str(program), "--user", "--map-root-user", "--mount"]
    if program is None or subprocess.run([*argv, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine gives no mount namespaces")
    return argv


def _configuration_space() -> bytes:
    space = bytearray(256)
    space[0x34] = _CAPABILITIES_AT
    at = _CAPABILITIES_AT
    for kind, (offset, length) in _AREAS.items():
        following = at + _CAPABILITY_BYTES if kind != _DEVICE else 0
        struct.pack_into("<BBBBBxxxII", space, at, 9, following, _CAPABILITY_BYTES, kind, 0, offset, length)
        at += _CAPABILITY_BYTES
    return bytes(space)
