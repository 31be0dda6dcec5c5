"""Fat binaries: containers with programs for several architectures, of which an engine chooses one.

NVIDIA does not document the container. This is the layout that nvcc and fatbinary 11 to 13.5 write: a header of 16
bytes, then entries, each a header of 64 bytes or more in front of a cubin or a PTX text.
"""

from __future__ import annotations

import struct

from . import lz4, zstd
from .errors import CompileError

_FILE = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
START = struct.pack("<I", _MAGIC)
"""First bytes of a fatbin."""
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
PTX = 1
CUBIN = 2
_FLAG_LZ4 = 0x2000
_FLAG_ZSTD = 0x8000
_FLAG_THIS_ARCH_ONLY = 0x100000  # sm_90a
_FLAG_FAMILY = 0x200000  # sm_100f
MAX_BYTES = 256 << 20
"""Bytes that a program in a container may have."""
_KINDS = {PTX: "PTX for sm_", CUBIN: "a cubin for sm_"}


class Entry:
    """A program in the container."""

    def __init__(self, container: bytes, offset: int) -> None:
        if offset + _ENTRY.size > len(container):
            raise CompileError(f"the fatbin is damaged: an entry at {offset} lies outside of it")
        fields = _ENTRY.unpack_from(container, offset)
        self.kind: int = fields[0]
        header_size, self.size, self.compressed_size = fields[2:5]
        self.arch: int = fields[8]
        self.flags: int = fields[11]
        self.expanded_size: int = fields[13]
        self.start = offset + header_size
        self.end = self.start + self.size
        if header_size < _ENTRY.size or self.end > len(container) or self.compressed_size > self.size:
            raise CompileError(f"the fatbin is damaged: the entry at {offset} claims to end at {self.end}")

    @property
    def is_exact(self) -> bool:
        """True if the program is for this architecture only (sm_90a)."""
        return bool(self.flags & _FLAG_THIS_ARCH_ONLY)

    @property
    def is_for_family(self) -> bool:
        """True if the program is for this architecture's major version only (sm_100f)."""
        return bool(self.flags & _FLAG_FAMILY)

    def payload(self, container: bytes) -> bytes:
        """Bytes of the program, decompressed."""
        if not self.flags & (_FLAG_LZ4 | _FLAG_ZSTD):
            return container[self.start : self.end]
        if self.expanded_size > MAX_BYTES:
            raise CompileError(f"the fatbin holds {self.expanded_size} bytes in an entry; allowed: {MAX_BYTES}")
        packed = container[self.start : self.start + self.compressed_size]
        expand = lz4.decompress if self.flags & _FLAG_LZ4 else zstd.decompress
        return expand(packed, self.expanded_size)


def entries(container: bytes) -> list[Entry]:
    """All entries, in the container's order.

    :raise CompileError: the container is not a fatbin, or is damaged.
    """
    container = split(container)[0]
    offset = _FILE.unpack_from(container)[2]
    found = []
    while offset < len(container):
        found.append(Entry(container, offset))
        offset = found[-1].end
    return found


def split(program: bytes) -> list[bytes]:
    """Fatbins that follow one another, as linkers put them, perhaps with zeroes between them.

    :raise CompileError: there is something else, or nothing.
    """
    found: list[bytes] = []
    offset, last = 0, len(program.rstrip(b"\0"))
    while offset < last or not found:
        if len(program) - offset < _FILE.size:
            left = len(program) - offset
            raise CompileError(f"the fatbin is {left} bytes long, and its header alone takes {_FILE.size}")
        magic, _version, header_size, size = _FILE.unpack_from(program, offset)
        if magic != _MAGIC:
            raise CompileError(f"the image is not a fatbin (it begins with {magic:#x}, not {_MAGIC:#x})")
        end = offset + header_size + size
        if header_size < _FILE.size or end > len(program):
            raise CompileError(f"the fatbin is damaged: it claims {end - offset} bytes and has {len(program) - offset}")
        found.append(program[offset:end])
        offset = end
        while offset < last and program[offset] == 0:
            offset += 1
    return found


def listed(found: list[Entry]) -> str:
    """Contents of a container, for errors: "a cubin for sm_80, PTX for sm_90a"."""
    known = [entry for entry in found if entry.kind in _KINDS]
    suffixes = ["a" if entry.is_exact else "f" if entry.is_for_family else "" for entry in known]
    words = [f"{_KINDS[entry.kind]}{entry.arch}{suffix}" for entry, suffix in zip(known, suffixes, strict=True)]
    return ", ".join(words) or "no known entries"
