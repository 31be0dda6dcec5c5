"""``vgc doctor``: things that this machine needs for the device, and how to get those that are missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guest_driver.device import Device, devices
from guest_driver.errors import VgcError
from guest_driver.nvdimm import Nvdimms

UIO_DRIVER: Final = "uio_pci_generic"
DRIVERS: Final = Path("/sys/bus/pci/drivers")
FUNCTIONS: Final = Path("/sys/bus/pci/devices")
MODULES: Final = Path("/lib/modules")
TOOLKITS: Final = (Path("/usr/local/cuda"), Path("/usr/local/lib/vgc/cuda"), Path("/usr/lib/vgc/cuda"))
"""Folders in which a CUDA toolkit may lie that is not on the path."""

TOOLKIT_MACHINE: Final = "x86_64"
"""The machine for which mynvcc and the libraries of CUDA programs are built, by its name in `platform.machine()`."""
COMPILER_VARIABLE: Final = "MYNVCC_CLANG"
OLDEST_CLANG: Final = 14
NEWEST_CLANG: Final = 19


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `hint` says what to do if it is not well."""

    well: bool
    text: str
    hint: str = ""
    is_optional: bool = False
    """Set where many VMs do without what is missing."""

    def __str__(self) -> str:
        hint = "" if self.well or not self.hint else f"\n        -> {self.hint}"
        mark = "ok" if self.well else "--" if self.is_optional else "!!"
        return f"[{mark:^4}] {self.text}{hint}"


def rights(functions: Path = FUNCTIONS) -> Finding:
    """Checks that this process may use the devices: as root, or as a member of a group that was given them."""
    user = f"user id {os.geteuid()}"
    if os.geteuid() == 0:
        return Finding(well=True, text=user)
    given = [one.address for one in devices() if os.access(functions / one.address / "config", os.R_OK | os.W_OK)]
    hint = (
        "run as root; or have root run `vgc grant vgc` at each boot, which the unit vgc-grant.service does, and add this "
        "user to the group: usermod -aG vgc USER"
    )
    if not given:
        return Finding(well=False, text=f"{user} may not use the device", hint=hint)
    return Finding(well=True, text=f"{user} may use {', '.join(given)}")


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
    has_nvdimm = any(one.devdax for one in Nvdimms().namespaces())
    well = has_nvdimm or all(one.region_address for one in found)
    return Finding(
        well, "on the PCI bus: " + "; ".join(lines), "QEMU lacks -device ivshmem-plain with the region's file"
    )


def numpy_is_there() -> Finding:
    try:
        import numpy as np
    except ImportError:
        return Finding(well=False, text="numpy is not installed: only raw bytes", hint="apt install python3-numpy")
    return Finding(well=True, text=f"numpy {np.__version__}")


def cuda_programs(toolkits: Sequence[Path] = TOOLKITS) -> Finding:
    """Checks that this VM can compile CUDA programs: mynvcc, a clang that it can use, headers of C++."""
    on_path = shutil.which("mynvcc")
    found = next((folder for folder in toolkits if (folder / "bin" / "mynvcc").exists()), None)
    if on_path is None and found is None:
        if platform.machine() != TOOLKIT_MACHINE:
            text = f"CUDA programs: none, as their compiler and libraries are for {TOOLKIT_MACHINE} alone"
            return Finding(well=False, text=text, is_optional=True)
        hint = "make install-guest in the project's folder, or the package vgc-mynvcc"
        return Finding(well=False, text="CUDA programs: no mynvcc to compile them", hint=hint, is_optional=True)
    problem, hint = _problem_of_clang()
    if problem:
        return Finding(well=False, text=f"CUDA programs: {problem}", hint=hint)
    if on_path is None:
        hint = f"export PATH=$PATH:{found}/bin"
        return Finding(well=False, text=f"CUDA programs: {found}/bin is not on the path", hint=hint)
    return Finding(well=True, text=f"CUDA programs: {on_path} and {_clang()} compile them")


def _clang() -> str | None:
    """Returns the clang++ that mynvcc takes."""
    numbered = [f"clang++-{version}" for version in range(NEWEST_CLANG, OLDEST_CLANG - 1, -1)]
    named = os.environ.get(COMPILER_VARIABLE)
    return named or next((name for name in [*numbered, "clang++"] if shutil.which(name)), None)


def _problem_of_clang() -> tuple[str, str]:
    """Returns what is wrong with the clang++ that mynvcc takes, and what to do about it; empty if nothing is."""
    clang = _clang()
    install = (
        f"apt install clang (versions {OLDEST_CLANG} to {NEWEST_CLANG} are tested), or name one in ${COMPILER_VARIABLE}"
    )
    if clang is None:
        return "mynvcc needs clang++, and none is installed", install
    told = _output([clang, "--version"])
    version = re.search(r"clang version (\d+)", told or "")
    if version is None:
        return f"{clang} does not run", install
    if not OLDEST_CLANG <= int(version[1]) <= NEWEST_CLANG:
        return f"{clang} is version {version[1]}", install
    if _output([clang, "-x", "c++", "-fsyntax-only", "-include", "cstdlib", os.devnull]) is None:
        return f"{clang} finds no headers of C++", "apt install g++"
    return "", ""


def _output(argv: Sequence[str]) -> str | None:
    """Returns a program's output; None if it fails or is missing."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


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


def region(address: str | None) -> Finding | None:
    """Checks that reads from the region are fast; None if the device does not open."""
    try:
        with Device(address=address, look=True) as device:
            info = device.info()
    except VgcError:
        return None  # as is told elsewhere
    text = f"region at {info.region_address} ({info.region_kind}) reads {info.read_bytes_per_s / 1e9:.1f} GB/s"
    if info.region_cached:
        return Finding(well=True, text=text)
    hint = "have QEMU show its file as an NVDIMM, too, see `vgc region --help`"
    return Finding(well=False, text=text + ", UNCACHED", hint=hint, is_optional=True)


def examine(address: str | None) -> list[Finding]:
    """Runs all checks, in the order in which things are needed."""
    on_bus: list[Callable[[], Finding]] = [rights, kernel_driver, functions]
    if "VGC_MEMFD" in os.environ:
        on_bus = []  # the device is no PCI function
    findings = [
        *(question() for question in on_bus),
        numpy_is_there(),
        cuda_programs(),
        opens(address),
        region(address),
    ]
    return [finding for finding in findings if finding is not None]
