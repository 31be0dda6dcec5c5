"""A CPU engine with a control area that the test lays out, in place of the host side.

The host's half here is Python with its own arithmetic of addresses in the area, so that it shares nothing with the
code under test but ``vgc_control.h``.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.unit.cpu_rig import Rig, compile_image, make_launch, rig
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from virtio_proto.control.records import Function, Record
from virtio_proto.schema import Status

PES_AT: Final = 4096
PE_BYTES: Final = 1024
CHANNEL_BYTES: Final = 256
SLOT: Final = 64
MORE: Final = 1 << 63

_FIRST: Final = struct.Struct("<QQBBHHHII")


@dataclass
class Area:
    """The control area as the host maps it."""

    memory: mmap.mmap
    fd: int
    num_pes: int
    num_channels: int
    device: int = 0
    next_link: int = 0
    generation: int = 0
    tails: dict[int, int] = field(default_factory=dict)

    @property
    def channels_at(self) -> int:
        return PES_AT + self.num_pes * PE_BYTES

    def at(self, type_name: str, offset: int) -> Any:
        """A ``struct`` of the area, as a cffi pointer."""
        view = ffi.from_buffer(self.memory)
        return ffi.cast(f"{type_name} *", ffi.cast("char *", view) + offset)

    def pe(self, index: int) -> Any:
        return self.at("struct vgc_ctl_pe", PES_AT + index * PE_BYTES)

    def channel(self, number: int) -> Any:
        return self.at("struct vgc_ctl_channel", self.channels_at + number * CHANNEL_BYTES)

    def open(
        self, number: int, function: Function, slots: int = 64, *, policy: int = 0, in_bytes: int = 0, wait_ns: int = 0
    ) -> Any:
        """Opens a channel with links of its own, not bound yet."""
        channel = self.channel(number)
        ffi.memmove(channel, bytes(CHANNEL_BYTES), CHANNEL_BYTES)
        self.generation += 1
        channel.generation, channel.function, channel.policy = self.generation, function, policy
        channel.slots, channel.in_bytes, channel.wait_ns = slots, in_bytes, wait_ns
        channel.out = self.device + self._place(slots * SLOT)
        if in_bytes:
            setattr(channel, "in", self.device + self._place(in_bytes))
        self.tails[number] = 0
        return channel

    def _place(self, size: int) -> int:
        at, self.next_link = self.next_link, self.next_link + (size + 63) // 64 * 64
        assert self.next_link <= len(self.memory), "the area is full"
        self.memory[at : at + size] = bytes(size)
        return at

    def bind(self, pe: int, function: Function, number: int, level: int = 4, sample: int = 0) -> None:
        word = self.channel(number).generation << 32 | number << 16 | level << 8 | sample
        self.pe(pe).bind[function] = word

    def attend(self, pe: int, bits: int) -> None:
        self.pe(pe).attention = bits

    def release(self, pe: int, function: Function) -> None:
        """Unbinds and waits for the element's hooks to have left."""
        self.pe(pe).bind[function] = 0
        until(lambda: self.pe(pe).readers == 0)

    def send(self, number: int, data: bytes, *, eof: bool = False) -> None:
        """Puts bytes into the in link, which must have room."""
        channel = self.channel(number)
        begin = getattr(channel, "in") - self.device
        for index, byte in enumerate(data):
            self.memory[begin + (channel.in_head + index) % channel.in_bytes] = byte
        channel.in_head += len(data)
        channel.in_eof = eof

    def _slot(self, number: int, position: int) -> bytes:
        channel = self.channel(number)
        at = channel.out - self.device + position % channel.slots * SLOT
        return self.memory[at : at + SLOT]

    def take(self, number: int) -> list[Record]:
        """Takes all records, oldest first."""
        return list(iter(lambda: self.take_one(number), None))

    def take_one(self, number: int) -> Record | None:
        """Takes the next record; None if it is not committed yet. Overwritten records are skipped."""
        channel = self.channel(number)
        tail = max(self.tails[number], channel.head - channel.slots)
        while tail < channel.head:
            slot = self._slot(number, tail)
            commit, time_ns, function_level, kind, length, pe, warp, block, sequence = _FIRST.unpack_from(slot)
            if commit == tail + 1 | MORE:
                tail += 1
                continue
            if commit != tail + 1:
                return None
            payload, position = slot[32:], tail + 1
            while len(payload) < length:
                more = self._slot(number, position)
                assert int.from_bytes(more[:8], "little") == position + 1 | MORE
                payload, position = payload + more[8:], position + 1
            self.tails[number] = channel.tail = position
            function = Function(function_level >> 4)
            return Record(time_ns, function, function_level & 15, kind, pe, warp, block, sequence, payload[:length])
        return None


