"""Programs in C over libcudart, built by the host's compiler and run as guest programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S

RUNTIME = REPOSITORY / "guest_driver/cuda/runtime"
LIBRARIES = RUNTIME / "build"
HEADERS = REPOSITORY / "kernels/cpu/include"
SOURCES = REPOSITORY / "tests/cudart"


def build_program(name: str, folder: Path) -> Path:
    """Builds `tests/cudart/NAME.c` with libcudart."""
    program = folder / name
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", f"-I{HEADERS}", f"-I{RUNTIME}", "-o", str(program)]
    library = [str(LIBRARIES / "libcudart.so.12"), f"-Wl,-rpath,{LIBRARIES}", "-lm"]
    done = subprocess.run(
        ["cc", *flags, str(SOURCES / f"{name}.c"), *library],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    return program
