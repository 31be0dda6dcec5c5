"""The keeper's program, built for tests: with sanitizers, and with patience of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vhost_backend.keeper import build


def built(folder: Path, *more: str) -> Path:
    """Builds the program in `folder`; `more`: further flags of the compiler."""
    product = folder / "vgc-keeper"
    sources = sorted(map(str, build.SOURCE_DIR.glob("*.c")))
    flags = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", *more)
    subprocess.run(["cc", *flags, "-fno-sanitize-recover=all", "-o", str(product), *sources], check=True)
    return product
