"""Debian's libvirt, unpacked into the cache: for tests with a real one, and its schemas to check domain XML without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say
from tools.debian import private_apt, unpack

SCHEMAS: Final = "libvirt-common"
PACKAGES: Final = ("libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients")
SUITE: Final = "trixie"
LEFT_OUT: Final = ("qemu-system-", "seabios_", "ipxe-qemu_")
"""Packages of Debian's own QEMU, which is older than 10.2, and whose modules would stop a newer one beside it."""


def domain_schema() -> Path:
    """Path of the RELAX NG schema of a domain; the first call downloads it (0.2 MB)."""
    root = cache_folder() / "libvirt"
    schema = root / "usr/share/libvirt/schemas/domain.rng"
    with locked(cache_folder() / "libvirt.lock"):
        if not schema.exists():
            say(f"fetching libvirt's schemas from Debian's {SCHEMAS}")
            with private_apt(SUITE) as apt:
                unpack([apt.fetch_alone(SCHEMAS)], root)
    return schema


def root() -> Path:
    """Folder with libvirt and all that it needs, but no QEMU; the first call downloads it (40 MB)."""
    folder = cache_folder() / "libvirt-root"
    with locked(cache_folder() / "libvirt-root.lock"):
        if not folder.exists():
            say(f"unpacking Debian's libvirt into {folder}")
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            with private_apt(SUITE) as apt:
                found = apt.fetch(PACKAGES)
                unpack([package for package in found if not package.name.startswith(LEFT_OUT)], partial)
            partial.rename(folder)
    return folder
