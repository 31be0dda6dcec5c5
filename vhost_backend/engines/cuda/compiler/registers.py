"""Numbers of registers of a cubin's kernels; the cubin comes from ptxas and is trusted."""

from __future__ import annotations

import struct

_TABLE = struct.Struct("<40xQ10xHHH")
"""Fields of the ELF header: offset, size and number of section headers, and index of the names' section."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_INFO = b".nv.info\0"
_WITH_SIZE = 4
_REGCOUNT = 0x2F
_ATTRIBUTE = struct.Struct("<BBH")
_COUNT = struct.Struct("<II")


def of_kernels(image: bytes) -> dict[str, int]:
    """Number of registers by mangled name, for every function that ptxas reports."""
    at, size, count, names = _TABLE.unpack_from(image)
    sections = [_SECTION.unpack_from(image, at + index * size) for index in range(count)]
    contents = [image[section[4] : section[4] + section[5]] for section in sections]
    symbols, strings = next((contents[i], contents[s[6]]) for i, s in enumerate(sections) if s[1] == _SHT_SYMTAB)
    info = next((contents[i] for i, s in enumerate(sections) if contents[names].startswith(_INFO, s[0])), b"")
    return {
        strings[(start := _SYMBOL.unpack_from(symbols, number * _SYMBOL.size)[0]) : strings.index(b"\0", start)].decode(
            "utf-8", errors="surrogateescape"
        ): registers
        for number, registers in _counts(info)
    }


def _counts(info: bytes) -> list[tuple[int, int]]:
    """Index of a symbol, and its number of registers."""
    found = []
    at = 0
    while at < len(info):
        kind, attribute, size = _ATTRIBUTE.unpack_from(info, at)
        at += _ATTRIBUTE.size
        if kind == _WITH_SIZE:
            if attribute == _REGCOUNT:
                found.append(_COUNT.unpack_from(info, at))
            at += size
    return found
