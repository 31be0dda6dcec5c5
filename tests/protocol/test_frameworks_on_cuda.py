"""Frameworks in Python on the CUDA engine over the fake driver: NVIDIA's compilers of the host compile and link what the
frameworks make, the driver gets it, and kernels are launched. What they compute is not there to be seen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.frameworks.examples import EXAMPLES, Example
from tests.protocol.fake_gpu import fake_gpu_host
from tests.unit.cuda_compile_rig import needs_nvcc
from tools import frameworks

LINKED = Example("numba", "linked_numba", "")
KERNELS = {
    "matmul_numba": "_ZN8__main__8multiply",
    "kernels_triton": "softmax",
    "arrays_pycuda": "axpbyz",
    "train_tinygrad": "r_",
    "linked_numba": "_ZN8__main__4fill",
}
"""Kernel that each program launches before it looks at a result, which is wrong."""


@needs_nvcc
@pytest.mark.parametrize("example", [*EXAMPLES, LINKED], ids=str)
def test_kernels_are_compiled_and_launched(tmp_path: Path, example: Example) -> None:
    python = frameworks.python(example.framework)
    if python is None:
        pytest.skip("needs `make frameworks`")
    path = Path("tests/frameworks/linked_numba.py") if example is LINKED else example.path
    values = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PARALLEL": "0", **example.settings}
    settings = [f"{name}={value}" for name, value in values.items()]
    with fake_gpu_host(tmp_path) as (host, log):
        done = host.run("env", *settings, sys.executable, "-m", "guest_driver", "exec", python, path)
        lines = log.read_text().splitlines()
    launched = [line.split()[1] for line in lines if line.startswith("launch ")]
    assert any(name.startswith(KERNELS[example.name]) for name in launched), done.stdout + done.stderr
    assert done.stderr.rstrip().endswith("AssertionError")
    assert not [line for line in lines if line.startswith("misuse")]
