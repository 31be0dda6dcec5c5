"""Kernels of Python's frameworks, compiled elsewhere, as a guest's user runs them from examples/ptx."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host
from tests.ptx.anew import compile_anew, needs_frameworks

EXAMPLES = REPOSITORY / "examples" / "ptx"
MODULE = EXAMPLES / "matmul_triton.ptx"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


examples = pytest.mark.parametrize(
    ("example", "printed"),
    [
        ("matmul_triton", "(300 x 153) @ (153 x 305): right\n"),
        ("mandelbrot_numba", "300 x 200 points: right\n"),
        ("layers_tinygrad", "32 samples, 2 layers: right\n"),
    ],
)


@examples
def test_kernels_of_frameworks_run_without_them(host: GuestHost, example: str, printed: str) -> None:
    done = host.run(sys.executable, EXAMPLES / f"{example}.py", "run")
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


@needs_frameworks
@pytest.mark.slow
@examples
def test_kernels_run_as_the_frameworks_compile_them_now(
    host: GuestHost, tmp_path: Path, example: str, printed: str
) -> None:
    script = compile_anew(EXAMPLES / f"{example}.py", tmp_path, "compile")
    done = host.run(sys.executable, script, "run")
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_a_module_runs_from_the_shell(host: GuestHost, tmp_path: Path) -> None:
    launch = json.loads(MODULE.with_suffix(".json").read_text())
    a = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float16)
    np.save(tmp_path / "a.npy", a)
    arrays = [f"in:{tmp_path}/a.npy", f"in:{tmp_path}/a.npy", f"out:float32:32x32:{tmp_path}/c.npy"]
    scratch = ["in:" + str(tmp_path / "a.npy")] * 2  # which the kernel does not use
    given = [f"--arg={argument}" for argument in [*arrays, "int:32", "int:32", "int:32", *scratch]]
    geometry = ["--kernel", "matmul", "--block", str(launch["block"]), "--shared", str(launch["shared_bytes"])]
    done = host.run(sys.executable, "-m", "guest_driver", "run", MODULE, *geometry, *given)
    assert done.returncode == 0, done.stderr
    assert np.allclose(np.load(tmp_path / "c.npy"), a.astype(np.float32) @ a, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("given", ["text", "bytes", "path"])
def test_a_module_is_loaded_from_python(host: GuestHost, tmp_path: Path, given: str) -> None:
    path = tmp_path / "module.ptx"
    path.write_text(re.sub(r"\bmatmul\b", "product", MODULE.read_text()))
    load = {"text": "path.read_text()", "bytes": "path.read_bytes()", "path": "path"}[given]
    script = (
        "import guest_driver, pathlib, sys; path = pathlib.Path(sys.argv[1]); device = guest_driver.Device(); "
        f"print(device.load_ptx({load}).product.name)"
    )
    done = host.run(sys.executable, "-c", script, path)
    assert done.stdout == "product\n", done.stderr
