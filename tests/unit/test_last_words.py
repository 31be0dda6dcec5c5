"""A data plane that dies over a request names it with the reason, and leaves the others to its successor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.limits import HANGS_AFTER_S, NO_DEADLINE_NS
from vhost_backend._dataplane import lib
from vhost_backend.daemon.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

ROOT: Final = Path(__file__).resolve().parents[2]


def last_words(memory: InflightMemory, behaviour: str, deadline_ns: int, *, kicked: bool = True) -> BlackBox:
    """Run a data plane with a null kernel of that behaviour until it dies; return its last words."""
    argv = [sys.executable, "-m", "tests.unit.dying_plane", behaviour, str(memory.fd), str(deadline_ns), str(kicked)]
    died = subprocess.run(
        argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
    )
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


def test_kernel_of_a_graph_past_its_deadline_ends_in_a_timeout_that_names_it() -> None:
    with InflightMemory() as memory:
        box = last_words(memory, "graph-hold", 20_000_000)

        assert box.status == Status.TIMEOUT
        assert "kernel culprit ran longer than 20 ms" in box.text
        assert memory.queue(0).heads == (box.head,)


def test_fault_of_a_kernel_of_a_graph_is_reported() -> None:
    with InflightMemory() as memory:
        box = last_words(memory, "graph-fault", NO_DEADLINE_NS)

        assert box.status == Status.FAULT
        assert box.head in memory.queue(0).heads


def test_ring_without_kicks_does_not_suspend_deadlines() -> None:
    """Such a ring is polled now and then, and so are deadlines."""
    with InflightMemory() as memory:
        assert last_words(memory, "hold", 20_000_000, kicked=False).status == Status.TIMEOUT


def test_fault_of_a_kernel_is_reported_and_other_requests_stay_in_the_inflight_memory() -> None:
    with InflightMemory() as memory:
        box = last_words(memory, "fault", NO_DEADLINE_NS)

        assert box.status == Status.FAULT
        assert "faulted" in box.text
        assert box.head in memory.queue(0).heads
        assert len(memory.queue(0).heads) == 2
