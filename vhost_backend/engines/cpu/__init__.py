"""The CPU engine: a software GPU that runs the same CUDA source as a real one.

Processing elements are threads that execute the blocks of a launch. The C half (``engine.c`` and its neighbours) is
compiled into ``vhost_backend._dataplane``; ``compiler/`` holds the compiler, ``kernels/cpu/include`` the headers
for device code.
"""

from vhost_backend.engines.cpu.engine import CpuEngine

__all__ = ["CpuEngine"]
