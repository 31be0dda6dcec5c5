"""``python -m tools.cupy``: a Python environment with CuPy, built from its sources on PyPI with this toolkit, as in a guest.

0.5 GB and some ten minutes, once, for tests/protocol/test_cupy.py.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, cache_folder, locked, say

PACKAGES: Final = ("cupy==14.2.0",)
_HEADERS: Final = "nvidia-cuda-cccl"
"""CUB, Thrust and libcu++, in the release of this host: CuPy's own are another, and the host compiles the kernels."""


def _stamp() -> str:
    return "\n".join((*PACKAGES, _headers()))


def _headers() -> str:
    try:
        return f"{_HEADERS}=={importlib.metadata.version(_HEADERS)}"
    except importlib.metadata.PackageNotFoundError:
        return _HEADERS


def _folder() -> Path:
    return cache_folder() / "frameworks-cupy"


def python() -> Path | None:
    """The environment's interpreter; None if it is not installed, or has other versions."""
    stamp = _folder() / "packages"
    is_current = stamp.exists() and stamp.read_text() == _stamp()
    return _folder() / "bin" / "python" if is_current else None


def install() -> None:
    """Makes the environment anew, unless it is there."""
    with locked(_folder().with_suffix(".lock")):
        if python() is not None:
            return
        say(f"building {', '.join(PACKAGES)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        pip = [str(_folder() / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, _headers()], check=True)
        environment = os.environ | {
            "PYTHONPATH": str(REPOSITORY),
            "CUPY_INSTALL_NO_RPATH": "1",  # the environment outlives this folder
        }
        subprocess.run([sys.executable, "-m", "guest_driver", "exec", *pip, *PACKAGES], check=True, env=environment)
        (_folder() / "packages").write_text(_stamp())


if __name__ == "__main__":
    install()
