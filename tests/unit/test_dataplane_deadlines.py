"""The watching thread: it enforces deadlines, and ends a stuck worker, while a driver call does not return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.limits import HANGS_AFTER_S
from vhost_backend._dataplane import lib
from vhost_backend.daemon.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]


def end_of_a_stuck_worker(deadline_ns: int, stuck_ns: int) -> BlackBox | None:
    with InflightMemory() as memory:
        argv = [sys.executable, "-m", "tests.unit.stuck_driver_child", str(memory.fd), str(deadline_ns), str(stuck_ns)]
        died = subprocess.run(
            argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
        )
        assert died.returncode == lib.VGC_EXIT_FATAL, died.stderr
        return memory.black_box()


def test_a_launch_past_its_deadline_is_ended_while_the_driver_keeps_the_data_plane_waiting() -> None:
    box = end_of_a_stuck_worker(deadline_ns=100_000_000, stuck_ns=0)
    assert box is not None
    assert box.status == Status.TIMEOUT
    assert box.text.startswith("kernel hang ran longer than 100 ms; on the GPU since ")


def test_a_driver_that_does_not_return_ends_the_worker_though_no_launch_is_overdue() -> None:
    assert end_of_a_stuck_worker(deadline_ns=3600 * 10**9, stuck_ns=100_000_000) is None
