"""``vgc-cudacc``: makes a cubin from a guest's program. Runs inside the compile sandbox, as a program.

Nothing here may import modules outside of this folder and ``containers``: the sandbox shows only these
(`vhost_backend.engines.interpreter`; `vhost_backend.engines.cuda.toolchain` writes the command line). Only this program parses guest bytes. It does not
import modules that take long to load (``dataclasses``, ``pathlib``, ``re``, ``subprocess``), as each compilation would
wait for them.
"""
