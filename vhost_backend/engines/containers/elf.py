"""Sections of 64-bit ELF files: cubins, and host objects and programs with fatbins in them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from .errors import CompileError

MAGIC = b"\x7fELF\x02\x01"
"""First bytes: 64 bits, little-endian."""
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
_LONGEST_NAME = 4096
"""Bytes of a section's name; cubins have one for each kernel, named like it."""


class Section(NamedTuple):
    """A section, and where its bytes lie in the file."""

    name: str
    flags: int
    image: bytes
    place: slice

    @property
    def content(self) -> bytes:
        """The section's bytes, copied: a damaged table may claim the whole file for each of many sections."""
        return self.image[self.place]


def sections(image: bytes, what: str) -> list[Section]:
    """All sections, in the order of the table.

    :param what: word for the file in errors, such as "cubin".

    :raise CompileError: the file is damaged.
    """
    if len(image) < HEADER.size:
        raise CompileError(f"the {what} is {len(image)} bytes long, and its header alone takes {HEADER.size}")
    fields = HEADER.unpack_from(image)
    offset, (size, count, names) = fields[6], fields[11:14]
    if size != _SECTION.size or offset + count * size > len(image) or names >= count:
        raise CompileError(f"the {what} is damaged: its table of sections lies outside of it")
    table = [_SECTION.unpack_from(image, offset + index * size) for index in range(count)]
    strings = image[_place(table[names])]
    return [Section(_text(strings, entry[0]), entry[2], image, _place(entry)) for entry in table]


def _place(entry: tuple[int, ...]) -> slice:
    start, size = entry[4:6]
    return slice(0) if entry[1] == _NO_BITS else slice(start, start + size)


def _text(strings: bytes, offset: int) -> str:
    return strings[offset : offset + _LONGEST_NAME].split(b"\0", 1)[0].decode(errors="replace")
