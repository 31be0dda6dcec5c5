"""PyTorch in a guest on a GPU: a training step, and what the host's libraries compute, beside PyTorch on its CPU."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cuda.gpu import Gpu
from tests.fakes.guest import REPOSITORY
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from tools import pytorch

pytestmark = pytest.mark.gpu

CLOSE = 1e-3
"""Relative difference of losses and parameters after three steps: sums of floats in other orders."""


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter that has PyTorch: the environment of `make frameworks-pytorch`, or this one."""
    found = pytorch.python()
    if found is None and importlib.util.find_spec("torch") is None:
        pytest.skip("needs `make frameworks-pytorch`, or PyTorch in this environment")
    return found or Path(sys.executable)


@pytest.fixture(scope="module")
def host(real_gpu: Gpu) -> Iterator[GpuHost]:
    engine = real_gpu.engine(binaries=True, libraries="auto")
    with gpu_host(vm(real_gpu, memory="4G", engine=engine, deadline="60s")) as made:
        yield made


def output(host: GpuHost, python: Path, *words: str) -> list[str]:
    """Lines that a program prints, in PyTorch's Python with `vgc exec`."""
    settings = ["env", f"HOME={host.vgcd.folder}", f"PYTHONPATH={REPOSITORY}", "PYTHONWARNINGS=ignore"]
    done = host.run(*settings, sys.executable, "-m", "guest_driver", "exec", str(python), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def numbers(lines: list[str]) -> list[tuple[str, list[float]]]:
    return [(name, [float(word) for word in rest]) for name, *rest in map(str.split, lines)]


@pytest.mark.parametrize("how", ["with-cudnn", "without-cudnn"])
def test_training_agrees_with_the_cpu(host: GpuHost, python: Path, how: str) -> None:
    there, here = (
        numbers(output(host, python, "-m", "tests.frameworks.pytorch_training", device, how))
        for device in ("cuda", "cpu")
    )
    assert [name for name, _ in there] == [name for name, _ in here]
    for (_, got), (_, wanted) in zip(there, here, strict=True):
        assert got == pytest.approx(wanted, rel=CLOSE)


def test_products_and_convolutions_agree_with_the_cpu(host: GpuHost, python: Path) -> None:
    said = output(host, python, "-m", "tests.frameworks.pytorch_libraries")
    assert said
    assert not [line for line in said if not line.endswith(" right")]


def test_data_kernels_streams_and_errors(host: GpuHost, python: Path) -> None:
    said = output(host, python, "-m", "tests.frameworks.pytorch_basics")
    assert said[1] == "True True True"
