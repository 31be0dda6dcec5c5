"""Split virtqueues in a region: their placement, raw access for hostile tests, and the device side in this process."""

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
    """Byte offsets of a ring's three parts in the region, and number of its entries."""

    desc: int
    avail: int
    used: int
    num: int

    @classmethod
    def allocate(cls, region: Region, num: int) -> RingPlacement:
        """Allocates memory for a ring of `num` entries in the region."""
        desc = region.allocate(16 * num, align=16)
        avail = region.allocate(6 + 2 * num, align=64)  # a cache line of its own: driver and device write apart
        used = region.allocate(6 + 8 * num, align=64)
        return cls(desc.offset, avail.offset, used.offset, num)


@dataclass(frozen=True, slots=True)
class Desc:
    """A descriptor [virtio 1.3 §2.7.5]."""

    addr: int
    len: int
    flags: int = 0
    next: int = 0

    def pack(self) -> bytes:
        """Packs the descriptor as in a descriptor table; every value is cut to its field."""
        return struct.pack("<QIHH", self.addr % 2**64, self.len % 2**32, self.flags % 2**16, self.next % 2**16)


class RawRing:
    """Raw access to all words of a ring."""

    def __init__(self, region: Region, at: RingPlacement) -> None:
        self.region, self.at = region, at

    def _get(self, code: str, offset: int) -> int:
        value: int = struct.unpack_from(code, self.region.memory, offset)[0]
        return value

    def _set16(self, offset: int, value: int) -> None:
        struct.pack_into("<H", self.region.memory, offset, value % 2**16)

    def set_desc(self, index: int, desc: Desc) -> None:
        """Writes descriptor `index` of the ring's table."""
        self.region.memory[self.at.desc + 16 * index : self.at.desc + 16 * index + 16] = desc.pack()

    def write_table(self, block: Block, descs: Sequence[Desc]) -> None:
        """Writes an indirect table."""
        self.region.write(block, b"".join(desc.pack() for desc in descs))

    @property
    def avail_idx(self) -> int:
        """Index of the avail ring."""
        return self._get("<H", self.at.avail + 2)

    @avail_idx.setter
    def avail_idx(self, value: int) -> None:
        self._set16(self.at.avail + 2, value)

    def set_avail_entry(self, slot: int, head: int) -> None:
        """Writes an avail entry; `slot` wraps like the index."""
        self._set16(self.at.avail + 4 + 2 * (slot % self.at.num), head)

    def publish(self, head: int) -> None:
        """Appends `head` to the avail ring, without checks and bookkeeping."""
        self.set_avail_entry(self.avail_idx, head)
        self.avail_idx += 1

    @property
    def used_idx(self) -> int:
        """Index of the used ring."""
        return self._get("<H", self.at.used + 2)

    @used_idx.setter
    def used_idx(self, value: int) -> None:
        self._set16(self.at.used + 2, value)

    def used_entry(self, slot: int) -> tuple[int, int]:
        """Head and length of a used entry."""
        offset = self.at.used + 4 + 8 * (slot % self.at.num)
        return self._get("<I", offset), self._get("<I", offset + 4)

    def set_used_entry(self, slot: int, head: int, length: int) -> None:
        """Writes a used entry, like a hostile device."""
        struct.pack_into("<II", self.region.memory, self.at.used + 4 + 8 * (slot % self.at.num), head, length)

    @property
    def used_heads(self) -> list[int]:
        """All heads returned so far, if there are not more than entries."""
        return [self.used_entry(slot)[0] for slot in range(self.used_idx)]

    @property
    def used_event(self) -> int:
        """The driver's used_event: the used index at which it wants the next call."""
        return self._get("<H", self.at.avail + 4 + 2 * self.at.num)

    @used_event.setter
    def used_event(self, value: int) -> None:
        self._set16(self.at.avail + 4 + 2 * self.at.num, value)

    @property
    def avail_event(self) -> int:
        """The device's avail_event: the avail index at which it wants the next kick."""
        return self._get("<H", self.at.used + 4 + 8 * self.at.num)

    @property
    def avail_flags(self) -> int:
        """The driver's flags; bit 0: it wants no calls."""
        return self._get("<H", self.at.avail)

    @property
    def used_flags(self) -> int:
        """The device's flags; bit 0: it wants no kicks."""
        return self._get("<H", self.at.used)


@dataclass(frozen=True, slots=True)
class Chain:
    """A popped chain, as offsets into the region and lengths."""

    head: int
    readable: tuple[tuple[int, int], ...]
    writable: tuple[tuple[int, int], ...]


class DeviceRing:
    """Device side of vring.c on a region in this process."""

    def __init__(
        self,
        region: Region,
        at: RingPlacement,
        *,
        event_idx: bool = False,
        indirect: bool = False,
        base: int = 0,
    ) -> None:
        """Starts the ring.

        :raise OSError: vring.c refuses the placement; has its errno.
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
        """Pops a chain into ``self.chain``; returns vring.c's result."""
        result: int = lib.vgc_vq_pop(self.vq, self.mem, self.chain)
        return result

    def rewalk(self, head: int) -> int:
        """Walks a chain that an earlier instance has popped; returns vring.c's result."""
        result: int = lib.vgc_vq_rewalk(self.vq, self.mem, head, self.chain)
        return result

    def push(self, head: int, length: int) -> int:
        """Pushes a chain; returns vring.c's result."""
        result: int = lib.vgc_vq_push(self.vq, head, length)
        return result

    def popped(self) -> Chain:
        """Copy of the chain that was popped last."""
        spans = [
            (int(ffi.cast("uintptr_t", span.base)) - self.region.address, int(span.len))
            for span in self.chain.spans[0 : self.chain.num_readable + self.chain.num_writable]
        ]
        cut = self.chain.num_readable
        return Chain(self.chain.head, tuple(spans[:cut]), tuple(spans[cut:]))

    @property
    def in_flight(self) -> set[int]:
        """Number of heads that were popped and not pushed."""
        return {head for head in range(256) if self.vq.inflight[head // 64] >> (head % 64) & 1}


def memory_of(*regions: Region) -> Any:
    """Makes a ``struct vgc_mem *`` of regions."""
    mem = ffi.new("struct vgc_mem *")
    mem.count = len(regions)
    for entry, region in zip(mem.regions, regions, strict=False):
        entry.gpa, entry.uva, entry.size = region.gpa, region.uva, region.size
        entry.host = ffi.cast("uint8_t *", region.address)
    return mem
