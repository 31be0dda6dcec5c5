"""Debian packages of the guest's side, installed by dpkg in a guest."""

from __future__ import annotations

import ensurepip
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.vm.harness import Guest
from tests.vm.workbench import Workbench, needs_toolkit
from tools import guest_wheel
from tools.debs import guest as guest_packages
from tools.debs.package import build

pytestmark = pytest.mark.vm

DPKG: Final = "/usr/bin/dpkg --force-depends,bad-path"
"""dpkg for a guest whose packages were unpacked and never registered."""

CLEAN: Final = "env -u PYTHONPATH -u LD_LIBRARY_PATH PATH=/usr/bin:/bin"
"""Environment in which the guest's other installation, in /usr/local, is not found."""


@pytest.fixture
def packages(development_guest: Guest, tmp_path: Path) -> Iterator[Guest]:
    """The guest with all packages installed."""
    described = guest_packages.packages()
    for package in described:
        deb = build(package, tmp_path)
        development_guest.put(deb, f"/tmp/debs/{deb.name}")
    database = "/var/lib/dpkg"
    development_guest.run(
        f"mkdir -p {database}/info {database}/updates && touch {database}/status {database}/available"
    )
    development_guest.run(f"{DPKG} --install /tmp/debs/*.deb")
    yield development_guest
    development_guest.run(f"{DPKG} --purge {' '.join(package.name for package in reversed(described))}")


def test_package_installs_and_its_command_reaches_the_device(packages: Guest) -> None:
    assert "VM development" in packages.run(f"{CLEAN} /usr/bin/vgc info").stdout
    library = packages.run(f"{CLEAN} python3 -c 'from guest_driver import _lib; print(_lib.library_path())'").stdout
    assert library.startswith("/usr/lib/python3/dist-packages/")
    assert packages.run(f"{CLEAN} dpkg --verify").stdout == ""


def test_wheel_installs_by_pip_and_reaches_the_device(development_guest: Guest, tmp_path: Path) -> None:
    (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    wheel = guest_wheel.build(tmp_path)
    for file in (pip, wheel):
        development_guest.put(file, f"/tmp/wheels/{file.name}")
    try:
        install = (
            f"PYTHONPATH=/tmp/wheels/{pip.name} python3 -m pip install --no-index --no-deps --target /tmp/installed"
        )
        development_guest.run(f"{CLEAN} {install} /tmp/wheels/{wheel.name}")
        environment = f"{CLEAN} PYTHONPATH=/tmp/installed"
        assert "VM development" in development_guest.run(f"{environment} /tmp/installed/bin/vgc info").stdout
        asked = f"{environment} python3 -c 'from guest_driver import _lib; print(_lib.library_path())'"
        assert development_guest.run(asked).stdout.startswith("/tmp/installed/")
    finally:
        development_guest.run("rm -rf /tmp/wheels /tmp/installed")


@needs_toolkit
def test_compiler_of_the_packages_builds_a_program(packages: Guest, workbench: Workbench) -> None:
    workbench.write(
        "empty.cu", "__global__ void kernel() {}\nint main() { kernel<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n"
    )
    assert "release 12.6" in packages.run(f"{CLEAN} nvcc --version").stdout
    workbench.run(f"{CLEAN} mynvcc empty.cu -o empty && {CLEAN} ./empty")
