"""What is put behind a cubin, because a cubin cannot say it: the kinds of its kernels' parameters.

===========  ==========================================================================================================
text         a line for each kernel: its name, and a word for each parameter, a letter (`ptx`) and its size in bytes
its size     32 bits, little-endian, as the next one
version      32 bits
magic        8 bytes, at the very end of the image
===========  ==========================================================================================================

`vhost_backend.engines.cuda.kinds` reads it. Every image has one, if only an empty one: so what a guest puts behind a
cubin of its own is never taken for it.
"""

from __future__ import annotations

import struct

from . import ptx

END = struct.Struct("<II8s")
VERSION = 1
MAGIC = b"VGCKINDS"
MAX_BYTES = 1 << 20


def with_kinds(image: bytes, text: bytes) -> bytes:
    """A cubin and its trailer. `text` is the PTX that it was made of; empty where there is none."""
    lines = [" ".join([name, *params]) + "\n" for name, params in ptx.kernels(text).items()]
    kinds = "".join(lines).encode()
    if len(kinds) > MAX_BYTES:
        kinds = b""
    return image + kinds + END.pack(len(kinds), VERSION, MAGIC)
