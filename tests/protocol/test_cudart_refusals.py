"""libcudart's arrays, textures and copies refuse what CUDA refuses, and functions that a VM does not have say so."""

from __future__ import annotations

from pathlib import Path

from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host


def test_errors_of_arrays_textures_and_copies(tmp_path: Path) -> None:
    program = build_program("refusals", tmp_path)
    with guest_host(tmp_path) as host:
        done = host.run(program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all errors are right\n"
    for name in ("cudaArraySparse", "cudaArrayGetPlane()", "cudaImportExternalMemory()"):
        assert f"this program uses {name}, which is not supported" in done.stderr
