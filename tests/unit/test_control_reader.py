"""Reading a worker's record socket: its packets reach the listener, and no packet does harm."""

from __future__ import annotations

import asyncio
import io
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from unittest.mock import patch

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import HANGS_AFTER_S
from vhost_backend import log
from vhost_backend.channels import packets
from vhost_backend.control.links import record_reader
from vhost_backend.control.links.channel_port import MAX_COUNT, Batch, Binding, DeviceClock, ElementFigures, Loss
from vhost_backend.control.links.firmware import ElementFound, FirmwareFound, FirmwareReport, SlotState
from vhost_backend.control.links.record_reader import RecordReader, offset_ns
from vhost_backend.worker_protocol.budgets import TimeBudget
from virtio_proto.control.records import Function

CHANNEL, GENERATION, PE = 3, 7, 1
ROWS = 16


class Heard:
    """A listener that notes everything."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.texts: dict[int, str] = {}
        self.figures: list[ElementFigures] = []
        self.figures_ns = 0
        self.samples: list[Mapping[int, int]] = []
        self.firmware: list[FirmwareReport] = []
        self.found: list[FirmwareFound] = []
        self.clock: DeviceClock | None = None
        self.num_pes = 0

    def on_ready(self, num_pes: int) -> None: ...

    def on_lost(self, loss: Loss) -> None: ...

    def on_batch(self, batch: Batch) -> None:
        self.batches.append(batch)

    def on_texts(self, texts: Mapping[int, str]) -> None:
        self.texts |= texts

    def on_figures(self, time_ns: int, figures: Sequence[ElementFigures]) -> None:
        self.figures_ns = time_ns
        self.figures += figures

    def on_samples(self, samples: Mapping[int, int]) -> None:
        self.samples.append(samples)

    def on_firmware(self, report: FirmwareReport) -> None:
        self.firmware.append(report)

    def on_firmware_found(self, found: FirmwareFound) -> None:
        self.found.append(found)

    def on_device(self, clock: DeviceClock, num_pes: int) -> None:
        self.clock = clock
        self.num_pes = num_pes


def tell(story: Callable[[RecordReader, socket.socket, Heard], Awaitable[None]]) -> None:
    """A reader with channel 3, generation 7, on element 1, and the worker's end of its socket."""

    async def told() -> None:
        log.configure("console", "debug", io.StringIO())
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader = RecordReader(ours, log.get_logger(vm="a"))
        heard = Heard()
        reader.begin(heard, ROWS)
        reader.expect(Function.STDIO, 64, [Binding(CHANNEL, GENERATION, PE)])
        try:
            with theirs:
                await story(reader, theirs, heard)
        finally:
            reader.close()
            reader.close()
            structlog.reset_defaults()

    asyncio.run(told())


def test_backlog_that_takes_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "BACKLOG_S", 0.0)

    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        for count in range(3):
            worker.send(next(packets.texts({count: "x"})))
        reader.drain()
        assert heard.texts == {0: "x"}

    tell(story)


