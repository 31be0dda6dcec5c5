"""libcudart with two devices: copies from one to the other, on two real daemons."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.limits import HANGS_AFTER_S
from tests.protocol.cudart_rig import build_program
from tests.protocol.guest_host import guest_host


def test_copies_between_two_devices(tmp_path: Path) -> None:
    program = build_program("peers", tmp_path)
    with guest_host(tmp_path / "first") as first, guest_host(tmp_path / "second") as second:
        links = (first.link, second.link)
        described = ";".join(link.description.replace("name=", f"name={i}-") for i, link in enumerate(links))
        done = subprocess.run(
            [program],
            check=False,
            env=os.environ | {"VGC_MEMFD": described, "VGC_STATE_DIR": str(tmp_path / "state")},
            pass_fds=[fd for link in links for fd in link.fds],
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all peers are right\n"
