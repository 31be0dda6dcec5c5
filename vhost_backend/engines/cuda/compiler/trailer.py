"""Trailer behind a cubin, with the kinds of its kernels' parameters, which a cubin does not have.

===========  ==========================================================================================================
text         a line for each kernel: its name, and a word for each parameter, a letter (`ptx`) and its size in bytes
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


def with_kinds(image: bytes, text: bytes) -> bytes:
    """Appends the trailer to a cubin. `text`: PTX of the same compilation; empty without PTX."""
    lines = [" ".join([name, *params]) + "\n" for name, params in ptx.kernels(text).items()]
    kinds = "".join(lines).encode()
    if len(kinds) > MAX_BYTES:
        kinds = b""
    return image + kinds + END.pack(len(kinds), VERSION, MAGIC)
