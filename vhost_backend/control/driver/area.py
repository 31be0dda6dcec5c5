"""Control areas as the daemon has them: made for a worker, emptied when it is dead.

The patent's control memory management of the CPU domain, as far as it outlives a worker.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.control.driver import packets
from vhost_backend.control.driver.packets import Section

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class ControlArea:
    """A sealed file of `size_bytes` zeros, of which memory is used as far as it is touched. A context manager.

    :raise OSError: the host has no memfd.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("vgc-control", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size_bytes)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(self.fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Salvage:
    """Takes out of an area what its worker, which is dead, has not sent. A context manager.

    Guest code may have written anything into the area: no contents make this loop, crash, or take longer than an
    area of its size can hold records, or `num_slots` are emptied where the daemon knows how many the links have.

    :raise ValueError: `fd` holds no area of that size, for so many elements and channels.
    """

    def __init__(
        self, fd: int, size_bytes: int, num_pes: int, num_channels: int, *, num_slots: int | None = None
    ) -> None:
        why = ffi.new("char[]", int(lib.VGC_CONTROL_WHY))
        self._salvage = lib.vgc_salvage_new(fd, size_bytes, num_pes, num_channels, why)
        if self._salvage == ffi.NULL:
            raise ValueError(ffi.string(why).decode())
        if num_slots is not None:
            lib.vgc_salvage_limit(self._salvage, num_slots)
        self._packet = ffi.new("uint8_t[]", packets.MAX_PACKET_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps the area; does nothing the second time."""
        salvage, self._salvage = self._salvage, ffi.NULL
        if salvage != ffi.NULL:
            lib.vgc_salvage_free(salvage)

    def drain(self, channel: int, generation: int, function: int, pe: int, taken: int) -> Iterator[Section]:
        """What is left of a channel, in order; `taken` is what the worker's last section of it said.

        The last section has the channel's final counts. Nothing comes if the area does not know the channel.
        """
        numbers = (channel, generation, function, pe, taken)
        while used := lib.vgc_salvage_drain(self._salvage, *numbers, self._packet, packets.MAX_PACKET_BYTES):
            yield from packets.sections(bytes(ffi.buffer(self._packet, used)))
