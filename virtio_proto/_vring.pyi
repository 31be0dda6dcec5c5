"""What ``virtio_proto.build_vring`` makes: the declarations of vgc_wire.h and vgc_vring.h.

C's structs and functions have no Python types, so both are Any.
"""

from typing import Any

ffi: Any
lib: Any
