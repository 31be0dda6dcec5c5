"""Examples of built-in functions, as a guest's user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host

LIBVGC = REPOSITORY / "guest_driver" / "libvgc"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_a_c_program_multiplies_matrices(host: GuestHost, tmp_path: Path) -> None:
    program = tmp_path / "product"
    library = Path(os.environ.get("VGC_LIBRARY") or LIBVGC / "build" / "libvgc.so")
    words = ["cc", "-Wall", "-Werror", f"-I{LIBVGC}", REPOSITORY / "examples/product.c", "-o", program, library, "-lm"]
    subprocess.run([*map(str, words), "-pthread", f"-Wl,-rpath,{library.parent}"], check=True)
    done = host.run(program)
    assert done.stdout.splitlines() == [f"{n} x {n}: right" for n in (8, 32, 128, 512)], done.stderr


def test_numpy_s_functions_find_tones(host: GuestHost) -> None:
    done = host.run(sys.executable, "examples/spectrum.py", "--tones", "440,1250,3001")
    assert (done.stdout, done.returncode) == ("440 Hz, 1250 Hz, 3001 Hz: right\n", 0), done.stderr
