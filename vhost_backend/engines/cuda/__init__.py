"""The CUDA engine: the same device on an NVIDIA GPU.

``engine.py`` opens a GPU for one VM, loads programs and starts the C half (``*.c``), which the data plane calls; the
other modules each do one thing for it. ``probe.py`` is a program, and ``toolchain.py`` the daemon's: so nothing is
imported here that the other does not need.
"""
