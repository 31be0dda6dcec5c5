"""``python -m tools.pytorch``: a Python environment with PyTorch and NVIDIA's CUDA libraries, as PyPI has them.

6 GB, for tests/protocol/test_pytorch.py and tests/gpu/test_pytorch.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import cache_folder, locked, say

VERSION: Final = "2.14.1"
"""PyTorch's version, which brings the libraries of CUDA 13.0."""


def _folder() -> Path:
    return cache_folder() / "pytorch"


def python() -> Path | None:
    """The environment's interpreter; None if it is not installed, or has another version."""
    found = _folder().glob(f"lib/python3*/site-packages/torch-{VERSION}.dist-info/RECORD")
    return _folder() / "bin" / "python" if any(found) else None


def install() -> None:
    """Makes the environment anew, unless it is there."""
    with locked(_folder().with_suffix(".lock")):
        if python() is not None:
            return
        say(f"installing PyTorch {VERSION}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", _folder()], check=True)
        packages = [f"torch=={VERSION}", "numpy"]
        subprocess.run([_folder() / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True)


if __name__ == "__main__":
    install()
