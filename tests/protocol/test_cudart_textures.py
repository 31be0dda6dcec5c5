"""Kernels read and write arrays and memory through libcudart's textures and surfaces, on the real daemon and worker."""

from __future__ import annotations

from pathlib import Path

from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host


def test_textures_and_surfaces_of_every_kind(tmp_path: Path) -> None:
    program = build_program("textures", tmp_path)
    with guest_host(tmp_path) as host:
        done = host.run(program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all textures are right\n"
