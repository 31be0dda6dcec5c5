"""A data plane that cannot go on over a request says which one and why, and leaves the rest to its successor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from vhost_backend._dataplane import lib
from vhost_backend.worker.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]
A_WHILE_NS: Final = 60 * 10**9


def last_words(memory: InflightMemory, behaviour: str, deadline_ns: int, *, kicked: bool = True) -> BlackBox:
    """Run a data plane over a null kernel of that behaviour until it dies of it."""
    argv = [sys.executable, "-m", "tests.unit.dying_plane", behaviour, str(memory.fd), str(deadline_ns), str(kicked)]
    died = subprocess.run(argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=60)
    assert died.returncode == lib.VGC_EXIT_FATAL, died.stderr
    box = memory.black_box()
    assert box is not None
    return box


def test_launch_past_its_deadline_ends_in_a_timeout_that_names_the_kernel() -> None:
    with InflightMemory() as memory:
        box = last_words(memory, "hold", 20_000_000)

        assert box.status == Status.TIMEOUT
        assert "kernel culprit ran longer than 20 ms" in box.text
        assert memory.queue(0).heads == (box.head,)


def test_ring_without_kicks_does_not_suspend_deadlines() -> None:
    """It is looked at now and then: so are launches."""
    with InflightMemory() as memory:
        assert last_words(memory, "hold", 20_000_000, kicked=False).status == Status.TIMEOUT


def test_fault_of_a_kernel_is_told_and_what_else_was_in_flight_stays_on_the_books() -> None:
    with InflightMemory() as memory:
        box = last_words(memory, "fault", A_WHILE_NS)

        assert box.status == Status.FAULT
        assert "faulted" in box.text
        assert box.head in memory.queue(0).heads
        assert len(memory.queue(0).heads) == 2
