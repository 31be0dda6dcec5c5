"""Programs of NVIDIA's that are installed as wheels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def nvcc() -> Path:
    """The wheel's compiler. Skips if it is not installed."""
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found is not None else ():
        for path in Path(folder).glob("cu13/bin/nvcc"):
            return path
    pytest.skip("nvcc 13 is not installed (wheel nvidia-cuda-nvcc)")
