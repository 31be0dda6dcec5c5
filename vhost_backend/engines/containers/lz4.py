"""Decompression of LZ4 blocks, which fatbins of CUDA 11 and 12 have.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
"""

from __future__ import annotations

from .errors import CompileError

_MIN_MATCH = 4
_DAMAGED = "the fatbin is damaged: its LZ4 data"


def decompress(block: bytes, size: int) -> bytes:
    """Decompresses `block`, which has `size` bytes then.

    :raise CompileError: the size differs, or `block` is not an LZ4 block.
    """
    out = bytearray()
    position = 0
    try:
        while position < len(block):
            token = block[position]
            literals, position = _length(block, position + 1, token >> 4)
            out += block[position : position + literals]
            position += literals
            if position >= len(block) or len(out) > size:
                break
            distance = block[position] | block[position + 1] << 8
            match, position = _length(block, position + 2, token & 15)
            _copy(out, distance, match + _MIN_MATCH, size)
    except IndexError:
        raise CompileError(f"{_DAMAGED} ends in the middle") from None
    if len(out) != size:
        raise CompileError(f"{_DAMAGED} does not expand to the entry's {size} bytes")
    return bytes(out)


def _length(block: bytes, position: int, length: int) -> tuple[int, int]:
    """Reads a length whose first four bits are known; returns it and the position of the next field."""
    if length < 15:
        return length, position
    while True:
        byte = block[position]
        position += 1
        length += byte
        if byte < 255:
            return length, position


def _copy(out: bytearray, distance: int, length: int, size: int) -> None:
    """Appends `length` bytes from `distance` back; the two ranges may overlap."""
    if not 0 < distance <= len(out):
        raise CompileError(f"{_DAMAGED} refers to bytes before its beginning")
    if len(out) + length > size:
        raise CompileError(f"{_DAMAGED} expands to more than the entry's {size} bytes")
    start = len(out) - distance
    pattern = bytes(out[start : start + length])
    while len(pattern) < length:
        pattern += pattern
    out += pattern[:length]
