"""``vgc doctor``: things that this machine needs for the device, and how to get those that are missing."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guest_driver.device import Device, devices
from guest_driver.errors import VgcError

UIO_DRIVER: Final = "uio_pci_generic"
DRIVERS: Final = Path("/sys/bus/pci/drivers")
MODULES: Final = Path("/lib/modules")


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `hint` says what to do if it is not well."""

    well: bool
    text: str
    hint: str = ""

    def __str__(self) -> str:
        hint = "" if self.well or not self.hint else f"\n        -> {self.hint}"
        return f"[{'ok' if self.well else '!!':^4}] {self.text}{hint}"


def rights() -> Finding:
    root = os.geteuid() == 0
    return Finding(
        root, f"user id {os.geteuid()}", "run as root, or give this user the device's sysfs files and /dev/uioN"
    )


def kernel_driver(drivers: Path = DRIVERS, modules: Path = MODULES) -> Finding:
    """Checks that the kernel's generic UIO driver is loaded, or installed."""
    if (drivers / UIO_DRIVER).is_dir():
        return Finding(well=True, text=f"kernel driver {UIO_DRIVER} is loaded")
    release = platform.release()
    files = modules / release
    if any(files.rglob(f"{UIO_DRIVER}.ko*")):
        return Finding(well=False, text=f"kernel driver {UIO_DRIVER} is not loaded", hint=f"modprobe {UIO_DRIVER}")
    hint = f"install the kernel's modules (Debian: linux-image-{release}), then modprobe {UIO_DRIVER}"
    return Finding(well=False, text=f"kernel {release} has no module {UIO_DRIVER}", hint=hint)


def functions() -> Finding:
    """Checks that the device and its region are on the PCI bus."""
    try:
        found = devices()
    except VgcError as error:
        return Finding(well=False, text=f"the PCI bus cannot be read: {error}", hint="mount sysfs at /sys")
    if not found:
        hint = (
            "on the host: give QEMU the vhost-user device and ivshmem-plain, see the README; the guest cannot mend this"
        )
        return Finding(well=False, text="no PCI function 1af4:1066", hint=hint)
    lines = [
        f"{one.address} (driver {one.driver or 'none'}, {one.uio or 'no UIO node'}, region {one.region_address or 'none'})"
        for one in found
    ]
    well = all(one.region_address for one in found)
    return Finding(
        well, "on the PCI bus: " + "; ".join(lines), "QEMU lacks -device ivshmem-plain with the region's file"
    )


def numpy_is_there() -> Finding:
    try:
        import numpy as np
    except ImportError:
        return Finding(well=False, text="numpy is not installed: only raw bytes", hint="apt install python3-numpy")
    return Finding(well=True, text=f"numpy {np.__version__}")


def opens(address: str | None) -> Finding:
    """Checks that the device answers a request, the only proof that it works."""
    try:
        with Device(address=address) as device:
            timing = device.nop()
            info = device.info()
    except VgcError as error:
        return Finding(
            well=False, text=f"the device does not work: {error}", hint="first mend the problems above, if any"
        )
    text = f"{info.engine_name} answers in {timing.total_ns / 1e3:.1f} us"
    return Finding(well=True, text=text + ("" if info.interrupts else " (without interrupts)"))


def examine(address: str | None) -> list[Finding]:
    """Runs all checks, in the order in which things are needed."""
    on_bus: list[Callable[[], Finding]] = [rights, kernel_driver, functions]
    if "VGC_MEMFD" in os.environ:
        on_bus = []  # the device is no PCI function
    return [*(question() for question in on_bus), numpy_is_there(), opens(address)]
