"""Compilation of kernels to PTX by the frameworks of `tools.frameworks`, where these are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tools import frameworks

_PYTHON: Final = frameworks.python()
needs_frameworks: Final = pytest.mark.skipif(_PYTHON is None, reason="needs `make frameworks`")


def compile_anew(script: Path, folder: Path, *words: str) -> Path:
    """Copies a script to the folder and has it write its modules there; returns the copy."""
    assert _PYTHON is not None
    copy = Path(shutil.copy(script, folder))
    # without preloaded sanitizers
    environment = {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", "PYTHONPATH"}}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    done = subprocess.run(
        [_PYTHON, copy, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    return copy
