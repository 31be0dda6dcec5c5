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

TUTORIALS: Final = ("vectors", "matmul", "layer_norm", "attention")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_computes(host: GuestHost, tmp_path: Path, example: Example) -> None:
    assert example.says in output(host, tmp_path, example.framework, example.path, settings=example.settings)


def test_kernels_of_tritons_tutorials_are_right(host: GuestHost, tmp_path: Path) -> None:
    found = output(host, tmp_path, "triton", "-m", "tests.frameworks.triton_tutorials")
    assert found.splitlines() == [f"check_{name}: right" for name in TUTORIALS]


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
