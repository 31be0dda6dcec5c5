"""Signs of host code in a CUDA source, which nvcc compiles and NVRTC does not."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import LOOKED_AT, may_have

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

    An answer that is wrong costs time only: nvcc takes longer, and a source that NVRTC refuses is given to nvcc. So this takes
    a few milliseconds at most, whatever a guest has written.
    """
    if len(source) > LOOKED_AT or may_have(_SIGNS, source):
        return True
    names = {name.decode(errors="replace") for name in _INCLUDED.findall(source) if len(name) <= _LONGEST_NAME}
    return not all(_has(name, tuple(folders)) for name in names)


@functools.lru_cache(maxsize=1024)
def _has(name: str, folders: tuple[Path, ...]) -> bool:
    """True if a header is in one of the folders; one outside of them is no header of theirs.

    Nor is one that is spelled in an odd way: there are as many ways as a guest likes, and each would be looked up.
    """
    if not name.isprintable() or any(part in ("", ".", "..") for part in name.split("/")):
        return False
    return any((folder / name).is_file() for folder in folders)
