"""Types of kernels' parameters, as people read them on either side: ``int32``, ``float64``, ``pointer``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_POINTER: Final = 3
_KINDS: Final = {1: "int", 2: "float", 4: "struct"}
"""Words for kinds (`virtio_proto.schema.ParamKind`, which takes construct)."""


def signature(name: str, params: Iterable[tuple[int, int]]) -> str:
    """Name and parameters of a function; `params` are kinds and sizes in bytes."""
    return f"{name}({', '.join(_type_text(*param) for param in params)})"


def _type_text(kind: int, size_bytes: int) -> str:
    return "pointer" if kind == _POINTER else f"{_KINDS.get(kind, 'any')}{8 * size_bytes}"
