"""``python -m tools.further_frameworks``: a Python environment with Taichi, and with wheels that have NVIDIA's CUDA runtime inside.

1 GB, for tests/protocol/test_further_frameworks.py. Wheels of Warp and CuPy do not compute here, and say why (CuPy from
its sources does: tools/cupy.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say

PACKAGES: Final = ("taichi==1.7.4", "warp-lang==1.19.0", "cupy-cuda13x==14.2.0")
_STAMP: Final = "\n".join(PACKAGES)


def _folder() -> Path:
    return cache_folder() / "frameworks-further"


def python() -> Path | None:
    """The environment's interpreter; None if it is not installed, or has other versions."""
    stamp = _folder() / "packages"
    is_current = stamp.exists() and stamp.read_text() == _STAMP
    return _folder() / "bin" / "python" if is_current else None


def install() -> None:
    """Makes the environment anew, unless it is there."""
    with locked(_folder().with_suffix(".lock")):
        if python() is not None:
            return
        say(f"installing {', '.join(PACKAGES)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        subprocess.run([_folder() / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (_folder() / "packages").write_text(_STAMP)


if __name__ == "__main__":
    install()
