"""Decompression of Zstandard frames, which fatbins of CUDA 13 have, by the host's libzstd."""

from __future__ import annotations

import ctypes

from .errors import CompileError

_LIBRARY = "libzstd.so.1"


def decompress(frame: bytes, size: int) -> bytes:
    """Decompresses `frame`, which has `size` bytes then.

    :raise CompileError: the size differs, `frame` is invalid, or the host has no libzstd.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise CompileError(
            f"the fatbin is compressed with zstd, and the host has no {_LIBRARY} (Debian: libzstd1); "
            "nvcc --compress-mode=none makes a fatbin that needs no libzstd"
        ) from None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    buffer = ctypes.create_string_buffer(size)
    length = ctypes.c_size_t(library.ZSTD_decompress(buffer, ctypes.c_size_t(size), frame, ctypes.c_size_t(len(frame))))
    if library.ZSTD_isError(length):
        reason = library.ZSTD_getErrorName(length).decode()
        raise CompileError(f"the fatbin is damaged: its zstd data: {reason}")
    if length.value != size:
        raise CompileError(f"the fatbin is damaged: its zstd data expands to {length.value} bytes, not {size}")
    return buffer.raw
