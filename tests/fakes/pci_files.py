"""PCI functions and devdaxes of a guest as files: a tree as sysfs has it, and programs that see it at /sys.

The device's registers are a file, so that a driver brings it up, and never gets an answer.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import uuid
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
DEVDAX: Final = "dax0.0"
DEVDAX_OFFSET: Final = 2 << 20
"""Begin of a devdax in its NVDIMM, in bytes: the kernel keeps what is before."""

_CAPABILITIES_AT: Final = 0x40
_CAPABILITY_BYTES: Final = 20
_UUID: Final = uuid.UUID("21dd3cbf-5e3b-4b14-a21a-5dbf86b2ac0f")
_INFO_AT: Final = 4096
"""Offset of the kernel's page in an NVDIMM in devdax mode."""
_SLOW_FILE: Final = Path(__file__).with_name("slow_file.c")
_SETS_UP: Final = """mount --bind "$1" /sys
if test -f "$2/dax0.0"; then
    mount --rbind /dev "$2/dev"
    mount -t tmpfs devices /dev
    ln -s "$2"/dev/* /dev/
    : > /dev/dax0.0
    mount --bind "$2/dax0.0" /dev/dax0.0
fi
shift 2
exec "$@"
"""
"""Shell script that has a program see the tree, and the devdax if there is one."""


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
        (folder / f"resource{bar}_wc").hardlink_to(folder / f"resource{bar}")
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

    def add_devdax(self, region: Path) -> Path:
        """Adds the NVDIMM of a region in devdax mode, and returns the file of the devdax.

        The devdax has a file of its own, so that what is written there and what is written into the region can be told apart.
        """
        nvdimm = self.sys / "devices/region0"
        folder = nvdimm / "dax0.1" / DEVDAX
        folder.mkdir(parents=True)
        (nvdimm / "size").write_text(f"{REGION_BYTES}\n")
        (nvdimm / "resource").write_text("0x100000000\n")
        (folder.parent / "uuid").write_text(f"{_UUID}\n")
        (folder / "size").write_text(f"{REGION_BYTES - DEVDAX_OFFSET}\n")
        (folder / "resource").write_text(f"{0x100000000 + DEVDAX_OFFSET:#x}\n")
        (self.sys / "bus/dax/devices").mkdir(parents=True)
        (self.sys / "bus/dax/devices" / DEVDAX).symlink_to(f"../../../devices/region0/dax0.1/{DEVDAX}")
        with region.open("r+b") as file:
            file.seek(_INFO_AT)
            file.write(b"NVDIMM_DAX_INFO\0" + _UUID.bytes)
        self._devices.mkdir()
        (self._devices / "dev").mkdir()
        devdax = self._devices / DEVDAX
        devdax.write_bytes(bytes(REGION_BYTES - DEVDAX_OFFSET))
        return devdax

    @property
    def _devices(self) -> Path:
        return self.sys.with_name("devices")

    def open(self, options: str = "", *, slow: Path | None = None) -> str:
        """Opens a device in a process that sees this tree at /sys; returns the error's class and text.

        :param slow: file of which the process finds that reading it takes long.
        """
        script = (
            "import guest_driver as vgc\n"
            f"try: vgc.Device(open_timeout_s=0.05, state_dir={str(self.state)!r}, {options})\n"
            "except vgc.VgcError as error: print(type(error).__name__, error)\n"
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VGC_")}
        argv = [*_namespaces(), "sh", "-e", "-c", _SETS_UP, "sh", str(self.sys), str(self._devices)]
        if slow is not None:
            library = self.sys.with_name("slow_file.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, _SLOW_FILE], check=True)
            preloaded = filter(None, (os.environ.get("LD_PRELOAD"), str(library)))
            argv += ["env", f"LD_PRELOAD={' '.join(preloaded)}", f"VGC_SLOW_FILE=/{slow.name}"]
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
