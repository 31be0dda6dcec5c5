"""CCCL on this host: NVIDIA's CUDA C++ core libraries (CUB, Thrust, libcu++), for programs that include them.

They are headers, which the host's operator installs: NVIDIA's wheel in this Python environment, or a CUDA toolkit.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import INSIDE, may_have
from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

HINT: Final = "pip install nvidia-cuda-cccl"
KNOWN_AS: Final = INSIDE / "cccl"
"""Folder of the libraries for compilers."""
AUTO: Final = "auto"
OFF: Final = "off"
_FOLDERS: Final = ("cub", "cuda", "nv", "thrust")
_NEEDED: Final = ("cub/version.cuh", "cuda/std/version", "nv/target", "thrust/version.h")
_VERSION_FILE: Final = "cuda/std/__cccl/version.h"
_VERSION: Final = re.compile(r"#\s*define\s+CCCL_VERSION\s+(\d+)")
_INSTALLED: Final = ("/usr/local/cuda", "/usr/local/cuda-[0-9]*", "/opt/cuda")
_PLACES: Final = ("include/cccl", "include", "targets/x86_64-linux/include/cccl", "targets/x86_64-linux/include")
_NAMED: Final = re.compile(rb"\b(?:cub|cuda|nv|thrust)/")


@dataclass(frozen=True, slots=True)
class Cccl:
    """One release of the libraries."""

    folder: Path
    version: str
    """Such as 3.0.1; empty for releases that do not tell it."""
    visible: tuple[Bind, ...]
    """The libraries' own folders: a toolkit has other headers beside them."""
    identity: str
    """Digest of the headers' names, sizes and times."""


def names_cccl(source: bytes) -> bool:
    """False for a source that cannot include the libraries."""
    return may_have(_NAMED, source)


def cccl(where: str = AUTO) -> Cccl | None:
    """The libraries in the folder `where`, or wherever this host has them ("auto"); None: nowhere, or "off".

    :raise HostError: the folder that the configuration names lacks them.
    """
    if where == OFF:
        return None
    if where == AUTO:
        return next(map(_read, _found()), None)
    folder = Path(where)
    if not _has_all(folder):
        missing = next(name for name in _NEEDED if not (folder / name).exists())
        raise HostError(f"{folder}, the engine's option 'cccl', has no {missing}", hint=HINT)
    return _read(folder)


def _found() -> Iterator[Path]:
    """Folders with all libraries: those of wheels come first."""
    return filter(_has_all, (*_wheels(), *_system()))


def _wheels() -> Iterator[Path]:
    """One tree for all of NVIDIA's wheels since CUDA 13 (``nvidia/cu13``), earlier one for each."""
    spec = importlib.util.find_spec("nvidia")
    for location in dict.fromkeys((spec and spec.submodule_search_locations) or ()):
        for tree in sorted(Path(location).glob("cu[0-9]*"), reverse=True):
            yield tree / "include" / "cccl"
        yield Path(location, "cuda_cccl", "include")


def _system() -> Iterator[Path]:
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    usual = (path for pattern in _INSTALLED for path in sorted(glob.glob(pattern), reverse=True))  # noqa: PTH207  absolute paths
    for root in (*filter(None, named), *usual):
        yield from (Path(root, place) for place in _PLACES)


def _has_all(folder: Path) -> bool:
    return all((folder / name).exists() for name in _NEEDED)


@functools.cache
def _read(folder: Path) -> Cccl:
    version = ""
    if (folder / _VERSION_FILE).exists() and (found := _VERSION.search((folder / _VERSION_FILE).read_text())):
        number = int(found[1])
        version = f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
    digest = hashlib.sha256()
    for name in _FOLDERS:
        for path in sorted((folder / name).rglob("*")):
            status = path.stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    visible = tuple(Bind(folder / name, KNOWN_AS / name) for name in _FOLDERS)
    return Cccl(folder, version, visible, digest.hexdigest())
