"""Split virtqueues in a region: where they lie, raw access for hostile tests, and the device side in-process."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.region import Block, Region
from virtio_proto._vring import ffi, lib

NEXT: Final[int] = lib.VGC_DESC_F_NEXT
WRITE: Final[int] = lib.VGC_DESC_F_WRITE
INDIRECT: Final[int] = lib.VGC_DESC_F_INDIRECT


@dataclass(frozen=True, slots=True)
class RingPlacement:
    """Byte offsets of a ring's three parts in the region, and its number of entries."""

    desc: int
    avail: int
    used: int
    num: int

    @classmethod
    def allocate(cls, region: Region, num: int) -> RingPlacement:
        """Take memory for a ring of `num` entries from the region."""
        desc = region.allocate(16 * num, align=16)
        avail = region.allocate(6 + 2 * num, align=64)  # a cache line of its own: the two sides write apart
        used = region.allocate(6 + 8 * num, align=64)
        return cls(desc.offset, avail.offset, used.offset, num)


@dataclass(frozen=True, slots=True)
class Desc:
    """One descriptor [virtio 1.3 §2.7.5]."""

    addr: int
    len: int
    flags: int = 0
    next: int = 0

    def pack(self) -> bytes:
        """Lay it out as in a descriptor table; every value is cut to its field."""
        return struct.pack("<QIHH", self.addr % 2**64, self.len % 2**32, self.flags % 2**16, self.next % 2**16)


class RawRing:
    """A ring's words, to be read and written at will."""

    def __init__(self, region: Region, at: RingPlacement) -> None:
        self.region, self.at = region, at

    def _get(self, code: str, offset: int) -> int:
        value: int = struct.unpack_from(code, self.region.memory, offset)[0]
        return value

    def _set16(self, offset: int, value: int) -> None:
        struct.pack_into("<H", self.region.memory, offset, value % 2**16)

    def set_desc(self, index: int, desc: Desc) -> None:
        """Write descriptor `index` of the ring's own table."""
        self.region.memory[self.at.desc + 16 * index : self.at.desc + 16 * index + 16] = desc.pack()

    def write_table(self, block: Block, descs: Sequence[Desc]) -> None:
        """Write an indirect table."""
        self.region.write(block, b"".join(desc.pack() for desc in descs))

    @property
    def avail_idx(self) -> int:
        """The driver's index."""
        return self._get("<H", self.at.avail + 2)

    @avail_idx.setter
    def avail_idx(self, value: int) -> None:
        self._set16(self.at.avail + 2, value)

    def set_avail_entry(self, slot: int, head: int) -> None:
        """Write one avail entry; `slot` wraps as the index does."""
        self._set16(self.at.avail + 4 + 2 * (slot % self.at.num), head)

    def publish(self, head: int) -> None:
        """Append `head` to the avail ring, with no checks and no bookkeeping."""
        self.set_avail_entry(self.avail_idx, head)
        self.avail_idx += 1

    @property
    def used_idx(self) -> int:
        """The device's index."""
        return self._get("<H", self.at.used + 2)

    @used_idx.setter
    def used_idx(self, value: int) -> None:
        self._set16(self.at.used + 2, value)

    def used_entry(self, slot: int) -> tuple[int, int]:
        """Head and length of one used entry."""
        offset = self.at.used + 4 + 8 * (slot % self.at.num)
        return self._get("<I", offset), self._get("<I", offset + 4)

    def set_used_entry(self, slot: int, head: int, length: int) -> None:
        """Write one used entry, as a hostile device would."""
        struct.pack_into("<II", self.region.memory, self.at.used + 4 + 8 * (slot % self.at.num), head, length)

    @property
    def used_heads(self) -> list[int]:
        """Heads returned since the ring was new, if not more than it holds."""
        return [self.used_entry(slot)[0] for slot in range(self.used_idx)]

    @property
    def used_event(self) -> int:
        """Where the driver wants the next call."""
        return self._get("<H", self.at.avail + 4 + 2 * self.at.num)

    @used_event.setter
    def used_event(self, value: int) -> None:
        self._set16(self.at.avail + 4 + 2 * self.at.num, value)

    @property
    def avail_event(self) -> int:
        """Where the device wants the next kick."""
        return self._get("<H", self.at.used + 4 + 8 * self.at.num)

    @property
    def avail_flags(self) -> int:
        """Bit 0: the driver wants no calls."""
        return self._get("<H", self.at.avail)

    @property
    def used_flags(self) -> int:
        """Bit 0: the device wants no kicks."""
        return self._get("<H", self.at.used)


@dataclass(frozen=True, slots=True)
class Chain:
    """A popped chain: offsets into the region and lengths."""

    head: int
    readable: tuple[tuple[int, int], ...]
    writable: tuple[tuple[int, int], ...]


class DeviceRing:
    """The device side of vring.c on a region in this process."""

    def __init__(
        self,
        region: Region,
        at: RingPlacement,
        *,
        event_idx: bool = False,
        indirect: bool = False,
        base: int = 0,
    ) -> None:
        """Start the ring.

        :raise OSError: with vring.c's errno, when the placement is refused.
        """
        self.region = region
        self.mem = memory_of(region)
        self.vq = ffi.new("struct vgc_vq_device *")
        self.chain = ffi.new("struct vgc_chain *")
        uvas = (region.uva + offset for offset in (at.desc, at.avail, at.used))
        error = lib.vgc_vq_device_init(self.vq, self.mem, at.num, *uvas, base, event_idx, indirect)
        if error:
            raise OSError(-error, "vgc_vq_device_init")

    def pop(self) -> int:
        """Pop into ``self.chain``; vring.c's result."""
        result: int = lib.vgc_vq_pop(self.vq, self.mem, self.chain)
        return result

    def rewalk(self, head: int) -> int:
        """Walk a chain that an earlier instance popped; vring.c's result."""
        result: int = lib.vgc_vq_rewalk(self.vq, self.mem, head, self.chain)
        return result

    def push(self, head: int, length: int) -> int:
        """Return a chain; vring.c's result."""
        result: int = lib.vgc_vq_push(self.vq, head, length)
        return result

    def popped(self) -> Chain:
        """Copy out the chain that was popped last."""
        spans = [
            (int(ffi.cast("uintptr_t", span.base)) - self.region.address, int(span.len))
            for span in self.chain.spans[0 : self.chain.num_readable + self.chain.num_writable]
        ]
        cut = self.chain.num_readable
        return Chain(self.chain.head, tuple(spans[:cut]), tuple(spans[cut:]))

    @property
    def in_flight(self) -> set[int]:
        """Heads that were popped and not pushed."""
        return {head for head in range(256) if self.vq.inflight[head // 64] >> (head % 64) & 1}


def memory_of(*regions: Region) -> Any:
    """Describe regions as a ``struct vgc_mem *``."""
    mem = ffi.new("struct vgc_mem *")
    mem.count = len(regions)
    for entry, region in zip(mem.regions, regions, strict=False):
        entry.gpa, entry.uva, entry.size = region.gpa, region.uva, region.size
        entry.host = ffi.cast("uint8_t *", region.address)
    return mem
