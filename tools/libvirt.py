"""Schemas of libvirt, from Debian's package, to check domain XML without libvirt."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say
from tools.debian import private_apt, unpack

PACKAGE: Final = "libvirt-common"


def domain_schema() -> Path:
    """Path of the RELAX NG schema of a domain; the first call downloads it (0.2 MB)."""
    root = cache_folder() / "libvirt"
    schema = root / "usr/share/libvirt/schemas/domain.rng"
    with locked(cache_folder() / "libvirt.lock"):
        if not schema.exists():
            say(f"fetching libvirt's schemas from Debian's {PACKAGE}")
            with private_apt("trixie") as apt:
                unpack([apt.fetch_alone(PACKAGE)], root)
    return schema
