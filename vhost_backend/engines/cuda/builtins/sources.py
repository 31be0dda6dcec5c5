"""Sources of the modules with the CUDA engine's built-in functions, each in one piece for the compiler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
MODULES: Final = tuple(sorted(path.stem for path in HERE.glob("*.cu")))
_INCLUDE: Final = re.compile(r'^#include "(\w+\.\w+)"$', re.MULTILINE)


def source(module: str) -> str:
    """Source of a module, with this folder's headers inserted where they are included first.

    :param module: one of `MODULES`.
    """
    included: set[str] = set()

    def inserted(include: re.Match[str]) -> str:
        if include[1] in included:
            return ""
        included.add(include[1])
        return _INCLUDE.sub(inserted, (HERE / include[1]).read_text())

    return _INCLUDE.sub(inserted, (HERE / f"{module}.cu").read_text())
