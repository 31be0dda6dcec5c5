"""Signs of host code in a CUDA source, which nvcc compiles and NVRTC does not."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SIGNS: Final = re.compile(
    rb"<<\s*<"  # a launch
    rb"|\bmain\s*\("
    rb"|\bcu(?:da|rand|blas|fft|sparse|solver|dnn)[A-Z][A-Za-z]*\s*\("  # a call of the runtime or of a library
    rb"|\bthrust\s*::"
)
_INCLUDED: Final = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_LONGEST_NAME: Final = 200


def is_likely(source: bytes, folders: Sequence[Path]) -> bool:
    """True if a source launches kernels, calls the runtime, or includes what NVRTC does not have in its `folders`.

    An answer that is wrong costs time only: nvcc takes longer, and a source that NVRTC refuses is given to nvcc.
    """
    if _SIGNS.search(source) is not None:
        return True
    names = {name.decode(errors="replace") for name in _INCLUDED.findall(source) if len(name) <= _LONGEST_NAME}
    return not all(_has(name, tuple(folders)) for name in names)


@functools.lru_cache(maxsize=1024)
def _has(name: str, folders: tuple[Path, ...]) -> bool:
    """True if a header is in one of the folders; one outside of them is no header of theirs."""
    if name.startswith("/") or ".." in name or not name.isprintable():
        return False
    return any((folder / name).is_file() for folder in folders)
