"""``python -m tools.frameworks``: a Python environment with frameworks that compute on GPUs, most without one of their own.

2 GB, for tests/protocol/test_frameworks.py and for the nightly tests that compile tests/ptx/triton and examples/ptx anew;
whatever else runs those needs the PTX that is kept in the repository only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, cache_folder, locked, say

PACKAGES: Final = ("triton==3.9.0", "numba-cuda[cu13]==0.30.4", "tinygrad==0.14.0")
"""Frameworks, in the versions whose PTX is kept."""

SOURCES: Final = ("pycuda==2026.1",)
"""Frameworks that PyPI has as sources only. They are built with this toolkit, which their setup finds by its nvcc."""

_TOOLKIT: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit"
_STAMP: Final = "\n".join(PACKAGES + SOURCES)


def _folder() -> Path:
    return cache_folder() / "frameworks"


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
        say(f"installing {', '.join(PACKAGES + SOURCES)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        with_toolkit = os.environ | {"PATH": f"{_TOOLKIT / 'bin'}:{os.environ['PATH']}"}
        for packages, environment in ((PACKAGES, os.environ), (SOURCES, with_toolkit)):
            words = [_folder() / "bin" / "pip", "install", "--quiet", *packages]
            subprocess.run(words, check=True, env=environment)
        (_folder() / "packages").write_text(_STAMP)


if __name__ == "__main__":
    install()
