"""What ``vhost_backend.dataplane.build`` makes: the declarations of vgc_dataplane.h, vgc_engine.h and the engines."""

from typing import Any

import cffi

ffi: cffi.FFI
lib: Any
