"""Takes the PTX out of fatbins, and goes on as the compiler. Runs inside the compile sandbox, as a program.

Nothing here may import modules outside of this folder and ``containers``: the sandbox shows only these
(`vhost_backend.engines.interpreter`; `vhost_backend.engines.cpu.toolchain` writes the command line).
"""
