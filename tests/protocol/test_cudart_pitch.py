"""libcudart copies and fills rows and slices of memory and arrays, on the real daemon, worker and CPU engine."""

from __future__ import annotations

from pathlib import Path

from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host


def test_copies_and_fills_in_every_direction(tmp_path: Path) -> None:
    program = build_program("copies", tmp_path)
    with guest_host(tmp_path) as host:
        done = host.run(program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all copies are right\n"
