"""A minimal worker whose CUDA driver blocks the data plane's thread behind a kernel that hangs.

Run as a process of its own by test_dataplane_deadlines: ``python -m tests.unit.stuck_driver_child INFLIGHT_FD DEADLINE_NS STUCK_NS``
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Final

from tests.unit.cuda_rig import CUDA_LIMITS, gpu

DEPTH: Final = 4
"""Size of the driver's queues: far less than the engine assumes."""


def main(inflight_fd: str, deadline_ns: str, stuck_ns: str) -> None:
    """Launch a kernel that hangs, and more operations than the driver's queue holds: the first excess call blocks."""
    limits = dataclasses.replace(CUDA_LIMITS, deadline_ns=int(deadline_ns), stuck_ns=int(stuck_ns))
    with gpu(f"queue_depth {DEPTH}", limits=limits, inflight_fd=int(inflight_fd)) as made:
        hangs = made.launch("hang")
        made.driver.await_hanging(1)
        for _ in range(2 * DEPTH):
            made.launch("empty")
        made.wait(hangs)


if __name__ == "__main__":
    main(*sys.argv[1:])
