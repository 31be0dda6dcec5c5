"""libcudart with two devices: copies from one to the other, on two real daemons."""

from __future__ import annotations

from pathlib import Path

from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host, run_on


def test_copies_between_two_devices(tmp_path: Path) -> None:
    program = build_program("peers", tmp_path)
    with guest_host(tmp_path / "first") as first, guest_host(tmp_path / "second") as second:
        done = run_on((first, second), program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all peers are right\n"
