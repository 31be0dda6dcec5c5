"""Functions and variables that a link adds, in PTX of relocatable code that is loaded without one.

A guest's compiler of relocatable code (NVRTC with ``-dc``) shows errors and names of kernels before it links. So that
the program loads, what it lacks is defined here: a function traps, and a variable is zero. In PTX they are declared by
``.extern`` [PTX ISA: Linking Directives]; what the driver has itself stays so, and dynamic shared memory is no lack.
"""

from __future__ import annotations

import re

_DRIVERS = frozenset((b"vprintf", b"malloc", b"free", b"__assertfail"))
_FUNCTION = re.compile(rb"\.extern(\s+\.func\s+(?:\([^()]*\)\s*)?([\w$%]+)[^;{}]*);")
_VARIABLE = re.compile(rb"\.extern(\s+\.(?:global|const)\b[^;={}]*;)")


def defined(text: bytes) -> bytes:
    """PTX that has a definition for all that it declares and lacks."""
    text = _VARIABLE.sub(lambda found: b".visible" + found[1].replace(b"[]", b"[1]"), text)
    return _FUNCTION.sub(_with_body, text)


def _with_body(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] in _DRIVERS else b".visible" + found[1] + b"\n{\n\ttrap;\n\tret;\n}\n"
