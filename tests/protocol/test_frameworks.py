"""Frameworks in Python, unchanged from PyPI, on a guest's device: the examples, with `vgc exec`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host
from tools import frameworks

TUTORIALS: Final = ("vectors", "matmul", "layer_norm", "attention")
EXAMPLES: Final = REPOSITORY / "examples" / "frameworks"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize(
    ("example", "device", "says"),
    [
        ("matmul_numba", "", "4608 elements of the product are right\n"),
        ("kernels_triton", "", "softmax is right\nthe product of matrices is right\n"),
        ("arrays_pycuda", "", "arrays, kernels of elements, a reduction and a kernel in CUDA C are right\n"),
        ("train_tinygrad", "CUDA", "CUDA: the loss fell from "),
        ("train_tinygrad", "CUDA:PTX", "CUDA: the loss fell from "),
    ],
)
def test_example_computes(host: GuestHost, tmp_path: Path, example: str, device: str, says: str) -> None:
    assert says in output(host, tmp_path, EXAMPLES / f"{example}.py", device=device)


def test_kernels_of_tritons_tutorials_are_right(host: GuestHost, tmp_path: Path) -> None:
    found = output(host, tmp_path, "-m", "tests.frameworks.triton_tutorials")
    assert found.splitlines() == [f"check_{name}: right" for name in TUTORIALS]


def output(host: GuestHost, folder: Path, *words: str | Path, device: str = "") -> str:
    """Standard output of a program in the frameworks' Python; `device` is tinygrad's."""
    python = frameworks.python()
    if python is None:
        pytest.skip("needs `make frameworks`")
    settings = [
        f"HOME={folder}",
        f"PATH={os.environ['PATH']}",
        "PYTHONWARNINGS=ignore",
        *([f"DEV={device}"] if device else []),
    ]
    settings.append("PARALLEL=0")  # processes that tinygrad starts to compile in do not inherit the link to this host
    done = host.run("env", *settings, sys.executable, "-m", "guest_driver", "exec", python, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
