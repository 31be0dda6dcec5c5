"""A minimal worker on the fake GPU, which dies of a kernel. Run as a process of its own by test_cuda_engine_faults.

``python -m tests.unit.cuda_fault_child KERNEL INFLIGHT_FD DEADLINE_NS COMPLETION HANGING ERROR``
"""

from __future__ import annotations

import dataclasses
import sys

from tests.unit.cuda_rig import CUDA_LIMITS, gpu


def main(kernel: str, *numbers: str) -> None:
    """Launch `hang` in as many streams as told, then the kernel; poison the context if an error is named."""
    inflight_fd, deadline_ns, completion, hanging, error = map(int, numbers)
    limits = dataclasses.replace(CUDA_LIMITS, deadline_ns=deadline_ns)
    params = bytes(12) if kernel == "add_one" else b""
    with gpu(limits=limits, completion=completion, inflight_fd=inflight_fd) as made:
        for stream in range(1, hanging + 1):
            made.launch("hang", stream=stream)
        made.driver.await_hanging(hanging)
        made.wait(made.launch("empty"))
        pending = made.launch(kernel, params)
        if error:
            made.driver.await_hanging(hanging + (kernel == "hang"))
            made.driver.poison(error)
        made.wait(pending)


if __name__ == "__main__":
    main(*sys.argv[1:])
