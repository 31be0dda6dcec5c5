"""Preludes: the headers before every source in the form that clang keeps them in, so that it need not parse them again.

The build leaves them beside the compiler (its ``prelude.cpp``), those with CCCL in a folder of their own (``precompile.py``). One is offered to compilations only while it is whole and
everything that it was made from is as it was: the compiler, our headers, the host's. Otherwise the compiler reads the headers.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

_STANDARDS: Final = ("", "-c++17")
KINDS: Final = tuple(f"{kind}{standard}" for standard in _STANDARDS for kind in ("kernel", "api", "program", "hosted"))
"""Kinds of sources, each with a prelude: kernels alone, sources that name CUDA's API, those that may include headers of the
host, those before which the C++ library's are included; the same with ``-std=c++17``."""
FOLDER: Final = "preludes"
CCCL_KINDS: Final = tuple(f"{kind}{standard}" for standard in _STANDARDS for kind in ("cub", "thrust"))
"""Kinds of sources that include headers of CCCL."""
CCCL_FOLDER: Final = "cccl-preludes"
_SUFFIXES: Final = (".pch", ".names", ".made")
_DIGITS: Final = 64

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Prelude:
    """One file that the build has made; `fault` says why it is not offered, empty if it is."""

    path: Path
    fault: str


def preludes(
    compiler: Path, names: Mapping[Path, Path], kinds: tuple[str, ...] = KINDS, place: str = FOLDER
) -> tuple[Prelude, ...]:
    """Preludes of `compiler`. They are read again only when their files, the compiler's, or headers have changed.

    :param names: host's folder of each folder that a compiler sees, the special ones before those that contain them.
    :param place: folder beside the compiler.
    """
    folder = compiler.parent / place
    files = [compiler, *(folder / f"{kind}{suffix}" for kind in kinds for suffix in _SUFFIXES)]
    for kind in kinds:
        made = folder / f"{kind}.made"
        files += _headers(made, _state(made), tuple(names.items()))
    paths = tuple(folder / f"{kind}.pch" for kind in kinds)
    return _examined(compiler, paths, tuple(names.items()), tuple(map(_state, files)))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=32)
def _headers(made: Path, _of: tuple[int, int, int] | None, names: tuple[tuple[Path, Path], ...]) -> tuple[Path, ...]:
    """Headers in a prelude's list of digests; none if the list is missing or damaged."""
    try:
        listed = tuple(_made(made.read_text()))
    except (OSError, ValueError):
        return ()
    return tuple(_of_host(Path(name), dict(names)) for kind, _, name in listed if kind == "file")


@functools.lru_cache(maxsize=8)
def _examined(
    compiler: Path,
    paths: tuple[Path, ...],
    names: tuple[tuple[Path, Path], ...],
    _states: tuple[tuple[int, int, int] | None, ...],
) -> tuple[Prelude, ...]:
    found = []
    digest = functools.cache(_digest)  # the kinds have most headers in common, and the compiler is large
    for path in paths:
        found.append(Prelude(path, _fault(path, compiler, dict(names), digest)))
        if found[-1].fault:
            log.warning("prelude_unused", prelude=path.stem, reason=found[-1].fault)
    return tuple(found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(prelude: Path, compiler: Path, names: Mapping[Path, Path], digest: Callable[[Path], str]) -> str:
    """First difference between a prelude's list of digests and the files; empty: none."""
    try:
        made = list(_made(prelude.with_suffix(".made").read_text()))
    except OSError:
        return "it has not been made"
    except ValueError:
        return "its list of digests is damaged"
    files = {"compiler": compiler, "prelude": prelude, "names": prelude.with_suffix(".names")}
    if not set(files) <= {kind for kind, _, _ in made}:
        return "its list of digests is damaged"
    for kind, wanted, name in made:
        path = files.get(kind) or _of_host(Path(name), names)
        try:
            is_same = digest(path) == wanted
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if not is_same:
            return f"it is damaged: {path}" if kind in ("prelude", "names") else f"it is older than {path}"
    return ""


def _made(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, digest and name of each file in a list of digests.

    :raise ValueError: it is not one.
    """
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        digest, _, name = rest.partition(" ")
        if kind == "folder":
            continue
        if kind not in ("compiler", "prelude", "names", "file") or len(digest) != _DIGITS:
            raise ValueError(line)
        yield kind, digest, name


def _of_host(name: Path, names: Mapping[Path, Path]) -> Path:
    for inside, folder in names.items():
        if name.is_relative_to(inside):
            return folder / name.relative_to(inside)
    return name
