"""``vgc-cudacc``: makes one cubin out of what a guest sent. Runs inside the compile sandbox, as a program.

Nothing here may import what lies outside of this folder: the sandbox shows it alone, under the name ``compiler``
(`vhost_backend.engines.cuda.toolchain` writes the command line). Guest bytes are parsed here and only here, so
modules that take long to load (``dataclasses``, ``pathlib``, ``re``, ``subprocess``) are left out: each compilation
would wait for them.
"""
