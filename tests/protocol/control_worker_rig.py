"""A worker with the CPU engine and a control area; the test is its daemon."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from msgspec import structs

from tests.fakes.driver import Pending, Reply
from tests.protocol.worker_rig import LAUNCH, SETUP, TIMEOUT_S, WorkerRig, shared_parts
from tests.unit.cpu_rig import compile_image
from tests.unit.plane_rig import function_ids
from tests.waiting import until
from vhost_backend.channels import packets
from vhost_backend.channels.area import ControlArea, Salvage
from vhost_backend.channels.packets import Packet, Section
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.control_messages import ControlClose, ControlOpen, ControlSetup, Terms
from vhost_backend.worker_protocol.protocol import Ack, Compile, EngineSetup, Program, Quota, Ready, SandboxMode, Setup
from virtio_proto.control import records
from virtio_proto.control.records import Function, Record
from virtio_proto.schema import Opcode, Status

CPU: Final = EngineSetup("cpu", {})
WORD: Final = struct.Struct("<i")
LOOK_S: Final = 0.01
"""Time to wait for a packet before a condition is evaluated again without one."""

AREA_BYTES: Final = 4 << 20
SOURCE: Final = r"""
#include <vgc.h>
// gate[0]: so many records are wanted, < 0: the end; gate[1]: so many have been made
extern "C" __global__ void __launch_bounds__(64) speaks(volatile int *gate) {
    for (int made = 0; gate[0] >= 0;)
        if (made < gate[0]) {
            vgc_log(VGC_INFO, "record %d of %s", made, "speaks");
            gate[1] = ++made;
        }
}
extern "C" __global__ void figures(double value) {
    vgc_count("things", 3);
    vgc_gauge("heat", value);
}
extern "C" __global__ void echoes(volatile int *gate) {
    char line[64];
    unsigned got = vgc_read(line, 64);
    line[got] = 0;
    vgc_printf("got %s", line);
    gate[1] = got;
}
"""


@cache
def image() -> bytes:
    """The image of `SOURCE`, compiled once."""
    return compile_image(SOURCE)[0]


@dataclass
class Seen:
    """Contents of the packets that came over the record socket."""

    sections: list[Section] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    packets: list[Packet] = field(default_factory=list)

    def records(self, channel: int) -> list[Record]:
        return [
            record
            for section in self.sections
            if section.channel == channel
            for record in records.unpack(section.records)
        ]

    def lines(self, channel: int) -> list[str]:
        return [records.describe(record, self.texts) for record in self.records(channel)]

    def last(self, channel: int) -> Section:
        return [section for section in self.sections if section.channel == channel][-1]


class ControlWorkerRig(WorkerRig):
    """A worker that is attached to `area`."""

    def __init__(self, parts: Any, area: ControlArea, sandbox: SandboxMode, setup: Setup) -> None:
        region, driver, memory = parts
        super().__init__(region, driver, memory, sandbox)
        self.area, self.setup = area, setup
        self.seen = Seen()
        self.records, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.records.setblocking(False)
        with theirs:
            fds = (*self.setup_fds(), area.fd, theirs.fileno())
            self.send(structs.replace(setup, sandbox=sandbox), fds)
        (ready, _) = self.expect(Ready)
        self.control_pes = ready.control_pes or ready.num_pes
        self.rows = max(self.control_pes, ready.control_rows)
        self.region_address = self.set_memory().region_device_address

    def close(self) -> None:
        super().close()
        self.records.close()

    # ---- the record socket -----------------------------------------------------------------------

    def read(self) -> None:
        """Reads all packets that have arrived."""
        while True:
            try:
                packet = self.records.recv(packets.MAX_PACKET_BYTES + 1)
            except (BlockingIOError, ConnectionResetError):
                return
            if not packet:
                return
            parsed = packets.parse(packet)
            self.seen.packets.append(parsed)
            match parsed:
                case packets.Records(sections):
                    self.seen.sections += sections
                case packets.Texts(texts):
                    self.seen.texts |= texts
                case _:
                    pass

    def read_until(self, condition: Any) -> Any:
        """Reads packets until `condition()` returns something true, and returns that.

        :raise AssertionError: that does not happen in time.
        """

        def read() -> Any:
            self.read()
            found = condition()
            if not found:
                select.select([self.records, self.sock], [], [], LOOK_S)
            return found

        return until(read)

    # ---- commands --------------------------------------------------------------------------------

    def command(self, kind: type[Any], fds: tuple[int, ...] = (), **values: Any) -> Ack:
        """Sends a command and reads packets until its ack, as the daemon does."""
        message = kind(seq=next(self._seq), **values)
        self.send(message, fds)
        ack: Ack = self.read_until(lambda: self._ack_of(message.seq))
        self.read()
        return ack

    def _ack_of(self, seq: int) -> Ack | None:
        self.sock.setblocking(False)
        try:
            while True:
                message, _ = self.expect(Ack)
                assert message.seq == seq
                return message
        except BlockingIOError:
            return None
        finally:
            self.sock.settimeout(TIMEOUT_S)

    def open(self, function: Function, channels: Sequence[int], pes: Sequence[int], **values: Any) -> Ack:
        terms = Terms(function, **({"slots": 64} | values))
        numbers = tuple(channels)
        generations = tuple(100 + number for number in numbers)
        return self.command(ControlOpen, terms=terms, pes=tuple(pes), channels=numbers, generations=generations)

    def release(self, channels: Sequence[int]) -> Ack:
        return self.command(ControlClose, channels=tuple(channels))

    def salvage(self, channel: int, function: Function, pe: int, taken: int) -> list[Section]:
        """Salvages the records of a channel that a dead worker left in the area."""
        control = self.setup.control
        with Salvage(self.area.fd, control.area_bytes, self.rows, control.channels) as salvage:
            return list(salvage.drain(channel, 100 + channel, function, pe, taken))

    # ---- the guest -------------------------------------------------------------------------------

    def load_source(self) -> dict[str, int]:
        """Loads `SOURCE` into a context of its own; functions by name."""
        return self.load_image(image())

    def load_image(self, program: bytes) -> dict[str, int]:
        """Loads an image into a context; returns its functions by name."""
        self.guest_context = self.context()
        source = SOURCE.encode()
        body = {"kind": 1, "source_len": len(source)}
        pending = self.driver.submit(Opcode.PROGRAM_LOAD, body, source, context=self.guest_context, writable_len=8192)
        request, _ = self.expect(Compile)
        made = memfd.sealed("image", program)
        self.send(Program(next(self._seq), request.request, True, "", 0, False), (made,))
        codec.close_fds((made,))
        reply = self.driver.wait(pending)
        assert reply.status is Status.OK, reply.text
        return function_ids(reply.payload)

    def run(self, function: int, params: bytes = b"", blocks: int = 1, stream: int = 0) -> Pending:
        """Starts a launch; `finish` waits for it."""
        body = LAUNCH | {"function": function, "grid": [blocks, 1, 1], "param_len": len(params)}
        options: dict[str, Any] = {"context": self.guest_context, "stream": stream, "writable_len": 500}
        return self.driver.submit(Opcode.LAUNCH, body, params, **options)

    def run_gated(self, function: int) -> Pending:
        WORD.pack_into(self.region.memory, self.region.size - 4096 + WORD.size, 0)
        self.set_gate(0)
        return self.run(function, self.gate_address().to_bytes(8, "little"))

    def finish(self, pending: Pending) -> Reply:
        reply = self.driver.wait(pending)
        assert reply.status is Status.OK, reply.text
        return reply

    def gate_address(self) -> int:
        return self.region_address + self.region.size - 4096

    def set_gate(self, wanted: int) -> None:
        WORD.pack_into(self.region.memory, self.region.size - 4096, wanted)

    def made(self) -> int:
        return int(WORD.unpack_from(self.region.memory, self.region.size - 4096 + WORD.size)[0])

    def wait_made(self, count: int) -> None:
        self.read_until(lambda: self.made() >= count)


@contextmanager
def control_worker_rig(
    pes: int = 2,
    sandbox: SandboxMode = "off",
    budget_ppm: int = 0,
    engine: EngineSetup = CPU,
    memory_bytes: int = 16 << 20,
    *,
    channels: int = 1024,
    area_bytes: int = AREA_BYTES,
    max_streams: int = SETUP.max_streams,
) -> Iterator[ControlWorkerRig]:
    """A worker whose ring 0 runs."""
    setup = structs.replace(
        SETUP,
        engine=engine,
        quota=Quota(pes, memory_bytes, 64),
        control=ControlSetup(area_bytes, channels, budget_ppm),
        max_streams=max_streams,
    )
    with ExitStack() as stack:
        area = stack.enter_context(ControlArea(area_bytes))
        rig = ControlWorkerRig(stack.enter_context(shared_parts()), area, sandbox, setup)
        stack.callback(rig.close)
        assert rig.start().ok
        yield rig
