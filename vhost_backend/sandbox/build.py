"""Builds the launcher: one static program, so that it needs no library in the root that it builds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

SOURCE_DIR: Final = Path(__file__).parent / "launcher"
LAUNCHER: Final = Path(__file__).parent / "vgc-launch"
_FLAGS: Final = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_FORTIFY_SOURCE=2", "-static")


def is_current() -> bool:
    """True if the launcher exists and is younger than its sources."""
    newest = max(path.stat().st_mtime_ns for path in SOURCE_DIR.glob("*.[ch]"))
    return LAUNCHER.exists() and LAUNCHER.stat().st_mtime_ns > newest


def main() -> None:
    """Compiles the launcher unless it is up to date."""
    if is_current():
        return
    unfinished = LAUNCHER.with_name(f"{LAUNCHER.name}.{os.getpid()}")
    sources = sorted(str(path) for path in SOURCE_DIR.glob("*.c"))
    subprocess.run([os.environ.get("CC", "cc"), *_FLAGS, "-o", str(unfinished), *sources], check=True)
    unfinished.replace(LAUNCHER)


if __name__ == "__main__":
    main()
