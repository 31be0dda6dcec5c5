"""`mynvcc --check` beside a device: what the device's compiler makes of a file's device code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.guest_host import GuestHost, guest_host

MYNVCC: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc" / "build"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void fill(int *x) { *x = 1; }", ""),
        ("int main() { return cudaSetDevice(0); }", ""),
        ("template <class T> __global__ void fill(T *x) { *x = 1; }", ""),
        ('__global__ void fill(int *x) { asm("nonsense.u32 %0;" : "=r"(*x)); }', "nonsense.u32"),
    ],
    ids=["kernel", "host code alone", "template that nothing uses", "refused"],
)
def test_files_are_checked_with_and_without_kernels(host: GuestHost, tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "a.cu").write_text(f"{source}\n")
    command = f"LD_LIBRARY_PATH={LIBVGC} exec {MYNVCC} --check -c a.cu"
    done = host.run("/bin/sh", "-c", command, cwd=tmp_path)
    assert message in done.stderr
    assert (done.returncode, bool(done.stderr)) == ((1, True) if message else (0, False)), done.stderr
