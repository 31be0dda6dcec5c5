"""CUDA toolkits of this host: NVIDIA's wheels in this environment, and installations in the usual folders.

A place may have only a part of a toolkit: PyTorch's wheels have NVRTC and the runtime's headers, but neither an
assembler nor the C++ library. Therefore parts of the same version (13.0, for example) complete each other, with any
patch releases. Parts of different versions are never mixed, with one exception: a newer ptxas of the same major version
assembles the output of an older compiler (`assembler`).
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Version = tuple[int, int]

_BUILTINS: Final = re.compile(r"libnvrtc-builtins\.so\.(\d+)\.(\d+)")
_CUDA_VERSION: Final = re.compile(rb"#define\s+CUDA_VERSION\s+(\d+)")
_RELEASE: Final = re.compile(r"\brelease (\d+)\.(\d+)")
_VERSION_IS_WITHIN: Final = 64 << 10
_OLDEST: Final = (12, 4)
"""Oldest usable version: the headers need ``__builtin_bit_cast``."""
_INSTALLED: Final = ("/usr/local/cuda", "/usr/local/cuda-[0-9]*", "/opt/cuda")
_TARGET: Final = "targets/x86_64-linux"
"""Folder of headers and libraries in conda's packages; installed toolkits have links to it."""
_LIBRARIES: Final = ("lib", "lib64", f"{_TARGET}/lib")
"""Folders of libraries below a root."""
_PTXAS_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a toolkit in one place. `roots` must stay as they are: nvcc finds its own files beside itself."""

    roots: tuple[Path, ...]
    nvrtc: Path | None
    nvcc: Path | None
    ptxas: Path | None
    nvlink: Path | None
    device_runtime: Path | None
    """``libcudadevrt.a``, by which kernels launch kernels."""
    headers: tuple[Path, ...]
    """Folders with the runtime's and other headers; in CUDA 12, also with CCCL."""
    cccl: tuple[Path, ...]
    """Folders with only CCCL, the CUDA C++ core libraries."""

    def has(self, header: str) -> bool:
        """True if this part has `header`."""
        return any((folder / header).exists() for folder in (*self.headers, *self.cccl))


RUNTIME: Final = "cuda_runtime.h"
CCCL: Final = "nv/target"
"""Header of CCCL that NVIDIA's own headers include, cooperative_groups.h for example."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """Compilers of a CUDA version, from all places that have a part of it."""

    version: Version
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"CUDA {version_text(self.version)} in {' and '.join(str(part.roots[0]) for part in self.parts)}"

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(root for part in self.parts for root in part.roots)

    @property
    def nvrtc(self) -> Path | None:
        return next((part.nvrtc for part in self.parts if part.nvrtc is not None), None)

    @property
    def nvcc(self) -> Path | None:
        return next((part.nvcc for part in self.parts if part.nvcc is not None), None)

    @property
    def ptxas(self) -> Path | None:
        return next((part.ptxas for part in self.parts if part.ptxas is not None), None)

    @property
    def nvlink(self) -> Path | None:
        return next((part.nvlink for part in self.parts if part.nvlink is not None), None)

    @property
    def device_runtime(self) -> Path | None:
        return next((part.device_runtime for part in self.parts if part.device_runtime is not None), None)

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Folders of headers, for a compiler that does not find them by itself."""
        return _included(self.parts)

    def has(self, header: str) -> bool:
        return any(part.has(header) for part in self.parts)

    def nvcc_lacks(self) -> tuple[Path, ...]:
        """Folders of other parts that nvcc must search after its own tree; empty if that is complete."""
        own = next((part for part in self.parts if part.nvcc is not None), None)
        if own is None or (own.has(RUNTIME) and own.has(CCCL)):
            return ()
        found = _included((own, *(part for part in self.parts if part is not own)))
        return tuple(path for path in found if path not in (*own.headers, *own.cccl))


@functools.cache
def installed() -> tuple[Toolkit, ...]:
    """All toolkits since CUDA 12.4, newest first; parts from wheels come before installed ones of the same version."""
    found: dict[Version, dict[tuple[Path, ...], Part]] = {}
    for version, part in (*_wheels(), *_system()):
        if version >= _OLDEST:
            found.setdefault(version, {}).setdefault(part.roots, part)
    return tuple(Toolkit(version, tuple(found[version].values())) for version in sorted(found, reverse=True))


def library_folders() -> tuple[Path, ...]:
    """Existing folders that may have CUDA's libraries, those of wheels first."""
    wheels = (tree for location in _locations() for tree in sorted(location.glob("*")))
    return _distinct(root / name for root in (*wheels, *_roots()) for name in _LIBRARIES)


def assembler(kit: Toolkit) -> Path | None:
    """Assembler (ptxas) for the PTX of this toolkit's compilers: its own, else the oldest newer one of its major
    version.

    An older ptxas refuses PTX of a version that it does not know, and the driver may not load the output of another
    major version. The version is read from the file itself, as wheels of different versions may share a folder.
    """
    newer = [other for other in reversed(installed()) if other.version > kit.version]
    for other in (kit, *newer):
        for part in other.parts:
            if part.ptxas is not None:
                version = ptxas_version(part.ptxas) or other.version
                if version[0] == kit.version[0] and version >= kit.version:
                    return part.ptxas
    return None


@dataclass(frozen=True, slots=True)
class Piece:
    """Optional piece of a toolkit; `price` is the restriction without it."""

    name: str
    where: Path | None
    """Path; None: the piece is missing."""
    price: str
    hint: str
    """Command that installs the piece."""


