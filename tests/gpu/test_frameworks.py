"""Frameworks in Python in a guest on a GPU: the examples, and functions of several compilers linked."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cuda.gpu import Gpu
from tests.fakes.guest import REPOSITORY
from tests.frameworks.examples import EXAMPLES, Example
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from tools import frameworks

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def host(real_gpu: Gpu) -> Iterator[GpuHost]:
    engine = real_gpu.engine(binaries=True, libraries="auto")
    with gpu_host(vm(real_gpu, memory="4G", engine=engine, deadline="60s")) as made:
        yield made


def output(host: GpuHost, example: Example, path: Path) -> str:
    """Standard output of a framework's program, in the environment of `make frameworks`, or this one."""
    python = frameworks.python(example.framework)
    if python is None and importlib.util.find_spec(example.framework) is None:
        pytest.skip(f"needs `make frameworks`, or {example.framework} in this environment")
    values = {"HOME": str(host.vgcd.folder), "PYTHONPATH": str(REPOSITORY), "PARALLEL": "0", **example.settings}
    settings = [f"{name}={value}" for name, value in values.items()]
    words = (sys.executable, "-m", "guest_driver", "exec", str(python or sys.executable), str(REPOSITORY / path))
    done = host.run("env", *settings, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_computes(host: GpuHost, example: Example) -> None:
    assert example.says in output(host, example, example.path)


def test_functions_of_other_compilers_are_linked_with_numba_s(host: GpuHost) -> None:
    example = Example("numba", "linked_numba", "functions of CUDA C and PTX are right\n")
    assert example.says in output(host, example, Path("tests/frameworks/linked_numba.py"))
