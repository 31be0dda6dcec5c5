"""Makes the source of a firmware image: one file, amalgamated from the headers of the control code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from virtio_proto.control.firmware import ImageError

SOURCES: Final = Path(__file__).resolve().parents[3] / "kernels" / "control"
MAIN: Final = "firmware.cu"
_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)


def amalgamate(folder: Path = SOURCES, main: str = MAIN) -> str:
    """Reads `main` and replaces every ``#include "..."`` by the file's content, each file of `folder` once.

    Includes in angle brackets stay, as they belong to the compiler.

    :raise ImageError: a file is missing, or lies outside of `folder`.
    """
    return _expand(folder.resolve(), folder.resolve() / main, set())


def _expand(folder: Path, path: Path, seen: set[Path]) -> str:
    seen.add(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}; allowed: files of {folder}") from None

    def include(match: re.Match[str]) -> str:
        wanted = (path.parent / match[1]).resolve()
        if not wanted.is_relative_to(folder):
            raise ImageError(f"{path}: includes {match[1]}; allowed: files of {folder}")
        return "" if wanted in seen else _expand(folder, wanted, seen)

    return _INCLUDE.sub(include, text)


def abi() -> int:
    """Number of the interface between hooks and firmware in this installation."""
    from vhost_backend._dataplane import lib

    return int(lib.VGC_CTL_ABI)


def built_in() -> str:
    """Version of the control code that engines are built with."""
    from vhost_backend._dataplane import lib

    return f"{lib.VGC_CTL_BUILT_IN_MAJOR}.{lib.VGC_CTL_BUILT_IN_MINOR}.{lib.VGC_CTL_BUILT_IN_PATCH}"
