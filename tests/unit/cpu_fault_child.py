"""A minimal worker: launches one kernel that faults. Arguments: in-flight fd, image file, kernel, threads, args...

Threads are those of a block, of which there are two, or BLOCKS*THREADS.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tests.limits import NO_DEADLINE_NS
from tests.unit.cpu_rig import rig
from vhost_backend.worker.plane import DataPlane, PlaneLimits


def main() -> None:
    inflight_fd, image, kernel, threads, *arguments = sys.argv[1:]
    limits = PlaneLimits(
        num_queues=1, queue_depth=1, memory_bytes=1 << 30, deadline_ns=NO_DEADLINE_NS, max_contexts=1, max_streams=1
    )
    with rig(pes=1) as gpu, DataPlane(gpu.engine.handle, limits, int(inflight_fd)):
        gpu.load_image(Path(image).read_bytes())
        x = gpu.array(256, np.int32)
        values = [x if argument == "x" else np.int32(int(argument)) for argument in arguments]
        blocks, _, size = threads.rpartition("*")
        gpu.launch(kernel, int(blocks or 2), int(size), *values)
        sys.exit(f"survived: {x[:8]}")


if __name__ == "__main__":
    main()
