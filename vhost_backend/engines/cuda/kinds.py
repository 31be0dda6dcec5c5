"""Kinds of kernels' parameters, from the trailer behind a cubin and from the kernels' mangled names.

The trailer (`compiler/trailer.py`) comes from a process that has read guest data, so nothing in it is trusted: its
kinds are used only where they fit the cubin, and forged ones affect only that guest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from vhost_backend.engines.cuda import signature
from vhost_backend.engines.cuda.compiler import ptx, trailer
from vhost_backend.engines.cuda.names import parts
from virtio_proto.schema import ParamKind

__all__ = ["Declared", "TrailerError", "is_source", "param_kinds", "split", "unit_name"]

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
"""Words of a kernel's parameters, by the kernel's name; marks of the program (`is_source`, `unit_name`) begin with @."""


class TrailerError(ValueError):
    """The trailer behind a cubin is damaged."""


def split(image: bytes) -> tuple[bytes, Declared]:
    """Splits an image into the cubin and its trailer's contents; an image without a trailer is a cubin alone.

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
        raise TrailerError(f"the trailer behind the cubin claims {size} bytes; allowed: {room}")
    return image[: end - size], _lines(image[end - size : end])


def is_source(declared: Declared) -> bool:
    """True if the program was compiled from the guest's source; False for PTX, cubins and fatbins of the guest."""
    return trailer.SOURCE in declared


def unit_name(declared: Declared, number: int) -> str:
    """Guest's name of a source of a program of several."""
    return declared.get(f"{trailer.UNIT}{number}", f"unit{number}")


def _lines(content: bytes) -> Declared:
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise TrailerError(f"the trailer behind the cubin is not ASCII text: {error.reason}") from error
    if lines.pop():
        raise TrailerError("the trailer behind the cubin ends in the middle of a line")
    parts = (line.partition(" ") for line in lines)
    return {name: words for name, _, words in parts}


def param_kinds(name: str, sizes: Sequence[int], declared: Declared) -> tuple[ParamKind, ...]:
    """`ParamKind` of each parameter of a kernel, with sizes from the cubin; () if all are unknown.

    A mangled name, if it can be read, tells pointers from integers; PTX tells structs, and needs no mangled name.
    """
    named = signature.param_kinds(parts(name).name, sizes)
    words = declared.get(name, "").split()
    if len(words) != len(sizes):
        return named
    kinds = [_kind(word, size) for word, size in zip(words, sizes, strict=True)]
    if None in kinds:
        return named
    known = named or (ParamKind.UNKNOWN,) * len(sizes)
    return tuple(first or second or ParamKind.UNKNOWN for first, second in zip(known, kinds, strict=True))


def _kind(word: str, size: int) -> ParamKind | None:
    """Parses a word; None: it does not fit a parameter of that size."""
    match = _WORD.fullmatch(word)
    if match is None or int(match[2]) != size:
        return None
    kind = _KINDS[match[1]]
    return kind if size in _SIZES.get(kind, (size,)) else None
