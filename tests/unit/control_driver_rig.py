"""The control system's driver over an area without an engine; a test plays the elements."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.unit.control_rig import MORE, SLOT, Area
from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.channels.area import ControlArea
from vhost_backend.channels.driver import Driver
from vhost_backend.channels.packets import Section
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control import records
from virtio_proto.control.records import HEADER, Function, Record

SECOND_NS: Final = 10**9
NOW_NS: Final = 1000 * SECOND_NS


@dataclass
class DriverRig:
    """A driver and its area as elements see it."""

    driver: Driver
    area: Area
    file: ControlArea
    now_ns: int = NOW_NS
    _generations: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # ---- the daemon's part -----------------------------------------------------------------------

    def open(self, terms: Terms, channels: Sequence[int], pes: Sequence[int] | None = None) -> list[int]:
        """Opens a channel on each of the elements, by default the first ones; returns the channels' generations."""
        generations = [next(self._generations) for _ in channels]
        self.driver.open(terms, range(len(channels)) if pes is None else pes, channels, generations)
        return generations

    def drain(self, *, sent: bool = True) -> list[Section]:
        """The sections of the driver's next packet; empty if it has nothing to send."""
        packet = self.driver.drain(self.now_ns)
        if packet is None:
            return []
        parsed = packets.parse(bytes(packet))
        assert isinstance(parsed, packets.Records)
        self.driver.drained(sent=sent)
        return list(parsed.sections)

    def take(self) -> list[Record]:
        """Drains all records."""
        sections = itertools.chain.from_iterable(iter(self.drain, []))
        return [record for section in sections for record in records.unpack(section.records)]

    def close(self, channels: Sequence[int]) -> list[Section]:
        """Closes channels that no element holds; returns their last sections."""
        self.driver.unbind(channels)
        found = []
        while self.driver.unsettled():
            found += self.drain()
        assert self.driver.close_channels(channels) == 0
        return found

    # ---- the elements' part ----------------------------------------------------------------------

    def put(self, number: int, payload: bytes = b"", **changes: int) -> bool:
        """Makes a record, as an element does with ``kernels/control/link.h``; False if the link has no room."""
        channel = self.area.channel(number)
        sequence, slots = channel.records, 1 + max(0, -(-(len(payload) - 32) // 56))
        channel.records += 1
        if channel.policy == lib.VGC_CTL_OVERWRITE_OLDEST:
            for position in range(channel.head, channel.head + slots):
                self.store(number, position, bytes(8))
        elif channel.head - channel.tail > channel.slots - slots:
            channel.lost += 1
            return False
        position = channel.head
        channel.head += slots
        function = changes.get("function", channel.function)
        length, pe = changes.get("length", len(payload)), changes.get("pe", channel.pe)
        head = HEADER.pack(self.now_ns, function << 4 | 4, changes.get("type", 1), length, pe, 0, 0, sequence)
        for index, start in enumerate(range(32, len(payload), 56)):
            at = position + 1 + index
            part = payload[start : start + 56]
            self.store(number, at, (at + 1 | MORE).to_bytes(8, "little") + part)
        self.store(number, position, (position + 1).to_bytes(8, "little") + head + payload[:32])
        return True

    def claim(self, number: int, slots: int = 1) -> None:
        """Claims slots, as an element that never fills them."""
        self.area.channel(number).head += slots

    def conceal(self, number: int) -> Callable[[], None]:
        """Removes the commit word of the last record, of one slot; the returned function restores it."""
        position = int(self.area.channel(number).head) - 1
        self.store(number, position, bytes(8))
        return lambda: self.store(number, position, (position + 1).to_bytes(8, "little"))

    def store(self, number: int, position: int, content: bytes) -> None:
        channel = self.area.channel(number)
        at = channel.out - self.driver.device + position % channel.slots * SLOT
        self.area.memory[at : at + len(content)] = content

    def bind_word(self, pe: int, function: Function) -> tuple[int, int, int, int]:
        """Binding of an element's function: generation, channel, level, sample."""
        word = int(self.area.pe(pe).bind[function])
        return word >> 32, word >> 16 & 0xFFFF, word >> 8 & 0xFF, word & 0xFF


@contextmanager
def driver_rig(pes: int = 4, channels: int = 16, size: int = 1 << 20) -> Iterator[DriverRig]:
    """A driver over a fresh area."""
    with ControlArea(size) as file:
        area = Area(mmap.mmap(file.fd, size), file.fd, pes, channels)
        driver = Driver(ffi.NULL, file.fd, size, pes, channels)
        try:
            yield DriverRig(driver, area, file)
        finally:
            driver.close()
