"""Taichi, unchanged from PyPI, on a guest's device, and wheels that cannot compute there, with `vgc exec`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host
from tools import further_frameworks


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_taichi_computes(host: GuestHost, tmp_path: Path) -> None:
    done = run(host, tmp_path, REPOSITORY / "examples/frameworks/fields_taichi.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "heat after 50 steps is right, and 102400 of it is there" in done.stdout


@pytest.mark.parametrize(
    ("program", "library"),
    [
        ("import cupy; cupy.arange(10)", "/cupy_backends/cuda/api/runtime."),
        ("import warp as wp; wp.init(); wp.zeros(16, dtype=float, device='cuda:0')", "/warp/bin/warp.so"),
    ],
    ids=["cupy", "warp"],
)
def test_wheels_with_nvidias_runtime_inside_say_why_they_fail(
    host: GuestHost, tmp_path: Path, program: str, library: str
) -> None:
    done = run(host, tmp_path, "-c", program)
    assert done.returncode == 1, done.stdout + done.stderr  # an exception of Python's, no crash
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("virtio-gpu-compute: ")]
    assert library in said
    assert (
        "has NVIDIA's CUDA runtime inside, which works with NVIDIA's driver only, and fails here: build it from" in said
    )


def run(host: GuestHost, home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a program in the Python that has them, with `vgc exec`."""
    python = further_frameworks.python()
    if python is None:
        pytest.skip("needs `make frameworks-further`")
    settings = [f"HOME={home}", f"PATH={os.environ['PATH']}", "PYTHONWARNINGS=ignore"]
    return host.run("env", *settings, sys.executable, "-m", "guest_driver", "exec", python, *words)
