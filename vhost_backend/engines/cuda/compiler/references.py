"""Texture and surface references, which NVIDIA's compilers no longer have since CUDA 12, as variables of the device.

A reference is declared without a memory space: ``texture<float, 2> plane;``. The header ``vgc_references.h`` has types of
these names, whose first 8 bytes are the object to which the guest's runtime binds the reference, and functions that
fetch through them; only ``__device__`` has to be put before each declaration.
"""

from __future__ import annotations

import re

__all__ = ["is_rewritten", "rewritten"]

_DECLARATION = re.compile(
    rb"(?P<before>^|[;}])(?P<words>\s*(?:static\s+|extern\s+)?)"
    rb"(?=(?:texture|surface)\s*<[^;(){}]*>\s*[A-Za-z_]\w*\s*[;=(])",
    re.MULTILINE,
)
_HEADER = b'#include "vgc_references.h"\n#line 1\n'


def is_rewritten(source: bytes) -> bool:
    """True if the source's references are variables of the device already."""
    return source.startswith(_HEADER)


def rewritten(source: bytes) -> bytes:
    """The source with its references as variables of the device; a source without references stays as it is."""
    text, count = _DECLARATION.subn(rb"\g<before>\g<words>__device__ ", source)
    return _HEADER + text if count else source
