"""A data plane whose launch is held for longer than its deadline. Run as a process of its own by test_cuda_gate.

``python -m tests.unit.cuda_gate_child INFLIGHT_FD DEADLINE_NS``
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time

from tests.unit.cuda_rig import CUDA_LIMITS, gpu
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker_protocol.gate_pages import OPEN, GatePages, WorkerGate
from virtio_proto.schema import Status


def main(inflight_fd: int, deadline_ns: int) -> None:
    """Holds a launch for twice its deadline, while the daemon looks, and then lets it go."""
    pages = GatePages()
    inner = WorkerGate(*map(os.dup, pages.fds))
    grant, account = ffi.from_buffer(inner.grant), ffi.from_buffer(inner.account, require_writable=True)
    with gpu(limits=dataclasses.replace(CUDA_LIMITS, deadline_ns=deadline_ns), inflight_fd=inflight_fd) as made:
        handle = made.rig.engine.handle
        pages.grant(0, 0, 1)
        lib.vgc_engine_enter(handle)
        lib.vgc_cuda_engine_set_gate(
            handle,
            ffi.cast("struct vgc_gate_grant *", grant),
            ffi.cast("struct vgc_gate_account *", account),
            inner.bell,
        )
        lib.vgc_engine_leave(handle)
        held = made.launch("empty")
        end_ns = time.monotonic_ns() + 2 * deadline_ns

        def is_over() -> bool:
            now_ns = time.monotonic_ns()
            pages.grant(0, 0, now_ns)
            return now_ns > end_ns

        until(is_over)
        assert pages.account().is_held
        assert made.driver.count("cuLaunchKernel") == 0
        pages.grant(OPEN, 0, time.monotonic_ns())
        assert made.wait(held).status == Status.OK


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
