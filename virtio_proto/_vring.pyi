"""What ``virtio_proto.build_vring`` makes: the declarations of vgc_wire.h and vgc_vring.h."""

from typing import Any

import cffi

ffi: cffi.FFI
lib: Any
