"""``vgc region``: the region of each device, and NVDIMMs as regions."""

from __future__ import annotations

import argparse
import os
from typing import Final

from guest_driver.device import Device, devices
from guest_driver.errors import InvalidArgument, VgcError
from guest_driver.nvdimm import MIB, Nvdimms

HELP: Final = """Shows where the region of each device lies, and this VM's NVDIMMs.

A region is the BAR of an ivshmem function. Where reads from that are slow (UNCACHED), QEMU can show the
same file as an NVDIMM, too, and `vgc region --devdax` makes it usable: the kernel's libnvdimm puts it into devdax mode,
until the file is gone. libvgc uses it from then on; `vgc grant` is to be called again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--devdax",
        nargs="?",
        const="",
        metavar="NAMESPACE",
        help="as root: put an NVDIMM into devdax mode; default: the one of a region's size",
    )
    parser.add_argument("--overwrite", action="store_true", help="also if it has data, which is lost")


def run(arguments: argparse.Namespace) -> str:
    """Runs the command; returns its output.

    :raise errors.VgcError: an NVDIMM cannot be converted; the text says why.
    """
    nvdimms = Nvdimms()
    if arguments.devdax is None:
        if arguments.overwrite:
            raise InvalidArgument("--overwrite without --devdax; allowed: together")
        return show(nvdimms)
    _check_unused()
    namespace = nvdimms.choose(arguments.devdax or None, region_sizes())
    made = nvdimms.make_devdax(namespace, overwrites=arguments.overwrite)
    return f"{namespace.name} is /dev/{made} now"


def region_sizes() -> set[int]:
    """Sizes in bytes of the BARs of this machine's ivshmem functions."""
    return {one.region_bytes for one in devices() if one.region_bytes}


def _check_unused() -> None:
    """Checks that no process uses a device: the kernel writes into the file that has its rings.

    :raise InvalidArgument: one does.
    """
    for found in devices():
        try:
            with Device(address=found.address, look=True) as device:
                others = [process.pid for process in device.processes() if process.pid != os.getpid()]
        except VgcError:
            continue  # what cannot be opened is used by nobody
        if others:
            pids = ", ".join(map(str, others))
            raise InvalidArgument(f"{found.address} is used by processes {pids}; allowed: a device that nobody uses")


def show(nvdimms: Nvdimms) -> str:
    """Describes the regions and the NVDIMMs for people."""
    lines = []
    for found in devices():
        try:
            with Device(address=found.address, look=True) as device:
                info = device.info()
        except VgcError as error:
            lines.append(f"{found.address}  cannot be opened: {error}")
            continue
        speed = f"{info.read_bytes_per_s / 1e9:.1f} GB/s" + ("" if info.region_cached else ", UNCACHED")
        lines.append(
            f"{found.address}  {info.region_bytes / MIB:g} MiB at {info.region_address} ({info.region_kind}), reads {speed}"
        )
    for one in nvdimms.namespaces():
        use = f"/dev/{one.devdax}" if one.devdax else f"/dev/{one.disk}, a disk" if one.disk else "nothing"
        lines.append(f"{one.name}  NVDIMM of {one.size_bytes / MIB:g} MiB: {use}")
    return "\n".join(lines) or "no device, and no NVDIMM"
