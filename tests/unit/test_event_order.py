"""Events order streams: tested on the CPU engine, with kernels whose end the test decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.driver import Pending
from tests.unit.cpu_rig import compile_image
from tests.unit.plane_rig import LIMITS, Rig, function_ids, plane_rig
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.worker_protocol.protocol import Program
from virtio_proto.schema import Opcode, ProgramKind, Status

SOURCE = """
extern "C" __global__ void wait_for(volatile int *flag, int *out)
{
    while (*flag == 0)
        ;
    *out = 77;
}
"""


def load(rig: Rig, context: int) -> int:
    """Loads a program; returns the id of its function `wait_for`."""
    image, _ = compile_image(SOURCE)
    pending = rig.driver.submit(
        Opcode.PROGRAM_LOAD,
        {"kind": ProgramKind.CUDA_SOURCE, "source_len": 1},
        b"x",
        context=context,
        writable_len=4096,
    )
    rig.serve_cold()
    request, _ = rig.compiles.pop(0)
    fd = os.memfd_create("image")
    os.write(fd, image)
    rig.server.on_program(Program(0, request.request, True, "", 0, False), (fd,))
    reply = rig.driver.wait(pending)
    assert reply.status is Status.OK, reply.text
    return function_ids(reply.payload)["wait_for"]


class Race:
    """An event that is recorded twice: behind a launch that a flag ends (stream 1), then in an idle stream (0)."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.context = rig, rig.context()
        function = load(rig, self.context)
        self.flag, self.out = (rig.alloc(self.context, 4096) for _ in range(2))
        for address in (self.flag, self.out):
            rig.ok(Opcode.FILL, {"dst": address, "size": 4, "unit": 4}, context=self.context)
        self.event = {"event": rig.ok(Opcode.EVENT_CREATE, context=self.context).value}
        parameters = self.flag.to_bytes(8, "little") + self.out.to_bytes(8, "little")
        launch = {"function": function, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": 16}
        self.launch = rig.driver.submit(Opcode.LAUNCH, launch, parameters, context=self.context, stream=1)

    def record(self, stream: int) -> Pending:
        return self.rig.driver.submit(Opcode.EVENT_RECORD, self.event, context=self.context, stream=stream)

    def wait_and_read(self, stream: int) -> Pending:
        """Waits for the event in a stream and returns the contents of `out` then."""
        self.rig.driver.submit(Opcode.EVENT_WAIT, self.event, context=self.context, stream=stream)
        body = {"src": self.out, "size": 4}
        return self.rig.driver.submit(Opcode.COPY_OUT, body, writable_len=4, context=self.context, stream=stream)

    def end_launch(self) -> None:
        body = {"dst": self.flag, "size": 4, "unit": 4, "value": 1}
        self.rig.ok(Opcode.FILL, body, context=self.context, stream=3)


@contextmanager
def race() -> Iterator[Race]:
    engine = CpuEngine.open({}, 1, LIMITS.memory_bytes, LIMITS.deadline_ns)
    engine.start()
    with plane_rig(engine=engine) as rig:
        this = Race(rig)
        try:
            yield this
        finally:
            this.end_launch()  # else nothing could end the launch


def test_records_that_end_in_another_order_each_release_their_own_waits() -> None:
    with race() as this:
        this.record(stream=1)
        first = this.wait_and_read(stream=2)
        assert this.rig.driver.wait(this.record(stream=0)).status is Status.OK
        assert first.reply is None, "the later record let a wait for the earlier one go"
        this.end_launch()
        assert this.rig.driver.wait(first).payload == (77).to_bytes(4, "little")


def test_wait_for_a_record_ends_before_an_earlier_record() -> None:
    with race() as this:
        earlier = this.record(stream=1)
        assert this.rig.driver.wait(this.record(stream=0)).status is Status.OK
        this.end_launch()
        assert this.rig.driver.wait(earlier).status is Status.OK
        assert this.rig.driver.wait(this.wait_and_read(stream=2)).status is Status.OK


def test_wait_holds_its_stream_until_the_recorded_work_has_ended() -> None:
    engine = CpuEngine.open({}, 1, LIMITS.memory_bytes, LIMITS.deadline_ns)
    engine.start()
    with plane_rig(engine=engine) as rig:
        context = rig.context()
        function = load(rig, context)
        flag, out = rig.alloc(context, 4096), rig.alloc(context, 4096)
        for address in (flag, out):
            rig.ok(Opcode.FILL, {"dst": address, "size": 4, "unit": 4}, context=context)
        event = {"event": rig.ok(Opcode.EVENT_CREATE, context=context).value}
        parameters = flag.to_bytes(8, "little") + out.to_bytes(8, "little")
        launch = {"function": function, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": 16}
        rig.driver.submit(Opcode.LAUNCH, launch, parameters, context=context, stream=1)
        recorded = rig.driver.submit(Opcode.EVENT_RECORD, event, context=context, stream=1)
        rig.driver.submit(Opcode.EVENT_WAIT, event, context=context, stream=2)
        read = rig.driver.submit(Opcode.COPY_OUT, {"src": out, "size": 4}, writable_len=4, context=context, stream=2)
        rig.ok(Opcode.NOP, context=context, stream=3)
        assert (recorded.reply, read.reply) == (None, None)

        rig.ok(Opcode.FILL, {"dst": flag, "size": 4, "unit": 4, "value": 1}, context=context, stream=3)
        assert rig.driver.wait(read).payload == (77).to_bytes(4, "little")
        assert rig.driver.wait(recorded).value > 0


def test_wait_for_an_event_that_was_never_recorded_ends_at_once() -> None:
    engine = CpuEngine.open({}, 1, LIMITS.memory_bytes, LIMITS.deadline_ns)
    engine.start()
    with plane_rig(engine=engine) as rig:
        context = rig.context()
        event = {"event": rig.ok(Opcode.EVENT_CREATE, context=context).value}
        rig.ok(Opcode.EVENT_WAIT, event, context=context)
        rig.ok(Opcode.NOP, context=context)
