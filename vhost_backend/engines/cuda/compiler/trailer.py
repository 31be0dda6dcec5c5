"""Trailer behind a cubin, with the kinds of its kernels' parameters, which a cubin does not have.

===========  ==========================================================================================================
text         a line for each kernel: its name, and a word for each parameter, a letter (`ptx`) and its size in bytes;
             a line `SOURCE` if the program was compiled from source; for a program of several sources, a line with
             `UNIT`, each one's number and name
its size     32 bits, little-endian, like the version
version      32 bits
magic        8 bytes, at the very end of the image
===========  ==========================================================================================================

`vhost_backend.engines.cuda.kinds` reads it. Every image has a trailer, even if empty, so that bytes which a guest puts
behind its own cubin are never taken for one.
"""

from __future__ import annotations

import struct

from . import ptx

END = struct.Struct("<II8s")
VERSION = 1
MAGIC = b"VGCKINDS"
MAX_BYTES = 1 << 20
SOURCE = "@source"
UNIT = "@unit"


def with_kinds(image: bytes, text: bytes) -> bytes:
    """Appends the trailer to a cubin that the guest made. `text`: PTX of the same code; empty without PTX."""
    return _with_lines(image, [], text)


def of_source(image: bytes, texts: list[bytes]) -> bytes:
    """Appends the trailer to a cubin that was compiled from source. `texts`: its PTX."""
    return _with_lines(image, [SOURCE], *texts)


def of_units(image: bytes, texts: list[bytes], names: list[str], *, has_source: bool) -> bytes:
    """Appends the trailer to a cubin of several units. `texts`: PTX of those that have it; `names`: those of all;
    `has_source`: whether one was compiled from source.
    """
    marks = [SOURCE] if has_source else []
    return _with_lines(image, [*marks, *(f"{UNIT}{number} {name}" for number, name in enumerate(names))], *texts)


def _with_lines(image: bytes, marks: list[str], *texts: bytes) -> bytes:
    lines = [" ".join([name, *params]) for text in texts for name, params in ptx.kernels(text).items()]
    kinds, least = _joined([*marks, *lines]), _joined(marks)
    if len(kinds) > MAX_BYTES:
        kinds = least
    return image + kinds + END.pack(len(kinds), VERSION, MAGIC)


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii", errors="backslashreplace")
