"""Files of the built-in functions: our library, by what the processor can do, and OpenBLAS."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Final

from vhost_backend._dataplane import lib

BUILT: Final = Path(__file__).resolve().parent / "build"
NAME: Final = "libvgc-builtins.so"
NO_OPENBLAS: Final = "the Python package scipy-openblas64 is not installed"
LEVELS: Final = {4: "x86-64-v4", 3: "x86-64-v3", 1: "x86-64"}
"""Levels of x86-64 that there may be a library for, the best first, with their numbers."""


@cache
def library() -> Path | None:
    """The best library that was built and that this processor can run; None: it was not built."""
    level = int(lib.vgc_cpu_level())
    files = (BUILT / name / NAME for number, name in LEVELS.items() if number <= level)
    return next((file for file in files if file.exists()), None)


@cache
def openblas() -> Path | None:
    """The library of the package scipy-openblas64; None: it is not installed."""
    try:
        found = importlib.util.find_spec("scipy_openblas64")
    except ImportError:
        return None
    if found is None or found.origin is None:
        return None
    files = sorted((Path(found.origin).parent / "lib").glob("libscipy_openblas64_*.so"))
    return files[0] if files else None
