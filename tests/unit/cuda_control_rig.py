"""The control system's driver on the CUDA engine's C half and the fake GPU, whose SMs run the real control code."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes import cuda_cubin
from tests.unit.cuda_direct import Direct, direct
from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels.area import Salvage
from virtio_proto.control import records
from virtio_proto.control.records import Function, Record

SMS: Final = 8
CHANNELS: Final = 64
AREA_BYTES: Final = 4 << 20
PERIOD_NS: Final = 1_000_000
_CHANNELS_AT: Final = 4096 + SMS * 1024
_NOT_SUPPORTED: Final = 801
_PACKET: Final = 1 << 20


@dataclass
class Control:
    """The control driver of one VM, with channels numbered by the test."""

    gpu: Direct
    handle: Any
    device: int
    texts_at: int
    fd: int
    """Descriptor of the area's file."""
    generations: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)

    def open(self, function: Function, pe: int, channel: int, **terms: int) -> None:
        """Opens a channel and binds it, with room for 64 slots unless `terms` say otherwise."""
        self.generations[channel] = self.generations.get(channel, 0) + 1
        asked = {"function": int(function), "level": 5, "slots": 64, "in_bytes": 256} | terms
        why = ffi.new("char[]", lib.VGC_CONTROL_WHY)
        error = lib.vgc_control_open(
            self.handle,
            ffi.new("struct vgc_control_terms *", asked),
            ffi.new("uint16_t[]", [pe]),
            ffi.new("uint16_t[]", [channel]),
            ffi.new("uint32_t[]", [self.generations[channel]]),
            1,
            why,
        )
        assert error == 0, ffi.string(why)

    def unbind(self, *channels: int) -> None:
        why = ffi.new("char[]", lib.VGC_CONTROL_WHY)
        assert lib.vgc_control_unbind(self.handle, ffi.new("uint16_t[]", channels), len(channels), why) == 0

    def settle(self) -> list[Record]:
        """Drains channels that were unbound until no element holds them; returns their records."""
        found: list[Record] = []
        while lib.vgc_control_unsettled(self.handle):
            found += self.drain()
        return found

    def close(self, *channels: int) -> int:
        """Closes channels; returns how many of them an element still holds."""
        return int(lib.vgc_control_close(self.handle, ffi.new("uint16_t[]", channels), len(channels)))

    def send(self, channel: int, data: bytes, *, eof: bool = False) -> None:
        why = ffi.new("char[]", lib.VGC_CONTROL_WHY)
        assert lib.vgc_control_send(self.handle, channel, data, len(data), eof, why) == 0, ffi.string(why)

    def link_of(self, channel: int) -> int:
        """Device address of the channel's link."""
        at = _CHANNELS_AT + channel * 256 + 16
        to = ffi.new("uint64_t *")
        assert self.gpu.handle.ops.control_read(self.gpu.handle, at, to, 8) == 0
        return int(to[0])

    def salvaged(self, channel: int, function: Function, pe: int, taken: int) -> list[Record]:
        """Records of a channel that the area's file holds."""
        with Salvage(self.fd, AREA_BYTES, SMS, CHANNELS) as salvage:
            sections = list(salvage.drain(channel, self.generations[channel], function, pe, taken))
        return [record for section in sections for record in records.unpack(section.records)]

    def drain(self) -> list[Record]:
        """Drains the records of all links."""
        found: list[Record] = []
        to = ffi.new("uint8_t[]", _PACKET)
        while True:
            size = lib.vgc_control_drain(self.handle, 1 << 62, to, _PACKET)
            lib.vgc_control_drained(self.handle, True)
            got = self._sections(bytes(ffi.buffer(to, size)))
            found += got
            if not got:
                return found

    def _sections(self, packet: bytes) -> list[Record]:
        found: list[Record] = []
        while packet:
            section = ffi.from_buffer("struct vgc_control_section *", packet[: lib.VGC_CONTROL_SECTION])
            self.lost[section.channel] = section.lost
            end = lib.VGC_CONTROL_SECTION + section.length
            found += records.unpack(packet[lib.VGC_CONTROL_SECTION : end])
            packet = packet[end:]
        return found

    def device_state(self) -> Any:
        """The state of the GPU's clock and SMs that the driver reports."""
        state = ffi.new("struct vgc_control_device *")
        lib.vgc_control_ask_device(self.handle, state)
        return state

    def text(self, address: int, size: int = 100) -> str | int:
        """The text at a device address, or the negative errno."""
        to = ffi.new("char[]", size)
        length = lib.vgc_control_text(self.handle, address, to, size)
        return ffi.string(to).decode() if length >= 0 else int(length)

    def snapshot(self) -> list[Any]:
        """The state of each element, by a snapshot."""
        states = ffi.new("struct vgc_control_state[]", SMS)
        lib.vgc_control_look(self.handle, 0, states)
        return list(states)

    def watched(self, sm: int, blocks: int, text: int = 0, **where: int) -> Any:
        """Launches blocks on an SM, each of which prints."""
        return self.gpu.launch("watched", struct.pack("<IIQ", sm, blocks, text), block=[64, 1, 1], **where)

    def run(self, sm: int, blocks: int, text: int = 0) -> None:
        self.gpu.wait(self.watched(sm, blocks, text))


@contextmanager
def control(
    *settings: str,
    num_channels: int = CHANNELS,
    area_bytes: int = AREA_BYTES,
    completion: int = lib.VGC_CUDA_AUTO,
    sms: int = SMS,
    fails: str = "",
    image: bytes = b"",
    stuck_ns: int = 0,
) -> Iterator[Control]:
    """A driver and an engine that this thread has entered, with an area of `SMS` elements and a program with hooks.

    `fails`: a call of the CUDA driver that fails while the area is attached. `image`: the program.
    """
    with direct(*settings, completion=completion, contexts=0, stuck_ns=stuck_ns) as gpu:
        fd = os.memfd_create("control")
        os.ftruncate(fd, area_bytes)
        why = ffi.new("char[]", lib.VGC_CONTROL_WHY)
        if fails:
            gpu.driver.inject(fails, _NOT_SUPPORTED)
        handle = lib.vgc_control_new(gpu.handle, fd, area_bytes, sms, num_channels, why)
        assert handle != ffi.NULL, ffi.string(why)
        try:
            with gpu.left():
                program = gpu.load_image(image or cuda_cubin.hooked())
                gpu.functions |= {(1, function.name): function for function in program.functions}
                names = hook(gpu, program)
            yield Control(gpu, handle, int(lib.vgc_control_device(handle)), names, fd)
        finally:
            lib.vgc_control_free(handle)
            os.close(fd)


def hook(gpu: Direct, program: Any) -> int:
    """Connects a program to the area; returns the address of its texts."""
    link = gpu.engine.variable(program, "__vgc_control").address
    names = gpu.engine.variable(program, "__vgc_kernels").address
    why = ffi.new("char[]", lib.VGC_CUDA_WHY)
    texts = cuda_cubin.TEXTS
    assert lib.vgc_cuda_program_hook(program.private, link, names, texts, len(texts), why) == 0, ffi.string(why)
    return names
