"""Builds the guest's driver for machines other than this one, with Debian's cross compilers, in build/cross/MACHINE."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools import installation
from tools.architecture import Architecture
from tools.common import BUILD, die, locked

CROSS: Final = BUILD / "cross"


def make_libvgc(folder: Path, compiler: str, archiver: str, *variables: str) -> None:
    """Builds libvgc in `folder`, if its sources changed. `variables`: of make's, ``NAME=VALUE``.

    :raise subprocess.CalledProcessError: it did not build; the compiler's messages are on stderr.
    """
    argv = ["make", "--silent", f"-j{os.cpu_count() or 1}", "-C", str(installation.GUEST / "libvgc")]
    argv += [f"CC={compiler}", f"AR={archiver}", f"BUILD={folder}", "VGC_SANITIZE=", *variables]
    with locked(folder.with_name(f"{folder.name}.lock")):
        subprocess.run(argv, check=True)


def build(machine: Architecture) -> installation.Built:
    """Builds libvgc for a machine, if its sources changed."""
    if shutil.which(machine.compiler) is None:
        die(f"there is no {machine.compiler}", hint=f"Debian: apt-get install gcc-{machine.triplet}")
    folder = CROSS / machine.name / "libvgc"
    try:
        make_libvgc(folder, machine.compiler, f"{machine.triplet}-ar")
    except subprocess.CalledProcessError:
        die(f"libvgc did not build for {machine.name}", hint="the compiler's messages are above")
    return installation.Built(folder, None)
