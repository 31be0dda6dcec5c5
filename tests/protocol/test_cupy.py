"""CuPy, built from its sources on PyPI by one command, on a guest's device with `vgc exec`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host
from tools import cupy

MEMORY_MIB: Final = 512

RELEASES: Final = """
import cupy as cp
from ctypes import CDLL, byref, c_int
from os import RTLD_NOLOAD
version = c_int()
CDLL("libcudart.so.13", RTLD_NOLOAD).cudaRuntimeGetVersion(byref(version))
memory = cp.arange(10).data.ptr
print(cp.cuda.runtime.runtimeGetVersion(), version.value, cp.cuda.runtime.pointerGetAttributes(memory).type)
"""

SORT: Final = """
import cupy as cp, numpy as np
values = np.random.default_rng(1).integers(0, 1000, 5000).astype(np.int32)
print(np.array_equal(cp.sort(cp.asarray(values)).get(), np.sort(values)))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host"), memory_mib=MEMORY_MIB) as host:
        yield host


def test_example_computes(host: GuestHost, tmp_path: Path) -> None:
    done = run(host, tmp_path, REPOSITORY / "examples/frameworks/arrays_cupy.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arrays, kernels of elements, a reduction, CUDA C, sums, matrices and an FFT are right" in done.stdout


def test_its_extensions_are_served_as_cuda_12_s_by_the_runtime_of_cuda_13(host: GuestHost, tmp_path: Path) -> None:
    done = run(host, tmp_path, "-c", RELEASES)
    assert (done.returncode, done.stdout) == (0, "12060 13000 2\n"), done.stdout + done.stderr


def test_sorting_compiles_the_kernels_of_thrust_that_it_launches(host: GuestHost, tmp_path: Path) -> None:
    done = run(host, tmp_path, "-c", SORT)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stdout + done.stderr


def run(host: GuestHost, home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a program in the Python that has CuPy, with `vgc exec`."""
    python = cupy.python()
    if python is None:
        pytest.skip("needs `make frameworks-cupy`, which builds CuPy")
    settings = [f"HOME={home}", f"PATH={os.environ['PATH']}", "PYTHONWARNINGS=ignore"]
    return host.run("env", *settings, sys.executable, "-m", "guest_driver", "exec", python, *words)
