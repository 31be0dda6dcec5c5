# What `vhost_backend.dataplane.build` makes: the declarations of vgc_dataplane.h, vgc_engine.h and the engines.

from typing import Any

ffi: Any  # cffi's own types know no fields
lib: Any
