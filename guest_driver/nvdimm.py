"""NVDIMMs of this guest through sysfs, and their conversion to devdax mode, in which libvgc maps one as a region."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guest_driver.errors import InvalidArgument, NoDevice, SystemFailure

MIB: Final = 1 << 20
ALIGN: Final = 2 * MIB
"""Unit of a devdax, in bytes: a large page of the guest."""

RESERVED: Final = 2 * MIB
"""Bytes at an NVDIMM's begin that the kernel keeps for itself."""

REGION_MAGIC: Final = struct.pack("<Q", 0x316E6F6967655247)
"""First bytes of a region that libvgc has used (`guest_driver/libvgc/src/internal.h`)."""

MODULE_FOLDERS: Final = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")
"""Folders in which distributions have modprobe."""

READ_BYTES: Final = MIB


@dataclass(frozen=True, slots=True)
class Namespace:
    """Namespace of an NVDIMM, which is all of it."""

    name: str
    size_bytes: int
    disk: str
    """Name of its block device, "" if it has none."""

    devdax: str
    """Name of the devdax that was made of it, "" while it was not made."""


class Nvdimms:
    """NVDIMMs of this machine. `sys` and `dev` are where sysfs and devices are."""

    def __init__(self, sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> None:
        self._nd = sys / "bus" / "nd"
        self._dax = sys / "bus" / "dax" / "devices"
        self._dev = dev

    def namespaces(self) -> list[Namespace]:
        """Lists the namespaces, by name."""
        found = sorted((self._nd / "devices").glob("namespace*"))
        return [self._namespace(path) for path in found if _text(path / "size") not in ("", "0")]

    def _namespace(self, path: Path) -> Namespace:
        region = path.resolve().parent
        disks = sorted(disk.name for disk in (path / "block").glob("*"))
        return Namespace(
            path.name, int(_text(region / "size")), disks[0] if disks else "", self._devdax(region, path.name)
        )

    def _devdax(self, region: Path, namespace: str) -> str:
        for found in sorted(self._dax.glob("dax*")):
            device = found.resolve().parent
            if device.parent == region and _text(device / "namespace") == namespace:
                return found.name
        return ""

    def choose(self, name: str | None, region_sizes: set[int]) -> Namespace:
        """Returns the namespace of that name, or the only one whose NVDIMM has one of these sizes.

        :raise NoDevice: no namespace fits, or several do and there is no name.
        """
        found = self.namespaces()
        shown = ", ".join(f"{one.name} of {one.size_bytes / MIB:g} MiB" for one in found) or "none"
        if name is not None:
            for one in found:
                if one.name == name:
                    return one
            raise NoDevice(f"{name}: no such namespace of an NVDIMM; this machine has: {shown}")
        if not found:
            raise NoDevice(
                "this machine has no NVDIMM that its kernel shows (modules nfit, nd_pmem); QEMU gives it one with -device nvdimm "
                "and the region's file"
            )
        fitting = [one for one in found if one.size_bytes in region_sizes]
        if len(fitting) == 1:
            return fitting[0]
        sizes = ", ".join(f"{size / MIB:g} MiB" for size in sorted(region_sizes)) or "none that is known"
        raise NoDevice(
            f"{len(fitting)} NVDIMMs have the size of a region ({sizes}); this machine has: {shown}; allowed: the name of "
            "a namespace behind --devdax"
        )

    def make_devdax(self, namespace: Namespace, *, overwrites: bool = False) -> str:
        """Makes a devdax of a namespace, and returns its name. Its contents are lost. Takes root rights.

        :raise InvalidArgument: the namespace is in use, too small, or has data and `overwrites` is not set.
        :raise SystemFailure: the kernel refuses.
        """
        if namespace.devdax:
            return namespace.devdax
        if namespace.size_bytes < RESERVED + ALIGN:
            raise InvalidArgument(
                f"{namespace.name} has {namespace.size_bytes / MIB:g} MiB, of which the kernel keeps {RESERVED // MIB} MiB; "
                f"allowed: at least {(RESERVED + ALIGN) // MIB} MiB"
            )
        self._load_modules()
        (namespace,) = (one for one in self.namespaces() if one.name == namespace.name)  # with a disk that has come
        if not namespace.disk and not overwrites:
            raise InvalidArgument(
                f"{namespace.name} has no disk in which its data could be looked for (it may belong to a BTT); allowed: one "
                "that has; --overwrite destroys the data"
            )
        if namespace.disk:
            with self._hold_disk(namespace, overwrites):
                _write(self._nd / "drivers/nd_pmem/unbind", namespace.name)
        try:
            self._convert(namespace)
        except SystemFailure:
            if namespace.disk and not self._devdax(self._region(namespace), namespace.name):
                _write(self._nd / "drivers/nd_pmem/bind", namespace.name)
            raise
        made = self._devdax(self._region(namespace), namespace.name)
        if not made or not (self._dev / made).exists():
            raise SystemFailure(f"{namespace.name} was converted, and no devdax came of it; the kernel's log says why")
        return made

    def _load_modules(self) -> None:
        """Loads the kernel's drivers of NVDIMMs as disks and as devdaxes if they are not there."""
        of_bus = self._nd / "drivers"
        drivers = {"nd_pmem": of_bus, "dax_pmem": of_bus, "device_dax": self._dax.parent / "drivers"}
        for name, folder in drivers.items():
            if (folder / name).exists():
                continue
            program = shutil.which("modprobe", path=os.pathsep.join(MODULE_FOLDERS))
            if program is None:
                raise SystemFailure(f"the kernel's driver {name} is not loaded, and there is no modprobe to load it")
            done = subprocess.run([program, name], check=False, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemFailure(f"the kernel's driver {name} cannot be loaded: {done.stderr.strip()}")

    def _region(self, namespace: Namespace) -> Path:
        return (self._nd / "devices" / namespace.name).resolve().parent

    @contextmanager
    def _hold_disk(self, namespace: Namespace, overwrites: bool) -> Iterator[None]:
        """Holds a disk that is free, so that nobody can mount it until it is gone."""
        disk = self._dev / namespace.disk
        try:
            fd = os.open(disk, os.O_RDONLY | os.O_EXCL)  # which fails while it is mounted, or part of another device
        except OSError as error:
            raise InvalidArgument(
                f"{namespace.name}: {disk} is in use ({error.strerror}); allowed: one that is not"
            ) from None
        with os.fdopen(fd, "rb", buffering=0) as file:
            if not overwrites and not _is_free(file):
                raise InvalidArgument(
                    f"{namespace.name}: {disk} has data; allowed: an NVDIMM of zeroes, or a region; --overwrite destroys the data"
                )
            yield

    def _convert(self, namespace: Namespace) -> None:
        seed = self._nd / "devices" / _text(self._region(namespace) / "dax_seed")
        for file, value in (
            ("align", str(ALIGN)),
            ("mode", "ram"),
            ("uuid", str(uuid.uuid4())),
            ("namespace", namespace.name),
        ):
            _write(seed / file, value)
        try:
            _write(self._nd / "drivers/dax_pmem/bind", seed.name)
        except SystemFailure:
            _write(seed / "namespace", "")  # so that the disk may have it back
            raise


def _is_free(file: object) -> bool:
    """Whether a disk has zeroes alone, or begins as a region that libvgc has used."""
    read = file.read  # type: ignore[attr-defined]
    first = read(READ_BYTES)
    if first.startswith(REGION_MAGIC):
        return True
    while first:
        if first.count(0) != len(first):
            return False
        first = read(READ_BYTES)
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise SystemFailure(f"cannot write {text!r} to {path}: {error.strerror}") from None
