"""CUDA graphs of programs in a guest: each program says its rule in its first line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host

MYNVCC: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
PROGRAMS: Final = REPOSITORY / "tests" / "cuda_programs"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize("source", sorted(PROGRAMS.glob("graphs_*.cu")), ids=lambda source: source.stem)
def test_the_program_keeps_its_rule(host: GuestHost, tmp_path: Path, source: Path) -> None:
    program = tmp_path / source.stem
    subprocess.run([MYNVCC, source, "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = host.run(program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_a_launch_of_device_work_is_one_request(host: GuestHost, tmp_path: Path) -> None:
    program, libraries = tmp_path / "graph_requests", LIBVGC / "build"
    flags = [f"-I{LIBVGC}", f"-L{libraries}", "-lvgc", "-Xlinker", f"-rpath={libraries}"]
    sources = [REPOSITORY / "tests" / "cudart" / name for name in ("graph_requests.cu", "requests.c")]
    subprocess.run([MYNVCC, *sources, *flags, "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = host.run(program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr
