"""A driver that does not return keeps nobody from ending a launch that is past its deadline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from vhost_backend._dataplane import lib
from vhost_backend.worker.inflight import InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]


def test_a_launch_past_its_deadline_is_ended_while_the_driver_keeps_the_data_plane_waiting() -> None:
    with InflightMemory() as memory:
        argv = [sys.executable, "-m", "tests.unit.stuck_driver_child", str(memory.fd), str(100_000_000)]
        died = subprocess.run(
            argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=60
        )
        assert died.returncode == lib.VGC_EXIT_FATAL, died.stderr
        box = memory.black_box()
    assert box is not None
    assert box.status == Status.TIMEOUT
    assert box.text.startswith("kernel hang ran longer than 100 ms; on the GPU since ")
