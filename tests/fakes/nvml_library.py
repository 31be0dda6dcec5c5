"""Builds the fake ``libnvidia-ml.so.1`` of ``tests/fakes/nvml``."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent / "nvml" / "nvml.c"


def build(folder: Path) -> Path:
    """Builds the library in `folder` and returns its path."""
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return library