def pieces(kit: Toolkit) -> tuple[Piece, Piece]:
    """Assembler and C++ library, which PyTorch's wheels do not have."""
    major, version = kit.version[0], version_text(kit.version)
    ptxas = Piece(
        "ptxas",
        assembler(kit),
        f"no ptxas of CUDA {version} or a newer {major}.x: programs are compiled without the control system's hooks",
        f"pip install 'nvidia-cuda-nvcc{'-cu12' if major == 12 else ''}=={version}.*'",
    )
    cccl = Piece(
        "CCCL",
        next((path for path in kit.include_dirs if (path / CCCL).exists()), None),
        f"there is no {CCCL} of CUDA {version}: programs cannot include cooperative_groups.h, nor cuda/std",
        f"pip install 'cuda-toolkit[cccl]=={version}.*'",
    )
    return ptxas, cccl


@functools.cache
def ptxas_version(path: Path) -> Version | None:
    """CUDA version of a ptxas; None: it cannot be run. Takes some 10 ms."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=_PTXAS_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _RELEASE.search(done.stdout)
    return None if found is None else (int(found[1]), int(found[2]))


def usable(driver: Version) -> list[Toolkit]:
    """Toolkits whose programs a driver loads, the best first.

    Code of the driver's major version runs with any minor version [CUDA compatibility: minor version compatibility]; a
    toolkit that is not newer than the driver is preferred.
    """
    candidates = [toolkit for toolkit in installed() if toolkit.version[0] <= driver[0]]
    return sorted(candidates, key=lambda kit: (kit.version[0] != driver[0], kit.version > driver))


@functools.cache
def host_compiler() -> Path | None:
    """C++ compiler that nvcc preprocesses with."""
    found = shutil.which("g++") or shutil.which("clang++")
    return None if found is None else Path(found)


def parse_version(text: str) -> Version:
    """Parses a version.

    :raise ValueError: the text is not of the form 13.0.
    """
    major, _, minor = text.partition(".")
    if not major.isdecimal() or not minor.isdecimal():
        raise ValueError(f"{text!r} is not a version of CUDA; versions look like 13.0")
    return int(major), int(minor)


def version_text(version: Version) -> str:
    """Text of a version, such as 13.0."""
    return f"{version[0]}.{version[1]}"


def _included(parts: Iterable[Part]) -> tuple[Path, ...]:
    """Folders to search for headers, in this order. The first part that has a header provides it. CCCL comes from a
    single part, since its headers include each other and two releases cannot be mixed.
    """
    found: list[Path] = []
    has_cccl = False
    for part in parts:
        found += part.headers
        if not has_cccl:
            found += part.cccl
        has_cccl = has_cccl or part.has(CCCL)
    return _distinct(found)


def _wheels() -> Iterator[tuple[Version, Part]]:
    """Parts in NVIDIA's wheels: one tree since CUDA 13 (``nvidia/cu13``), earlier a folder each
    (``nvidia/cuda_nvrtc``).
    """
    for location in _locations():
        for tree in sorted(location.glob("cu[0-9]*")):
            yield from _part((tree,))
        folders = (location / name for name in ("cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cuda_nvcc"))
        yield from _part(tuple(folder for folder in folders if folder.is_dir()))


def _system() -> Iterator[tuple[Version, Part]]:
    """Installed parts."""
    for root in _roots():
        yield from _part((root,))


def _locations() -> tuple[Path, ...]:
    """Folders with NVIDIA's wheels."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(location) for location in dict.fromkeys((spec and spec.submodule_search_locations) or ()))


def _roots() -> Iterator[Path]:
    """Installed toolkits, by real path: ``/usr/local/cuda`` is a link to ``/usr/local/cuda-13.0``."""
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    usual = (path for pattern in _INSTALLED for path in sorted(glob.glob(pattern)))  # noqa: PTH207  absolute paths
    for root in dict.fromkeys(Path(name).resolve() for name in (*filter(None, named), *usual)):
        if root.is_dir():
            yield root


def _part(roots: tuple[Path, ...]) -> Iterator[tuple[Version, Part]]:
    """Part of a toolkit under `roots`, if its version can be determined."""
    bases = _distinct(path for root in roots for path in (root / "include", root / _TARGET / "include"))
    nvrtc = _first(roots, *(f"{folder}/libnvrtc.so.[0-9]*" for folder in _LIBRARIES))
    device_runtime = _first(roots, *(f"{folder}/libcudadevrt.a" for folder in _LIBRARIES))
    ptxas = _first(roots, "bin/ptxas")
    version = _version(nvrtc, bases) or (None if ptxas is None else ptxas_version(ptxas))
    if version is not None:
        cccl = tuple(base / "cccl" for base in bases if (base / "cccl").is_dir())
        nvcc, nvlink = _first(roots, "bin/nvcc"), _first(roots, "bin/nvlink")
        yield version, Part(roots, nvrtc, nvcc, ptxas, nvlink, device_runtime, bases, cccl)


def _distinct(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Existing folders, each once, under its first name."""
    found: dict[Path, Path] = {}
    for folder in folders:
        if folder.is_dir():
            found.setdefault(folder.resolve(), folder)
    return tuple(found.values())


def _first(roots: tuple[Path, ...], *patterns: str) -> Path | None:
    return next((path for root in roots for pattern in patterns for path in sorted(root.glob(pattern))), None)


def _version(nvrtc: Path | None, include_dirs: tuple[Path, ...]) -> Version | None:
    """Version, from the name of NVRTC's second library, else from cuda.h; neither needs a process."""
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
