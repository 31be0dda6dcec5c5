"""Files of the built-in functions: our library, by what the processor can do, and OpenBLAS."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Final

BUILT: Final = Path(__file__).resolve().parent / "build"
NAME: Final = "libvgc-builtins.so"
_V3: Final = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"])
_V4: Final = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
LEVELS: Final = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64": frozenset[str]()}
"""Levels of x86-64, the best first, with the flags of /proc/cpuinfo that each needs."""


@cache
def library(cpuinfo: Path = Path("/proc/cpuinfo")) -> Path | None:
    """The best library that was built and that this processor can run; None: it was not built."""
    line = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    flags = set(line.split())
    files = (BUILT / level / NAME for level, needed in LEVELS.items() if needed <= flags)
    return next((file for file in files if file.exists()), None)


@cache
def openblas() -> Path | None:
    """The library of the package scipy-openblas64; None: it is not installed."""
    found = importlib.util.find_spec("scipy_openblas64")
    if found is None or found.origin is None:
        return None
    files = sorted((Path(found.origin).parent / "lib").glob("libscipy_openblas64_*.so"))
    return files[0] if files else None
