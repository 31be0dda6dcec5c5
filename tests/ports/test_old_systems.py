"""The portable libvgc (`make PORTABLE=1`) asks for nothing that is younger than glibc 2.17, and computes with an old one."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.ports.machines import LIBVGC, MACHINES
from tests.ports.old_glibc import old_glibc
from tests.protocol.guest_host import GuestHost, guest_host
from tools import guest_wheel

HERE: Final = Path(__file__).resolve().parent
OLDEST: Final = {"x86_64": (2, 17), "aarch64": (2, 17), "s390x": (2, 17), "riscv64": (2, 27)}
"""glibc's version that the library runs with; aarch64 and riscv64 came with 2.17 and 2.27."""


def newest_needed(library: Path) -> tuple[int, ...]:
    """Newest version of glibc that a symbol asks for."""
    argv = ["readelf", "--version-info", "--wide", str(library)]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S).stdout
    needs = listed.partition("Version needs section")[2]
    versions = re.findall(r"Name: GLIBC_([\d.]+)", needs)
    assert versions, listed
    return max(tuple(map(int, version.split("."))) for version in versions)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize("name", OLDEST)
def test_no_symbol_is_too_young(name: str) -> None:
    machine = MACHINES[name]
    machine.require()
    library = machine.portable_libvgc("" if name == "x86_64" else "-O0 -g0") / "libvgc.so"
    assert newest_needed(library) <= OLDEST[name]


def test_ordinary_library_is_for_this_system() -> None:
    """Shows that the check finds young symbols: this machine's C library has them."""
    assert newest_needed(MACHINES["x86_64"].libvgc() / "libvgc.so") > OLDEST["x86_64"]


def test_library_computes_with_an_old_c_library(host: GuestHost, tmp_path: Path) -> None:
    library = MACHINES["x86_64"].portable_libvgc()
    system = old_glibc()
    program = system.compile(tmp_path / "requests", HERE / "requests.c", library)
    done = host.run(*system.argv(program, library))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.endswith("all right\n")


def test_wheel_of_the_guest_is_for_old_systems(tmp_path: Path) -> None:
    wheel = guest_wheel.build(tmp_path)
    assert wheel.name.endswith("-manylinux_2_17_x86_64.whl")
    with zipfile.ZipFile(wheel) as files:
        library = Path(files.extract("guest_driver/libvgc/build/libvgc.so", tmp_path))
    assert newest_needed(library) <= OLDEST["x86_64"]


def test_library_is_made_anew_by_another_compiler(tmp_path: Path) -> None:
    """Else one of musl would stay where programs with glibc look for theirs."""
    MACHINES["musl"].require()
    make = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(LIBVGC), f"BUILD={tmp_path}", f"{tmp_path}/libvgc.so"]
    library = tmp_path / "libvgc.so"
    made = []
    for compiler in ("musl-gcc", "gcc", "gcc"):
        subprocess.run([*make, f"CC={compiler}"], check=True, timeout=HANGS_AFTER_S)
        made.append((b"\0libc.so.6\0" in library.read_bytes(), library.stat().st_ino))
    (of_musl, _), (of_glibc, first), (_, second) = made
    assert not of_musl
    assert of_glibc
    assert first == second, "the same command has nothing to do"


def test_other_c_library_is_refused() -> None:
    """Versions of glibc mean nothing to musl."""
    machine = MACHINES["musl"]
    machine.require()
    with pytest.raises(subprocess.CalledProcessError):
        machine.portable_libvgc()
