"""Disks of guests: a folder's files in an ext4 file system."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

SPARE_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 4096


def make(root: Path, image: Path, *, label: str = "", spare_bytes: int = SPARE_BYTES) -> None:
    """Writes the files below `root` into a new image, with a little room, or `spare_bytes`, left in it."""
    blocks = sum(-(-path.lstat().st_size // BLOCK_BYTES) + 1 for path in root.rglob("*"))
    size_bytes = blocks * BLOCK_BYTES * 11 // 10 + spare_bytes
    argv: list[str | Path] = [
        "/sbin/mke2fs",
        "-q",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
        "-m",
        "0",
        "-L",
        label,
        "-d",
        root,
        image,
    ]
    subprocess.run([*argv, f"{size_bytes // 1024}k"], stdout=subprocess.DEVNULL, check=True)
