"""The Python binding on a big-endian machine, under QEMU's user mode, with Debian's Python for it.

``$VGC_S390X_ROOT`` names a folder with Debian's packages python3-numpy and python3-cffi-backend for s390x and all that they
need, unpacked (`dpkg-deb --extract`), 92 MB; without that the test is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ports.machines import Machine
from tests.protocol.guest_host import guest_host

HERE = Path(__file__).resolve().parent


def test_python_computes_on_a_big_endian_machine(
    big_endian: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.environ.get("VGC_S390X_ROOT"):
        pytest.skip("VGC_S390X_ROOT is not set: it names a folder with Debian's Python and numpy for s390x")
    root = Path(os.environ["VGC_S390X_ROOT"])
    libraries = root / "usr/lib/s390x-linux-gnu"
    (python,) = (root / "usr/bin").glob("python3.[0-9]*")
    monkeypatch.setenv("VGC_LIBRARY", str(big_endian.libvgc() / "libvgc.so"))
    monkeypatch.setenv("QEMU_SET_ENV", f"LD_LIBRARY_PATH={libraries}:{libraries}/blas:{libraries}/lapack")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with guest_host(tmp_path) as host:
        done = host.run(big_endian.emulator, "-L", root, python, HERE / "guest_program.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all right, big-endian\n")
