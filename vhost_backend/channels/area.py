"""The daemon's side of control areas: made for a worker, emptied when the worker has died."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.channels.packets import Section

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class ControlArea:
    """Sealed file of `size_bytes` zeros, which uses memory only where it is touched. A context manager.

    :raise OSError: the host has no memfd.
    """

    def __init__(self, size_bytes: int, fd: int | None = None) -> None:
        """`fd`: an area that another daemon has made, which is taken over; None: makes one."""
        self.size_bytes = size_bytes
        if fd is not None:
            self.fd = fd
            return
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

    def fileno(self) -> int:
        """Descriptor of the file, which stays the area's."""
        return self.fd

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Salvage:
    """Takes the records that a dead worker had not sent out of its area. A context manager.

    Guest code may have written anything into the area. No contents make this loop or crash; it takes no longer than
    emptying as many slots as the area can hold, or `num_slots` where the daemon knows how many the links have.

    :raise ValueError: `fd` holds no area of that size, with that many elements and channels.
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
        """Remaining sections of a channel, in order; `taken` is the count of the worker's last section of it.

        The last section has the channel's final counts. Yields nothing if the area does not know the channel.
        """
        numbers = (channel, generation, function, pe, taken)
        while used := lib.vgc_salvage_drain(self._salvage, *numbers, self._packet, packets.MAX_PACKET_BYTES):
            yield from packets.sections(bytes(ffi.buffer(self._packet, used)))
