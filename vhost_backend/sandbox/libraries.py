"""Shared libraries of programs: all that a process needs of the host's library folders, and nothing else of them.

The host's own dynamic linker resolves them (``ld.so --list PROGRAM``, which runs no code of the program), so that search
paths, the linker's cache and symbols' versions count as when the program runs on the host.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.errors import HostError

# From the kernel: linux/elf.h
_ELF64: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_DYNAMIC: Final = 2
_INTERPRETER: Final = 3
_READ_BYTES: Final = 64 << 10
"""Bytes of a file within which linkers put the segments' table and the interpreter's name."""

_LINKER_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Libraries:
    """Libraries that programs load when they start, and their dynamic linkers."""

    by_name: dict[str, Path]
    """Real path of each library, by the name under which programs look for it."""
    linkers: tuple[Path, ...]
    """Dynamic linkers, by the paths that the programs' headers name."""


def libraries_of(files: Iterable[Path]) -> Libraries:
    """Finds the libraries of programs and shared objects. Files that are neither, and static programs, have none.

    A library that two files find in different places is taken from where the first does, as with ``LD_LIBRARY_PATH``.

    :raise HostError: a file cannot be read, or lacks a library.
    """
    linked = {path: segments for path in files if _DYNAMIC in (segments := _segments(path))}
    linkers = tuple(dict.fromkeys(segments[_INTERPRETER] for segments in linked.values() if _INTERPRETER in segments))
    by_name: dict[str, Path] = {}
    for path, segments in linked.items() if linkers else ():
        for name, library in _listed(segments.get(_INTERPRETER, linkers[0]), path):
            by_name.setdefault(name, library)
    return Libraries(by_name, linkers)


def _segments(path: Path) -> dict[int, Path]:
    """Kinds of an ELF file's segments, with the text of the one that names the dynamic linker; empty for other files.

    :raise HostError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_READ_BYTES)
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}") from error
    if not head.startswith(_ELF64) or len(head) < _HEADER.size:
        return {}
    header = _HEADER.unpack_from(head)
    offset, size, count = header[5], header[9], header[10]
    found: dict[int, Path] = {}
    for at in range(offset, min(offset + count * size, len(head) - _SEGMENT.size), size):
        kind, _, start, _, _, length, _, _ = _SEGMENT.unpack_from(head, at)
        text = head[start : start + length].rstrip(b"\0") if kind == _INTERPRETER else b""
        found[kind] = Path(os.fsdecode(text))
    return found


def _listed(linker: Path, path: Path) -> list[tuple[str, Path]]:
    """Asks a dynamic linker for the libraries of `path`: (name, real path).

    :raise HostError: the linker fails, or does not find one of them.
    """
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            [linker, "--list", path.resolve()],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=_LINKER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"the libraries of {path} cannot be listed: {linker}: {error}") from error
    if done.returncode != 0:  # "PROGRAM: error while loading shared libraries: NAME: cannot open shared object file"
        raise HostError(f"the libraries of {path} cannot be listed: {done.stderr.strip()}", "see ldd")
    listed = (line.strip().partition(" => ") for line in done.stdout.splitlines())
    # A line without an arrow is the kernel's own library, the linker, or "statically linked".
    return [
        (name, Path(place.partition(" (")[0]).resolve())
        for name, arrow, place in listed
        if arrow and not name.startswith("/")
    ]
