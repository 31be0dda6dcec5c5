"""Builds the C parts into the package. Everything else about it is in pyproject.toml.

An editable install builds nothing: there the parts are made in place by `make build`, only what changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT: Final = Path(__file__).resolve().parent
OPTIONAL: Final = {
    "CPU engine's compiler": "the engine 'cpu' cannot compile; it takes clang++-19, llvm-19-dev, libclang-19-dev, liblld-19-dev, lld-19, zlib1g-dev, libzstd-dev and libclang-rt-19-dev",
    "CPU engine's built-in functions": "the engine 'cpu' has none of them; it takes make, g++, libhwy-dev, librandom123-dev and, once, a connection to PyPI for ducc's sources",
    "guest library": "programs in guests cannot use libvgc; it takes make",
    "guest's CUDA runtime": "CUDA programs in guests have no libcudart; it takes make",
    "guest's CUDA driver library": "CUDA programs in guests cannot link -lcuda; it takes make",
    "guest's NVTX library": "CUDA programs in guests cannot link -lnvToolsExt; it takes make",
    "guest's CUDA compiler": "guests cannot compile CUDA programs; it takes make and g++",
    "guest's CUDA libraries": "CUDA programs in guests have no cuBLAS, cuFFT and the like; it takes make, clang and g++",
}
"""Parts that an installation can do without, and what it lacks without them."""


class BuildParts(build_py):
    """Compiles the parts before their products are collected as package data."""

    def run(self) -> None:
        if not self.editable_mode:
            build_parts()
        super().run()


class BinaryDistribution(Distribution):
    """A wheel for one platform and one Python, although setuptools compiles none of it."""

    def has_ext_modules(self) -> bool:
        return True


def build_parts() -> None:
    """Ends the installation where a part is missing without which nothing works."""
    sys.path.insert(0, str(ROOT))  # a build backend runs without the project's folder in its path
    from tools.build import PARTS, bring_up_to_date
    from tools.common import die, say

    for part in PARTS:
        if part.is_local or bring_up_to_date(part, ROOT):
            continue
        if part.name not in OPTIONAL:
            die(
                f"the {part.name} did not build",
                hint="it takes gcc, libc's and Python's headers (libc6-dev, python3-dev)",
            )
        say(f"going on without the {part.name}: {OPTIONAL[part.name]}")


setup(cmdclass={"build_py": BuildParts}, distclass=BinaryDistribution)
