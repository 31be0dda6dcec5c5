"""LLVM's code of programs, as the CPU engine's compiler leaves it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.limits import HANGS_AFTER_S
from vhost_backend.engines.cpu import CpuEngine


def llvm_code(source: str, kind: str = "CUDA_SOURCE", *, before: bool = False) -> str:
    """Code of a program in its final form, or before LLVM optimises the loops over threads.

    :raise subprocess.CalledProcessError: the program does not compile.
    """
    job = CpuEngine.compile_job(kind, source.encode(), (), {})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / job.input_name).write_text(source)
        argv = [*job.argv[:1], "--dump-ir", "ir", *job.argv[1:]]
        subprocess.run(argv, cwd=folder, check=True, timeout=HANGS_AFTER_S)
        return Path(folder, "ir.before" if before else "ir").read_text()


def kernel_code(code: str, kernel: str) -> str:
    """The part of a program's code that has a kernel's first region."""
    return code.split(f"@{kernel}.region0(")[1].split("\n}\n", maxsplit=1)[0]
