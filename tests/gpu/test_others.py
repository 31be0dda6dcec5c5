"""Other tools on the same kernels: compute-sanitizer finds no error, pycuda computes the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import workloads
from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu
from tests.fakes.guest import REPOSITORY
from tests.gpu.gpu_host import gpu_host, vm
from tests.limits import HANGS_AFTER_S

pytestmark = pytest.mark.gpu

FOUND_ERRORS = 99
"""compute-sanitizer's exit code for errors that it found."""

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def sanitizer() -> str:
    """The path of compute-sanitizer; skips the test where it is not installed."""
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("real_gpu")
@pytest.mark.parametrize("tool", TOOLS)
def test_sanitizer_finds_nothing_in_the_kernels(tool: str) -> None:
    """All kernels of ``sanitized.py`` run natively, since compute-sanitizer watches the process that launches them."""
    options = ["--tool", tool, "--error-exitcode", str(FOUND_ERRORS)]
    options += ["--track-unused-memory", "no"] if tool == "initcheck" else []
    command = [sanitizer(), *options, sys.executable, "-m", "tests.gpu.sanitized"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    if "Device not supported" in done.stdout:
        pytest.skip("compute-sanitizer does not support this GPU here")
    assert done.returncode == 0, done.stdout + done.stderr


def test_pycuda_computes_the_same(real_gpu: Gpu) -> None:
    """A cubin computes the same bits by pycuda, in this process, and through the device."""
    cuda = pytest.importorskip("pycuda.driver", reason="pycuda is not installed")
    if "fake-cuda" in Path("/proc/self/maps").read_text():
        pytest.skip("the fake driver is loaded already: run tests/gpu alone")
    made = workloads.matmul_tiled(256)
    n, a, b, c = map(np.asarray, made.arguments)
    cuda.init()
    context = cuda.Device(real_gpu.index).retain_primary_context()
    context.push()
    try:
        kernel = cuda.module_from_buffer(cubin_of(made.text("cu").encode(), real_gpu)).get_function(made.name)
        natively = np.empty_like(c)
        kernel(np.uint64(n), cuda.In(a), cuda.In(b), cuda.Out(natively), grid=made.grid, block=(*made.block, 1))
    finally:
        context.pop()
    with gpu_host(vm(real_gpu)) as host:
        dev = host.open()
        on_a, on_b, on_c = dev.to_device(a), dev.to_device(b), dev.zeros(len(c))
        dev.compile(made.text("cu"))[made.name].launch(made.grid, made.block, np.uint64(n), on_a, on_b, on_c)
        assert np.array_equal(on_c.get(), natively)