@functools.cache
def _compiled(source: str) -> bytes:
    return compile_image(source)[0]


@dataclass
class ControlRig:
    """An engine, its area, and launches that run beside the test."""

    rig: Rig
    area: Area

    def load(self, source: str) -> None:
        self.rig.load_image(_compiled(source))

    def kick(self) -> None:
        self.rig.engine.handle.ops.control_kick(self.rig.engine.handle)

    def text(self, address: int, room: int = 256) -> str | int:
        """The text at a device address, or the negative errno."""
        to = ffi.new("char[]", room)
        length = self.rig.engine.handle.ops.control_text(self.rig.engine.handle, address, to, room)
        return ffi.buffer(to, length)[:].decode() if length >= 0 else int(length)

    def look(self, pe: int) -> Any:
        """An element's state as the engine reports it; None if the element is idle."""
        state = ffi.new("struct vgc_ctl_pe *")
        found = self.rig.engine.handle.ops.control_look(self.rig.engine.handle, pe, state)
        return state if found else None

    @contextmanager
    def running(self, name: str, grid: int, block: int, *args: Any) -> Iterator[Any]:
        """Runs a launch beside the body, and waits for its end, which must be successful."""
        with self._launched(name, grid, block, args) as op:
            yield op
        assert op.status == Status.OK, ffi.string(op.error)

    @contextmanager
    def cancelled(self, name: str, grid: int, block: int, *args: Any) -> Iterator[Any]:
        """Runs a launch beside the body, and then cancels it."""
        with self._launched(name, grid, block, args) as op:
            try:
                yield op
            finally:
                self.rig.engine.handle.ops.cancel(self.rig.engine.handle, 1)
        assert op.status == Status.CANCELLED

    @contextmanager
    def _launched(self, name: str, grid: int, block: int, args: Any) -> Iterator[Any]:
        op, _keep = make_launch(self.rig.functions[name], grid, block, args)
        assert self.rig.engine.handle.ops.submit(self.rig.engine.handle, op) == lib.VGC_QUEUED
        try:
            yield op
        finally:
            until(lambda: lib.vgc_engine_take_finished(self.rig.engine.handle) != ffi.NULL)


@contextmanager
def laid_out(pes: int = 2, channels: int = 64, size: int = 4 << 20, fd: int = -1) -> Iterator[Area]:
    """Lays out a control area in a new memfd, or in `fd`."""
    own = os.memfd_create("control") if fd < 0 else fd
    os.ftruncate(own, size)
    area = Area(mmap.mmap(own, size), own, pes, channels)
    area.next_link = (area.channels_at + channels * CHANNEL_BYTES + 4095) // 4096 * 4096
    header = area.at("struct vgc_ctl_area", 0)
    header.magic, header.version, header.size = lib.VGC_CTL_MAGIC, lib.VGC_CTL_VERSION, size
    header.num_pes, header.num_channels = pes, channels
    header.pes, header.channels, header.links = PES_AT, area.channels_at, area.next_link
    try:
        yield area
    finally:
        os.close(own)


@contextmanager
def control_rig(pes: int = 2, channels: int = 64, size: int = 4 << 20, fd: int = -1) -> Iterator[ControlRig]:
    """A started engine with a control area."""
    with laid_out(pes, channels, size, fd) as area, rig(pes) as made:
        attach(made, area)
        yield ControlRig(made, area)


def attach(made: Rig, area: Area) -> None:
    device = ffi.new("uint64_t *")
    host = ffi.cast("uint8_t *", ffi.from_buffer(area.memory))
    error = made.engine.handle.ops.control_attach(made.engine.handle, area.fd, host, len(area.memory), device)
    assert error == 0, os.strerror(-error)
    area.device = int(device[0])


GATED: Final = r"""
#include <vgc.h>
// gate[0]: so many blocks may end; gate[1]: so many have begun
__global__ void gated(volatile int *gate) {
    if (threadIdx.x == 0) {
        gate[1] = blockIdx.x + 1;
        while (gate[0] <= (int)blockIdx.x)
            ;
    }
}
__global__ void say(int records) {
    if (threadIdx.x == 0)
        for (int i = 0; i < records; i++)
            vgc_event("event", i);
}
"""
"""Kernels that tests step block by block, and that make a given number of records."""


def let_end(gate: Any, blocks: int) -> None:
    """Lets the first `blocks` blocks of ``gated`` end, and waits until the next one has begun."""
    gate[0] = blocks
    until(lambda: gate[1] > blocks)
