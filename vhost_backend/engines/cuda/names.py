"""A kernel's name in the source, from its mangled name.

Kernels are functions in namespaces: no members, operators or constructors. Their names use a small part of the Itanium
C++ ABI's mangling [https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling]::

    _Z [L] NAME ...                      twice(int*)                _Z5twicePi, _ZL5twicePi
    _Z N (St | [L] NAME [B TAG])* E ...  solver::v2::step(int)      _ZN6solver2v24stepEi

where NAME is a length and characters, ``L`` means internal linkage and ``I`` begins template arguments, after which the
kernel's name has ended.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["short_name"]

_PART: Final = re.compile(r"St|(?P<tag>B)?L?(?P<length>[1-9][0-9]{0,5})")


def short_name(mangled: str) -> str:
    """Unqualified name without arguments; a name that is not mangled (``extern "C"``) or not a kernel's is returned as
    is.
    """
    nested = mangled.startswith("_ZN")
    at = 3 if nested else 2
    name = ""
    while mangled.startswith("_Z") and (part := _PART.match(mangled, at)) and (nested or not name):
        at = part.end() + int(part["length"] or 0)
        if at > len(mangled):
            return mangled
        if part["length"] and not part["tag"]:
            name = mangled[part.end() : at]
    return name or mangled
