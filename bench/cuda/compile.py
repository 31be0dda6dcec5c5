"""Cubins for the native side, compiled by the command that the daemon runs for that source."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench.cuda.gpu import Gpu
from bench.results import SkipRow
from vhost_backend.engines.cuda import kinds
from vhost_backend.engines.registry import engine_class

COMPILE_SECONDS: Final = 60


def cubin_of(source: bytes, gpu: Gpu, compiler: str = "auto", hooks: str = "off") -> bytes:
    """Compiles `source`, with the control system's hooks if `hooks` is "on".

    :raise SkipRow: it does not compile on this machine; the text is the compiler's.
    """
    settings = {"arch": gpu.arch, "driver": gpu.driver_version, "compiler": compiler, "hooks": hooks}
    job = engine_class("cuda").compile_job("CUDA_SOURCE", source, (), settings)
    with tempfile.TemporaryDirectory(prefix="vgc-cubin-") as folder:
        (Path(folder) / job.input_name).write_bytes(source)
        done = subprocess.run(
            job.argv,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_SECONDS,
        )
        if done.returncode != 0:
            raise SkipRow(f"a benchmark's kernel does not compile: {done.stdout}{done.stderr}".strip())
        return kinds.split((Path(folder) / job.output_name).read_bytes())[0]
