"""The CUDA toolkits of this host: NVIDIA's wheels beside us, and what is installed in the usual places."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Version = tuple[int, int]

_BUILTINS: Final = re.compile(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)")
_CUDA_VERSION: Final = re.compile(rb"#define\s+CUDA_VERSION\s+(\d+)")
_VERSION_IS_WITHIN: Final = 64 << 10
_OLDEST: Final = (12, 4)
"""Our headers need ``__builtin_bit_cast``."""
_INSTALLED: Final = ("/usr/local/cuda", "/opt/cuda")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The compilers of one CUDA version, or some of them. nvcc sees `roots` in its sandbox, NVRTC and ptxas less."""

    version: Version
    roots: tuple[Path, ...]
    nvrtc: Path | None
    nvcc: Path | None
    ptxas: Path | None
    include_dirs: tuple[Path, ...]

    def __str__(self) -> str:
        return f"CUDA {version_text(self.version)} in {self.roots[0]}"


@functools.cache
def installed() -> tuple[Toolkit, ...]:
    """All toolkits since CUDA 12.4, newest first; of the same version, wheels come before installed ones."""
    found = {toolkit.roots: toolkit for toolkit in (*_wheels(), *_system()) if toolkit.version >= _OLDEST}
    return tuple(sorted(found.values(), key=lambda toolkit: toolkit.version, reverse=True))


def usable(driver: Version) -> list[Toolkit]:
    """Toolkits whose programs a driver takes, the best first.

    Code of the driver's own major version runs whatever the minor one; one that is not newer than the driver leaves
    no doubt. [CUDA compatibility: minor version compatibility]
    """
    candidates = [toolkit for toolkit in installed() if toolkit.version[0] <= driver[0]]
    return sorted(candidates, key=lambda kit: (kit.version[0] != driver[0], kit.version > driver))


@functools.cache
def host_compiler() -> Path | None:
    """The C++ compiler that nvcc preprocesses with."""
    found = shutil.which("g++") or shutil.which("clang++")
    return None if found is None else Path(found)


def parse_version(text: str) -> Version:
    """:raise ValueError: it is not of the form 13.0."""
    major, _, minor = text.partition(".")
    if not major.isdecimal() or not minor.isdecimal():
        raise ValueError(f"{text!r} is not a version of CUDA; versions look like 13.0")
    return int(major), int(minor)


def version_text(version: Version) -> str:
    """As people write it."""
    return f"{version[0]}.{version[1]}"


def _wheels() -> Iterator[Toolkit]:
    """NVIDIA's packages: one tree since CUDA 13 (``nvidia/cu13``), a folder for each before (``nvidia/cuda_nvrtc``)."""
    spec = importlib.util.find_spec("nvidia")
    for location in (spec and spec.submodule_search_locations) or ():
        for tree in sorted(Path(location).glob("cu[0-9]*")):
            yield from _toolkit((tree,))
        parts = (Path(location) / name for name in ("cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cuda_nvcc"))
        yield from _toolkit(tuple(part for part in parts if part.is_dir()))


def _system() -> Iterator[Toolkit]:
    named = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    for path in (*filter(None, named), *_INSTALLED):
        if Path(path).is_dir():
            yield from _toolkit((Path(path).resolve(),))


def _toolkit(roots: tuple[Path, ...]) -> Iterator[Toolkit]:
    """The toolkit that lies under `roots`, if one does."""
    includes = tuple(path for root in roots for path in (root / "include", root / "include" / "cccl") if path.is_dir())
    nvrtc = _first(roots, "lib/libnvrtc.so.[0-9]*", "lib64/libnvrtc.so.[0-9]*")
    version = _version(nvrtc, includes)
    if version is not None:
        yield Toolkit(version, roots, nvrtc, _first(roots, "bin/nvcc"), _first(roots, "bin/ptxas"), includes)


def _first(roots: tuple[Path, ...], *patterns: str) -> Path | None:
    return next((path for root in roots for pattern in patterns for path in sorted(root.glob(pattern))), None)


def _version(nvrtc: Path | None, include_dirs: tuple[Path, ...]) -> Version | None:
    """From the name of NVRTC's second library, else from cuda.h: neither needs a process."""
    if nvrtc is not None:
        for path in nvrtc.parent.glob("libnvrtc-builtins.so.*"):
            if (match := _BUILTINS.match(path.name)) is not None:
                return int(match[1]), int(match[2])
    for directory in include_dirs:
        if (header := directory / "cuda.h").exists():
            with header.open("rb") as file:
                found = _CUDA_VERSION.search(file.read(_VERSION_IS_WITHIN))
            if found is not None:
                return int(found[1]) // 1000, int(found[1]) % 1000 // 10
    return None
