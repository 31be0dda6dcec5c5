# What virtio_proto.build_vring makes of vgc_wire.h and vgc_vring.h. C's structs and functions have no Python types.

from typing import Any

ffi: Any
lib: Any
