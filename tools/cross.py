"""Builds the guest's driver for machines other than this one, with Debian's cross compilers, in build/cross/MACHINE."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from tools import installation
from tools.architecture import Architecture
from tools.common import BUILD, die, locked

CROSS: Final = BUILD / "cross"


def build(machine: Architecture) -> installation.Built:
    """Builds libvgc, if its sources changed."""
    if shutil.which(machine.compiler) is None:
        die(f"there is no {machine.compiler}", hint=f"Debian: apt-get install gcc-{machine.triplet}")
    folder = CROSS / machine.name / "libvgc"
    folder.mkdir(parents=True, exist_ok=True)
    argv = ["make", "--silent", f"-j{os.cpu_count() or 1}", "-C", str(installation.GUEST / "libvgc")]
    argv += [f"CC={machine.compiler}", f"AR={machine.triplet}-ar", f"BUILD={folder}"]
    with locked(CROSS / f"{machine.name}.lock"):
        if subprocess.run(argv, check=False).returncode != 0:
            die(f"libvgc did not build for {machine.name}", hint="the compiler's messages are above")
    return installation.Built(folder, None)
