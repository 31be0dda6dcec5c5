"""Builds the launcher: one static program, so that it needs no library in the root that it builds; and as a library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

SOURCE_DIR: Final = Path(__file__).parent / "launcher"
LAUNCHER: Final = Path(__file__).parent / "vgc-launch"
LIBRARY: Final = Path(__file__).parent / "libvgc-launch.so"
_FLAGS: Final = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_FORTIFY_SOURCE=2")
_KINDS: Final = {LAUNCHER: (("-static",), "sibling.c"), LIBRARY: (("-shared", "-fPIC"), "main.c")}
"""Options of each product, and the source that it does without."""


def is_current() -> bool:
    """True if the products exist and are younger than their sources."""
    newest = max(path.stat().st_mtime_ns for path in SOURCE_DIR.glob("*.[ch]"))
    return all(product.exists() and product.stat().st_mtime_ns > newest for product in _KINDS)


def main() -> None:
    """Compiles the launcher unless it is up to date."""
    if is_current():
        return
    for product, (options, absent) in _KINDS.items():
        unfinished = product.with_name(f"{product.name}.{os.getpid()}")
        sources = sorted(str(path) for path in SOURCE_DIR.glob("*.c") if path.name != absent)
        subprocess.run([os.environ.get("CC", "cc"), *_FLAGS, *options, "-o", str(unfinished), *sources], check=True)
        unfinished.replace(product)


if __name__ == "__main__":
    main()
