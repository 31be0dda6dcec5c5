"""C programs that link the driver, compiled here for the machine of a guest."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.vm.harness import Guest
from tools.common import REPOSITORY

LIBVGC = REPOSITORY / "guest_driver" / "libvgc"


def put_program(guest: Guest, source: Path, program: Path, path: str) -> None:
    """Compiles `source` as `program`, and puts it at `path` in the guest."""
    machine = guest.machine
    library = machine.files.driver.libvgc / "libvgc.a"
    words = [machine.architecture.compiler, "-O2", "-static", f"-I{LIBVGC}", source, "-o", program, library]
    subprocess.run([*map(str, words), "-pthread", "-lm"], check=True)
    guest.put(program, path)
