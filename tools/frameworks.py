"""``python -m tools.frameworks``: a Python environment with frameworks that compile kernels to PTX without a GPU.

2 GB, for the nightly tests that compile tests/ptx/triton and examples/ptx anew; whatever else runs those needs the PTX that
is kept in the repository only.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say

PACKAGES: Final = ("triton==3.9.0", "numba-cuda[cu13]==0.30.4", "tinygrad==0.14.0")
"""Frameworks, in the versions whose PTX is kept."""


def _folder() -> Path:
    return cache_folder() / "frameworks"


def python() -> Path | None:
    """The environment's interpreter; None if it is not installed, or has other versions."""
    stamp = _folder() / "packages"
    is_current = stamp.exists() and stamp.read_text() == "\n".join(PACKAGES)
    return _folder() / "bin" / "python" if is_current else None


def install() -> None:
    """Makes the environment anew, unless it is there."""
    with locked(_folder().with_suffix(".lock")):
        if python() is not None:
            return
        say(f"installing {', '.join(PACKAGES)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        subprocess.run([_folder() / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)
        (_folder() / "packages").write_text("\n".join(PACKAGES))


if __name__ == "__main__":
    install()