def test_records_of_a_worker_without_budget_wait_in_its_socket() -> None:
    async def story(worker: socket.socket, reader: RecordReader, heard: Heard) -> None:
        for count in range(100):
            worker.send(next(packets.texts({count: "x"})))
        for _ in range(50):
            await asyncio.sleep(0)  # noqa: TID251  turns of the loop, no nap
        assert not heard.texts
        reader.drain()
        assert len(heard.texts) == 100

    async def told() -> None:
        spent = TimeBudget(0.5, clock=lambda: 0.0)
        spent.spend(1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader = RecordReader(ours, log.get_logger(vm="a"), spent)
        heard = Heard()
        reader.begin(heard, ROWS)
        with theirs:
            await story(theirs, reader, heard)
        reader.close()

    asyncio.run(told())


def section(channel: int, generation: int, data: bytes = b"") -> bytes:
    return packets.SECTION.pack(channel, 0, generation, 9, 1, 2, 500, 4, len(data), 1000) + data


def test_sections_of_open_channels_count_and_no_others() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        parts = [(CHANNEL, GENERATION), (CHANNEL, GENERATION - 1), (CHANNEL + 1, GENERATION), (0, 0), (65535, 7)]
        worker.send(b"R" + b"".join(section(*part, b"x" * 8) for part in parts))
        reader.drain()
        (batch,) = heard.batches
        counts = (batch.records, batch.lost, batch.skipped, batch.cost_ns, batch.forged, batch.data)
        assert counts == (9, 1, 2, 500, 4, b"x" * 8)
        reader.forget([CHANNEL])
        worker.send(b"R" + section(CHANNEL, GENERATION))
        reader.drain()
        assert len(heard.batches) == 1

    tell(story)


def test_device_state_of_a_worker_is_bounded() -> None:
    """A worker may send anything: elements are limited by the area's rows, and reading times by the present."""

    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(packets.device_state(packets.DEVICE.pack(3000, 1 << 63, ROWS + 1, 0)))
        reader.drain()
        assert reader.num_pes == ROWS
        assert heard.clock is not None
        assert heard.clock.error_ns == 3000
        assert 0 < heard.clock.read_ns <= time.monotonic_ns()
        worker.send(packets.device_state(packets.DEVICE.pack((1 << 64) - 1, 0, 0, 0)))
        reader.drain()
        assert heard.clock == DeviceClock(None, 0)
        assert reader.num_pes == ROWS  # the number of elements never falls
        worker.send(packets.device_state(packets.DEVICE.pack((1 << 64) - 2, 0, 0, 0)))
        reader.drain()
        assert heard.clock == DeviceClock(MAX_COUNT, 0)

    tell(story)


def test_error_of_a_devices_clock_grows_with_its_age() -> None:
    clock = DeviceClock(error_ns=3000, read_ns=1000)
    assert [clock.error_at(now) for now in (1000, 1000 + 10**9, 0)] == [3000, 103_000, 3000]
    assert DeviceClock(error_ns=0, read_ns=0).error_at(10**18) == 0  # the device uses the host's clock itself
    assert DeviceClock(error_ns=None, read_ns=0).error_at(10**18) is None


def test_names_of_counters_and_kernels_are_looked_up() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(next(packets.texts({0x40: "cells\x1b[31m", 0x50: "spin"})))
        counted = packets.FIGURES.pack(PE, 2, 1, 0, 1, 2, 3, 4, 5, 6)
        named = struct.pack("<QqQqQd", 0x40, -2, 0x48, 7, 0x50, 0.5)
        worker.send(packets.figures_head(1000) + counted + named)
        states = packets.STATE.pack(0, 1, 0, 8, 0x50, 2, 3, 0, 0, 5) + packets.STATE.pack(1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        with reader.snapshot(5) as seen:
            for packet in (*packets.snapshot(5, 1, 2, states), *packets.snapshot(6, 1, 2, states)):
                worker.send(packet)
            reader.drain()
        assert [(state.pe, state.kernel, state.since_ns) for state in seen] == [(0, "spin", 0)]
        (figures,) = heard.figures
        assert abs(heard.figures_ns - offset_ns() - 1000) < 10**9
        assert (figures.counters, figures.gauges) == ({"cells [31m": -2, "<0x48>": 7}, {"spin": 0.5})

    tell(story)


def test_firmware_of_a_worker_that_was_taken_over_is_passed_on() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(packets.firmware_slots((1 << 32, 0), packets.SLOT.pack(2, 1, 0)))  # there is no such slot
        worker.send(packets.firmware_slots((1 << 32, 0), packets.SLOT.pack(0, 4, 0)))  # nor such a state
        worker.send(packets.firmware_slots((1 << 48, 0), b""))
        worker.send(
            packets.firmware_slots((1 << 32, 2 << 32 | 1), packets.SLOT.pack(1, 2, 0) + packets.SLOT.pack(0, 0, 0))
        )
        reader.drain()
        elements = (ElementFound(1, SlotState.ACTIVE, 0), ElementFound(0, None, 0))
        assert heard.found == [FirmwareFound(("1.0.0", "2.0.1"), elements)]

    tell(story)


def test_firmware_and_governor_are_passed_on() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(b"F" + packets.FIRMWARE.pack(PE, 1, 2, 0, 5, 0))
        worker.send(b"F" + packets.FIRMWARE.pack(PE, 9, 2, 0, 5, 0))
        worker.send(b"G" + packets.CHANGE.pack(CHANNEL, 2, GENERATION) + packets.CHANGE.pack(CHANNEL, 5, 1))
        reader.drain()
        assert [(report.pe, report.slot, report.version) for report in heard.firmware] == [(PE, 1, 5)]
        assert heard.samples == [{CHANNEL: 2}]

    tell(story)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(b"RDPSGFEx"), st.binary(max_size=200)), max_size=8))
def test_random_packets_of_a_worker_do_no_harm(sent: list[tuple[int, bytes]]) -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        for kind, body in sent:
            worker.send(bytes([kind]) + body)
        worker.send(b"R" + section(CHANNEL, GENERATION, b"last"))
        with patch.object(record_reader, "BACKLOG_S", HANGS_AFTER_S):  # Python may collect garbage meanwhile
            reader.drain()
        assert heard.batches[-1].data == b"last"

    tell(story)


def test_end_of_the_worker_raises_nothing() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(b"R" + section(CHANNEL, GENERATION, b"last"))
        worker.close()
        reader.drain()
        reader.drain()
        assert [batch.data for batch in heard.batches] == [b"last"]

    tell(story)
