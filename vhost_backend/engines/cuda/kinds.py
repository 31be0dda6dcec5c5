"""Kinds of parameters: of what the compile program put behind the cubin, and of what the kernels' names say.

The trailer (`compiler/trailer.py`) comes out of a process that has read what a guest sent, so nothing in it is trusted.
What it says of a kernel counts only where it fits the cubin; and if it lies, then to that guest alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from vhost_backend.engines.cuda import signature
from vhost_backend.engines.cuda.compiler import ptx, trailer
from virtio_proto.schema import ParamKind

__all__ = ["Declared", "TrailerError", "param_kinds", "split"]

_KINDS: Final = {
    ptx.INTEGER: ParamKind.INTEGER,
    ptx.FLOAT: ParamKind.FLOAT,
    ptx.POINTER: ParamKind.POINTER,
    ptx.OTHER: ParamKind.OTHER,
    ptx.UNKNOWN: ParamKind.UNKNOWN,
}
_SIZES: Final = {
    ParamKind.INTEGER: (1, 2, 4, 8),
    ParamKind.FLOAT: (2, 4, 8),
    ParamKind.POINTER: (8,),
}
_WORD: Final = re.compile(rf"([{''.join(_KINDS)}])([0-9]{{1,5}})", re.ASCII)

Declared: TypeAlias = Mapping[str, str]
"""By the kernel's name: the words for its parameters."""


class TrailerError(ValueError):
    """What follows the cubin is damaged."""


def split(image: bytes) -> tuple[bytes, Declared]:
    """The cubin alone, and what follows it; an image without a trailer is a cubin.

    :raise TrailerError: the trailer is damaged.
    """
    end = len(image) - trailer.END.size
    if end < 0 or not image.endswith(trailer.MAGIC):
        return image, {}
    size, version, _ = trailer.END.unpack_from(image, end)
    if version != trailer.VERSION:
        raise TrailerError(f"the trailer behind the cubin is of version {version}; allowed: {trailer.VERSION}")
    room = min(end, trailer.MAX_BYTES)
    if size > room:
        raise TrailerError(f"the trailer behind the cubin says that it has {size} bytes; allowed: {room}")
    return image[: end - size], _lines(image[end - size : end])


def _lines(content: bytes) -> Declared:
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise TrailerError(f"the trailer behind the cubin is no ASCII text: {error.reason}") from error
    if lines.pop():
        raise TrailerError("the trailer behind the cubin ends in the middle of a line")
    parts = (line.partition(" ") for line in lines)
    return {name: words for name, _, words in parts}


def param_kinds(name: str, sizes: Sequence[int], declared: Declared) -> tuple[ParamKind, ...]:
    """`ParamKind` of each parameter of a kernel, whose sizes the cubin tells; () where nothing is known of any.

    A mangled name tells pointers from integers wherever it can be read; PTX knows a struct, and does without a name.
    """
    named = signature.param_kinds(name, sizes)
    words = declared.get(name, "").split()
    if len(words) != len(sizes):
        return named
    kinds = [_kind(word, size) for word, size in zip(words, sizes, strict=True)]
    if None in kinds:
        return named
    known = named or (ParamKind.UNKNOWN,) * len(sizes)
    return tuple(first or second or ParamKind.UNKNOWN for first, second in zip(known, kinds, strict=True))


def _kind(word: str, size: int) -> ParamKind | None:
    """None: it is not what a parameter of that size can be."""
    match = _WORD.fullmatch(word)
    if match is None or int(match[2]) != size:
        return None
    kind = _KINDS[match[1]]
    return kind if size in _SIZES.get(kind, (size,)) else None
