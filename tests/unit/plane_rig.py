"""A data plane in this process, with the null engine unless told otherwise, and a fake driver on its region."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes.driver import FakeDriver, Reply
from tests.fakes.region import Region
from tests.fakes.ring import RingPlacement
from tests.limits import ANSWERS_WITHIN_S, NO_DEADLINE_NS
from vhost_backend.engines.base import Engine
from vhost_backend.engines.null import NullEngine
from vhost_backend.sandbox import memfd
from vhost_backend.worker.cold import SETTLE_MS, ColdServer
from vhost_backend.worker.plane import DataPlane, PlaneLimits, RingFds, Usage
from vhost_backend.worker.sources import SourceFiles
from vhost_backend.worker_protocol import codec, sources
from vhost_backend.worker_protocol.protocol import Compile, MemRegion, Program, VringStart, WorkerMessage
from virtio_proto import schema
from virtio_proto.schema import Opcode, ProgramKind, Status

LIMITS: Final = PlaneLimits(
    num_queues=2,
    queue_depth=64,
    memory_bytes=1 << 20,
    deadline_ns=NO_DEADLINE_NS,
    max_contexts=4,
    max_streams=4,
    spin_ns=0,
)
REGION_BYTES: Final = 1 << 20
TIMEOUT_MS: Final = int(1000 * ANSWERS_WITHIN_S)


@dataclass
class Rig:
    """The data plane, the region, the driver, and short ways to common requests."""

    engine: Engine
    plane: DataPlane
    region: Region
    driver: FakeDriver
    err_fds: list[int] = field(default_factory=list)
    thread: threading.Thread = field(init=False)
    """The data plane's thread."""

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

    def ok(self, opcode: int, body: Any = b"", trailing: bytes = b"", **options: Any) -> Reply:
        """Sends a request, which must succeed."""
        reply = self.driver.request(opcode, body, trailing, **options)
        assert reply.status is Status.OK, f"{Opcode(opcode).name}: {reply.status.name} {reply.text}"
        return reply

    def context(self) -> int:
        return self.ok(Opcode.CONTEXT_CREATE).value

    def alloc(self, context: int, size: int) -> int:
        return self.ok(Opcode.ALLOC, {"size": size}, context=context).value

    def cold(self, opcode: int, body: Any = b"", trailing: bytes = b"", **options: Any) -> Reply:
        """Sends a request that Python serves: here, on the test's thread."""
        pending = self.driver.submit(opcode, body, trailing, **options)
        self.serve_cold()
        return self.driver.wait(pending)

    def serve_cold(self) -> None:
        """Waits for a cold request, and serves it."""
        poller = select.poll()
        poller.register(self.plane.notify_fd, select.POLLIN)
        assert poller.poll(TIMEOUT_MS), "nothing for Python"
        self.plane.clear_notification()
        self.server.serve()
        self.settle()

    def settle(self) -> None:
        """Waits until the engine lets programs change."""
        while not self.server.settle():
            select.poll().poll(SETTLE_MS)

    def load(self, context: int, program: str | bytes) -> dict[str, int]:
        """Loads an image through PROGRAM_LOAD (a null program is its own image); returns function ids by name."""
        source = program.encode() if isinstance(program, str) else program
        pending = self.driver.submit(
            Opcode.PROGRAM_LOAD,
            {"kind": ProgramKind.CUDA_SOURCE, "source_len": len(source)},
            source,
            context=context,
            writable_len=4096,
        )
        self.serve_cold()
        self.answer_compile()
        reply = self.driver.wait(pending)
        assert reply.status is Status.OK, reply.text
        self.programs.append(reply.value)
        return function_ids(reply.payload)

    def answer_compile(self, ok: bool = True, log: str = "") -> None:
        """Plays the daemon: the null engine's image is its source."""
        request, source = self.compiles.pop(0)
        answer = Program(0, request.request, ok, log, len(log), False)
        self.server.on_program(answer, (memfd.sealed("image", source),) if ok else ())
        self.settle()

    def usage(self) -> Usage:
        return self.plane.usage()

    def __post_init__(self) -> None:
        self.compiles: list[tuple[Compile, bytes]] = []
        self.said: list[WorkerMessage] = []
        """Messages of the worker to the daemon, but for requests to compile."""
        self.programs: list[int] = []
        self.sources = SourceFiles([fd.release() for fd in sources.make()])
        self.server = ColdServer(self.engine, self.plane, self._take_message, self.sources)

    def _take_message(self, message: WorkerMessage) -> None:
        if not isinstance(message, Compile):
            self.said.append(message)
            return
        self.compiles.append((message, memfd.read(self.sources.fds[message.source], 1 << 20)))


def function_ids(payload: bytes) -> dict[str, int]:
    """Ids by short name, from the payload of a PROGRAM_LOAD."""
    table = schema.PROGRAM_TABLE.construct.parse(payload)
    entry_bytes = schema.FUNCTION_ENTRY.size_bytes
    start = schema.PROGRAM_TABLE.size_bytes
    strings = start + table.num_functions * entry_bytes + table.num_params * schema.PARAM_ENTRY.size_bytes
    strings += table.num_globals * schema.GLOBAL_ENTRY.size_bytes
    ids = {}
    for index in range(table.num_functions):
        entry = schema.FUNCTION_ENTRY.construct.parse(payload[start + index * entry_bytes :])
        name = payload[strings + entry.short_off :][: entry.short_len].decode()
        ids[name] = entry.id
    return ids


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
def running(plane: DataPlane) -> Iterator[threading.Thread]:
    """Runs the data plane on a thread beside the body."""
    thread = threading.Thread(target=plane.run)
    thread.start()
    try:
        yield thread
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
        stack.callback(lambda: codec.close_fds(rig.err_fds))
        rig.set_memory()
        if start:
            for index in range(limits.num_queues):
                rig.start(index)
        stack.callback(rig.server.close)
        stack.callback(plane.cancel)
        rig.thread = stack.enter_context(running(plane))
        yield rig
