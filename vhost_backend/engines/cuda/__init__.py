"""The CUDA engine, which runs programs on an NVIDIA GPU.

``engine.py`` opens a GPU for one VM, loads programs and starts the C half (``*.c``), which the data plane calls; the
other modules each do one thing for it. ``probe.py`` is a program, and ``toolchain.py`` runs in the daemon, so this
module imports nothing.
"""
