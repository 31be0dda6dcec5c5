"""The daemon's part, played by a test: a real worker process with the null engine, and a fake driver on its region."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeVar

import pytest
from msgspec import structs

from tests.fakes.driver import FakeDriver, Pending, Reply
from tests.fakes.region import Region
from tests.limits import ANSWERS_WITHIN_S, NO_DEADLINE_NS
from tests.unit.plane_rig import function_ids, ring_message
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.sandbox import memfd
from vhost_backend.sandbox.spawn import WORKER_ENVIRONMENT, worker_command
from vhost_backend.worker_protocol import codec, protocol, sources
from vhost_backend.worker_protocol.protocol import (
    Ack,
    Compile,
    DaemonMessage,
    EngineSetup,
    MemRegion,
    MemTable,
    Program,
    Quota,
    Ready,
    SandboxMode,
    Setup,
    VringBroken,
    VringStop,
    WorkerMessage,
)
from virtio_proto.schema import Opcode, Status

TIMEOUT_S: Final = ANSWERS_WITHIN_S

needs_walls = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer's shadow memory does not fit behind the walls"
)
_M = TypeVar("_M", bound=WorkerMessage)

SETUP: Final = Setup(
    seq=1,
    vm="vm",
    engine=EngineSetup("null", {}),
    num_queues=2,
    quota=Quota(1, 1 << 20, 64),
    deadline_ns=NO_DEADLINE_NS,
    max_contexts=4,
    max_streams=4,
    generation=0,
    sandbox="off",
)
Parts = tuple[Region, FakeDriver, InflightMemory]
"""Region, driver and memory of requests in flight, which outlive a worker."""
LAUNCH: Final = {"grid": [1, 1, 1], "block": [1, 1, 1]}


class WorkerRig:
    """A worker process. Messages that arrive before the awaited one are kept in `aside`."""

    def __init__(self, region: Region, driver: FakeDriver, memory: InflightMemory, sandbox: SandboxMode) -> None:
        self.region, self.driver, self.memory, self.sandbox = region, driver, memory, sandbox
        self.sources = sources.make()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(TIMEOUT_S)
        with theirs:
            argv: tuple[str, ...] = (sys.executable, "-m", "vhost_backend.worker", "--fd", str(theirs.fileno()))
            if sandbox != "off":
                argv = worker_command(argv, kept_fds=(theirs.fileno(),), mode=sandbox)
            environment = WORKER_ENVIRONMENT | {
                k: os.environ[k] for k in ("LD_PRELOAD", "ASAN_OPTIONS") if k in os.environ
            }
            self.process = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), env=environment)
        self.aside: list[tuple[WorkerMessage, tuple[int, ...]]] = []
        self.err_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._seq = itertools.count(2)

    def close(self) -> None:
        self.sock.close()
        self.process.terminate()  # has the launcher kill its worker; kills one without launcher
        self.process.wait(TIMEOUT_S)
        os.close(self.err_fd)
        for file in self.sources:
            file.close()
        for _, fds in self.aside:
            codec.close_fds(fds)

    # ---- messages --------------------------------------------------------------------------------

    def send(self, message: DaemonMessage, fds: tuple[int, ...] = ()) -> None:
        protocol.send_to_worker(self.sock, message, fds)

    def expect(self, kind: type[_M]) -> tuple[_M, tuple[int, ...]]:
        """Waits for the next message of this kind; returns it with its fds.

        :raise EOFError: the worker hung up.
        """
        for index, (message, fds) in enumerate(self.aside):
            if isinstance(message, kind):
                del self.aside[index]
                return message, fds
        while True:
            received = protocol.receive_from_worker(self.sock)
            if received is None:
                raise EOFError("the worker hung up")
            message, fds = received
            if isinstance(message, kind):
                return message, fds
            self.aside.append(received)

    def post(self, kind: type[Any], fds: tuple[int, ...] = (), **values: Any) -> Ack:
        """Sends a message and waits for its ack."""
        message = kind(seq=next(self._seq), **values)
        self.send(message, fds)
        ack, _ = self.expect(Ack)
        assert ack.seq == message.seq
        return ack

    def setup_fds(self, memory_fd: int | None = None) -> tuple[int, ...]:
        """Descriptors of a `Setup` without a control system."""
        return (self.memory.fd if memory_fd is None else memory_fd, *(file.fileno() for file in self.sources))

    def set_up(self, setup: Setup = SETUP) -> Ready:
        self.send(structs.replace(setup, sandbox=self.sandbox), self.setup_fds())
        return self.expect(Ready)[0]

    def set_memory(self, size: int | None = None) -> Ack:
        entry = MemRegion(self.region.gpa, self.region.uva, size or self.region.size, 0)
        return self.post(MemTable, (self.region.fd,), regions=(entry,))

    def start(self, index: int = 0, base: int = 0, **changes: Any) -> Ack:
        queue = self.driver.queues[index]
        message = ring_message(self.region, queue.at, index, base, **changes)
        values = {name: getattr(message, name) for name in message.__struct_fields__ if name != "seq"}
        return self.post(protocol.VringStart, (queue.kick_fd, queue.call_fd, self.err_fd), **values)

    def stop(self, index: int = 0) -> int:
        ack = self.post(VringStop, index=index)
        assert ack.ok
        return ack.base

    def recover(self, index: int = 0) -> Ack:
        """Starts a ring that a dead worker served, with its in-flight memory."""
        return self.start(index, base=self.memory.queue(index).last_avail, recover=True)

    # ---- requests --------------------------------------------------------------------------------

    def ok(self, opcode: int, body: Any = b"", trailing: bytes = b"", **options: Any) -> Reply:
        reply = self.driver.request(opcode, body, trailing, **options)
        assert reply.status is Status.OK, f"{Opcode(opcode).name}: {reply.status.name} {reply.text}"
        return reply

    def context(self) -> int:
        return self.ok(Opcode.CONTEXT_CREATE).value

    def load(self, context: int, text: str) -> dict[str, int]:
        """Loads a null program: function ids by name."""
        source = text.encode()
        body = {"kind": 1, "source_len": len(source)}
        pending = self.driver.submit(Opcode.PROGRAM_LOAD, body, source, context=context, writable_len=4096)
        self.compile()
        reply = self.driver.wait(pending)
        assert reply.status is Status.OK, reply.text
        return function_ids(reply.payload)

    def compile(self) -> Compile:
        """Answers the worker's next `Compile`: the null engine's image is its source."""
        request, _ = self.expect(Compile)
        image = memfd.sealed("image", memfd.read(self.sources[request.source].fileno(), 1 << 20))
        self.send(Program(next(self._seq), request.request, True, "", 0, False), (image,))
        codec.close_fds((image,))
        return request

    def launch(self, context: int, function: int, **options: Any) -> Pending:
        return self.driver.submit(
            Opcode.LAUNCH, LAUNCH | {"function": function}, context=context, writable_len=500, **options
        )


@contextmanager
def shared_parts() -> Iterator[Parts]:
    """The parts that outlive a worker: region, in-flight memory and driver."""
    with Region(1 << 20) as region, FakeDriver(region, num_queues=2) as driver, InflightMemory() as memory:
        yield region, driver, memory


@contextmanager
def worker_rig(sandbox: SandboxMode = "off", setup: Setup = SETUP, parts: Parts | None = None) -> Iterator[WorkerRig]:
    """A worker that is set up and sees the region; the test starts its rings."""
    with ExitStack() as stack:
        rig = WorkerRig(*(parts or stack.enter_context(shared_parts())), sandbox)
        stack.callback(rig.close)
        rig.set_up(setup)
        assert rig.set_memory().ok
        yield rig


def survive_a_region_that_shrinks(rig: WorkerRig) -> None:
    """Truncates the region's file under a worker: it breaks the queue, and serves once the file has its size again."""
    rig.start()
    rig.ok(Opcode.NOP)
    os.ftruncate(rig.region.fd, 0)
    rig.driver.queues[0].kick()
    broken, _ = rig.expect(VringBroken)
    assert broken.reason == "the file behind the VM's region was truncated"
    os.ftruncate(rig.region.fd, rig.region.size)
    rig.stop()
    rig.driver.queues[0].raw.avail_idx = 0
    assert rig.start().ok
