"""Frameworks in Python, unchanged from PyPI, on a guest's device: the examples, with `vgc exec`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from tests.frameworks.examples import EXAMPLES, Example
from tests.protocol.guest_host import GuestHost, guest_host
from tools import frameworks

PROGRAMS: Final = Path("tests", "frameworks")
ON_CUDA: Final = {"DEV": "CUDA"}
TUTORIALS: Final = ("vectors", "matmul", "layer_norm", "attention")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_computes(host: GuestHost, tmp_path: Path, example: Example) -> None:
    assert example.says in output(host, tmp_path, example.framework, example.path, settings=example.settings)


def test_functions_of_other_compilers_are_linked_with_numba_s(host: GuestHost, tmp_path: Path) -> None:
    found = output(host, tmp_path, "numba", PROGRAMS / "linked_numba.py", settings={"PYTHONWARNINGS": "ignore"})
    assert found == "functions of CUDA C and PTX are right\n"


def test_kernels_of_tritons_tutorials_are_right(host: GuestHost, tmp_path: Path) -> None:
    found = output(host, tmp_path, "triton", "-m", "tests.frameworks.triton_tutorials")
    assert found.splitlines() == [f"check_{name}: right" for name in TUTORIALS]


@pytest.mark.parametrize(
    ("framework", "says"),
    [
        ("numba", "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
        ("pycuda", "MemoryError: cuMemAlloc failed: out of memory"),
        ("tinygrad", "MemoryError: Allocation of 4.00 GB failed on CUDA. Used: 3.91 KB"),
    ],
)
def test_a_framework_sees_that_memory_is_out_and_goes_on(
    host: GuestHost, tmp_path: Path, framework: str, says: str
) -> None:
    found = output(host, tmp_path, framework, PROGRAMS / f"memory_{framework}.py", settings=ON_CUDA)
    assert says in found
    assert found.endswith("computes after it\n")


def test_a_child_of_a_framework_s_process_sees_cuda_s_error(host: GuestHost, tmp_path: Path) -> None:
    found = output(host, tmp_path, "tinygrad", PROGRAMS / "forks_tinygrad.py", settings=ON_CUDA)
    assert found == "CUDA Error 3, initialization error\nthe parent computes\n"


def test_two_processes_compute_side_by_side(host: GuestHost, tmp_path: Path) -> None:
    """Each has a context of its own."""
    program = EXAMPLES[-1]
    words = ("-m", "tests.frameworks.side_by_side", program.path)
    found = output(host, tmp_path, program.framework, *words, settings=program.settings)
    assert found.count(program.says) == 2


def output(
    host: GuestHost,
    folder: Path,
    framework: str,
    *words: str | Path,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Standard output of a program of a framework."""
    python = frameworks.python(framework)
    if python is None:
        pytest.skip("needs `make frameworks`")
    variables = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PARALLEL": "0",  # processes that tinygrad starts to compile in do not inherit the link to this host
        **settings,
    }
    assigned = [f"{name}={value}" for name, value in variables.items()]
    done = host.run("env", *assigned, sys.executable, "-m", "guest_driver", "exec", python, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
