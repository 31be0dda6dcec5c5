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
        ("train_tinygrad", "CUDA", "CUDA: the loss fell from "),
        ("train_tinygrad", "CUDA:PTX", "CUDA: the loss fell from "),
    ],
)
def test_example_computes(host: GuestHost, tmp_path: Path, example: str, device: str, says: str) -> None:
    python = frameworks.python()
    if python is None:
        pytest.skip("needs `make frameworks`")
    settings = [f"HOME={tmp_path}", f"PATH={os.environ['PATH']}", "PYTHONWARNINGS=ignore", f"DEV={device}"]
    settings.append("PARALLEL=0")  # processes that tinygrad starts to compile in do not inherit the link to this host
    settings = [word for word in settings if not word.endswith("=")]
    vgc = (sys.executable, "-m", "guest_driver", "exec")
    done = host.run("env", *settings, *vgc, python, EXAMPLES / f"{example}.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout
