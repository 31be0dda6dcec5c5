"""A data plane in this process, with the null engine unless told otherwise, and a fake driver on its region."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes.driver import FakeDriver, Reply
from tests.fakes.region import Region
from tests.fakes.ring import RingPlacement
from vhost_backend.engines.base import Engine
from vhost_backend.engines.null import NullEngine
from vhost_backend.worker.plane import DataPlane, PlaneLimits, RingFds
from vhost_backend.worker.protocol import MemRegion, VringStart
from virtio_proto.schema import Opcode, Status

LIMITS: Final = PlaneLimits(
    num_queues=2,
    queue_depth=64,
    memory_bytes=1 << 20,
    deadline_ns=60 * 10**9,
    max_contexts=4,
    max_streams=4,
    spin_ns=0,
)
REGION_BYTES: Final = 1 << 20


@dataclass
class Rig:
    """What a test needs: the plane, the region, the driver, and short ways to common requests."""

    engine: Engine
    plane: DataPlane
    region: Region
    driver: FakeDriver
    err_fds: list[int] = field(default_factory=list)

    def set_memory(self, size: int | None = None, gpa: int | None = None) -> None:
        entry = MemRegion(gpa or self.region.gpa, self.region.uva, size or self.region.size, 0)
        self.plane.set_memory([entry], [self.region.fd])

    def start(self, index: int = 0, base: int = 0, **changes: Any) -> None:
        """Starts queue `index` as the driver has laid it out; `changes` replace fields of the message."""
        start = ring_message(self.region, self.driver.queues[index].at, index, base, **changes)
        queue = self.driver.queues[index]
        err = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.err_fds.append(err)
        self.plane.start_queue(start, RingFds(os.dup(queue.kick_fd), os.dup(queue.call_fd), os.dup(err)))

    def ok(self, opcode: int, body: Any = b"", **options: Any) -> Reply:
        """A request that must succeed."""
        reply = self.driver.request(opcode, body, **options)
        assert reply.status is Status.OK, f"{Opcode(opcode).name}: {reply.status.name} {reply.text}"
        return reply

    def context(self) -> int:
        return self.ok(Opcode.CONTEXT_CREATE).value

    def alloc(self, context: int, size: int) -> int:
        return self.ok(Opcode.ALLOC, {"size": size}, context=context).value

    def load(self, context: int, text: str) -> dict[str, int]:
        """Loads a null program without the request: function ids by name."""
        number = context & 0xFFFF
        fd = os.memfd_create("program")
        try:
            os.write(fd, text.encode())
            loaded = self.engine.load_program(fd, len(text), number)
        finally:
            os.close(fd)
        program = self.plane.add_program(number)
        self._loaded.append(loaded)
        ids = {f.short_name: self.plane.add_function(program, f.kernel, f.name, f.short_name) for f in loaded.functions}
        for variable in loaded.globals:
            self.plane.add_global(program, variable.address, variable.size)
        self.plane.publish_programs()
        return ids

    _loaded: list[Any] = field(default_factory=list)  # kernels live as long as the rig


def ring_message(region: Region, at: RingPlacement, index: int, base: int, **changes: Any) -> VringStart:
    fields: dict[str, Any] = {
        "seq": 0,
        "index": index,
        "size": at.num,
        "base": base,
        "desc_uva": region.uva + at.desc,
        "avail_uva": region.uva + at.avail,
        "used_uva": region.uva + at.used,
        "event_idx": True,
        "indirect": True,
        "enabled": True,
        "recover": False,
        "has_kick": True,
        "has_call": True,
        "has_err": True,
    }
    return VringStart(**(fields | changes))


@contextmanager
def running(plane: DataPlane) -> Iterator[None]:
    """Serves on a thread meanwhile."""
    thread = threading.Thread(target=plane.run)
    thread.start()
    try:
        yield
    finally:
        plane.stop()
        thread.join()


@contextmanager
def plane_rig(
    limits: PlaneLimits = LIMITS, *, engine: Engine | None = None, start: bool = True, inflight_fd: int = -1
) -> Iterator[Rig]:
    """A running data plane with its queues started."""
    with ExitStack() as stack:
        engine = engine or NullEngine.open({}, 1, limits.memory_bytes, limits.deadline_ns)
        stack.callback(engine.close)
        region = stack.enter_context(Region(REGION_BYTES))
        driver = stack.enter_context(FakeDriver(region, num_queues=limits.num_queues))
        plane = stack.enter_context(DataPlane(engine.handle, limits, inflight_fd))
        rig = Rig(engine, plane, region, driver)
        stack.callback(lambda: [os.close(fd) for fd in rig.err_fds])
        rig.set_memory()
        if start:
            for index in range(limits.num_queues):
                rig.start(index)
        stack.enter_context(running(plane))
        yield rig
