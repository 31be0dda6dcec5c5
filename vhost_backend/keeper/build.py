"""Builds the keeper: one static program, which goes on while all around it is replaced."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from vhost_backend.keeper import PROGRAM

SOURCE_DIR: Final = Path(__file__).parent
_FLAGS: Final = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_FORTIFY_SOURCE=2")


def main() -> None:
    """Compiles the keeper unless it is up to date."""
    sources = sorted(SOURCE_DIR.glob("*.c"))
    newest = max(path.stat().st_mtime_ns for path in SOURCE_DIR.glob("*.[ch]"))
    if PROGRAM.exists() and PROGRAM.stat().st_mtime_ns > newest:
        return
    unfinished = PROGRAM.with_name(f"{PROGRAM.name}.{os.getpid()}")
    command = [os.environ.get("CC", "cc"), *_FLAGS, "-static", "-o", str(unfinished), *map(str, sources)]
    subprocess.run(command, check=True)
    unfinished.replace(PROGRAM)


if __name__ == "__main__":
    main()
