"""Votes of a warp without a mask (``__any``, ``__all``, ``__ballot``), from before CUDA 9, under names of ours.

NVIDIA's headers declare the three, but have no code for them since sm_70, and libcu++ has a class of such a name; so
neither functions nor macros can bring them back. ``vgc_old_warps.h`` has the functions that are called instead.
"""

from __future__ import annotations

import re

__all__ = ["renamed"]

_VOTE = re.compile(rb"(?<![\w:.>])__(any|all|ballot)(?=\s*\()")


def renamed(source: bytes) -> bytes:
    """The source with other names of these functions; a source without them stays as it is."""
    return _VOTE.sub(rb"__vgc_\1", source)
