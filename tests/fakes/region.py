"""A VM's shared region on the guest's side: a mapped memfd with a small allocator."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from virtio_proto._vring import ffi

DEFAULT_GPA: Final = 0x8_0000_0000
DEFAULT_UVA: Final = 0x7F12_0000_0000


class RegionFullError(Exception):
    """No free range of the region is large enough."""


@dataclass(frozen=True, slots=True)
class Block:
    """A range of the region, at `offset` from its start; its guest physical address is `gpa`."""

    offset: int
    size: int
    gpa: int


class Region:
    """Guest memory that is shared with the device. Owns mapping and `fd`.

    A frontend needs these fields to share it: `fd`, `size`, `gpa` and `uva`, the pretended address of the frontend's
    mapping (vhost-user gives ring addresses in it).
    """

    def __init__(self, size: int, *, gpa: int = DEFAULT_GPA, uva: int = DEFAULT_UVA, fd: int = -1) -> None:
        """Makes a region of `size` bytes, or takes ownership of `fd` if it is given."""
        self.size, self.gpa, self.uva = size, gpa, uva
        self.fd = fd if fd >= 0 else os.memfd_create("region", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        if fd < 0:
            os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        self._pin = ffi.from_buffer(self.memory)
        self.address = int(ffi.cast("uintptr_t", self._pin))
        self._free = [(0, size)]  # free ranges as (offset, size), ascending, never adjacent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps the memory and closes the fd; does nothing the second time."""
        if self.fd < 0:
            return
        ffi.release(self._pin)
        self.memory.close()
        os.close(self.fd)
        self.fd = -1

    def allocate(self, size: int, align: int = 16) -> Block:
        """Allocates the first free range that fits.

        :raise RegionFullError: no free range is large enough.
        """
        size = max(size, 1)
        for index, (start, room) in enumerate(self._free):
            offset = -(-start // align) * align
            end = offset + size
            if end <= start + room:
                rest = [(start, offset - start), (end, start + room - end)]
                self._free[index : index + 1] = [piece for piece in rest if piece[1]]
                return Block(offset, size, self.gpa + offset)
        raise RegionFullError(f"no {size} bytes, aligned to {align}, in {self._free}")

    def release(self, block: Block) -> None:
        """Frees a block."""
        pieces = sorted([*self._free, (block.offset, block.size)])
        merged = [pieces[0]]
        for offset, size in pieces[1:]:
            last_offset, last_size = merged[-1]
            if last_offset + last_size == offset:
                merged[-1] = (last_offset, last_size + size)
            else:
                merged.append((offset, size))
        self._free = merged

    @property
    def free_bytes(self) -> int:
        """Number of free bytes."""
        return sum(size for _, size in self._free)

    def read(self, block: Block, size: int | None = None) -> bytes:
        """Reads the first `size` bytes of a block, or all."""
        return self.memory[block.offset : block.offset + (block.size if size is None else size)]

    def write(self, block: Block, data: bytes, at: int = 0) -> None:
        """Writes `data` into a block, `at` bytes from its start."""
        if at + len(data) > block.size:
            raise ValueError(f"{len(data)} bytes at {at} do not fit a block of {block.size}")
        self.memory[block.offset + at : block.offset + at + len(data)] = data
