"""Driver of one VM's control area: a typed interface to ``cdef.h``. All calls must come from one thread."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.worker_protocol.control_messages import Terms

MAX_CHANGES: Final = 4096
_NEVER: Final = (1 << 64) - 1


class DriverError(Exception):
    """The driver refused; the text says what is wrong, `number` is the errno."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        super().__init__(text or os.strerror(number))


@dataclass(frozen=True, slots=True)
class Usage:
    """``struct vgc_control_usage``"""

    link_bytes: int
    used_bytes: int
    quarantined_bytes: int
    channels: int
    quarantined: int


class Driver:
    """Control area in `fd` (all zeros; stays the caller's), laid out and attached to `engine`.

    `engine` is a ``struct vgc_engine *``, or NULL in tests.

    :raise DriverError: the engine has no control system, or the area is too small.
    """

    def __init__(self, engine: Any, fd: int, size_bytes: int, num_pes: int, num_channels: int) -> None:
        self.num_pes = num_pes
        self._why = ffi.new("char[]", int(lib.VGC_CONTROL_WHY))
        self._control = lib.vgc_control_new(engine, fd, size_bytes, num_pes, num_channels, self._why)
        if self._control == ffi.NULL:
            raise DriverError(errno.EINVAL, self._text())
        self._packet = ffi.new("uint8_t[]", packets.MAX_PACKET_BYTES)
        self._view = memoryview(ffi.buffer(self._packet))
        self._addresses = ffi.new("uint64_t[]", int(lib.VGC_CONTROL_UNKNOWN))
        self._string = ffi.new("char[]", packets.MAX_TEXT_BYTES)
        self._names = ffi.new("uint64_t[]", int(lib.VGC_CTL_GAUGES))
        self.can_look = bool(lib.vgc_control_can_look(self._control))

    def close(self) -> None:
        """Frees the driver. Only for tests: a worker's engine keeps its area until the process ends."""
        if self._control != ffi.NULL:
            lib.vgc_control_free(self._control)
            self._control = ffi.NULL

    @property
    def device(self) -> int:
        """Device address of the area's first byte."""
        return int(lib.vgc_control_device(self._control))

    @property
    def num_open(self) -> int:
        """Number of channels, including released ones that are not closed yet."""
        return int(lib.vgc_control_num_open(self._control))

    def usage(self) -> Usage:
        usage = ffi.new("struct vgc_control_usage *")
        lib.vgc_control_usage(self._control, usage)
        return Usage(**{name: int(getattr(usage, name)) for name in Usage.__slots__})

    def device_state(self) -> bytes:
        """Current ``struct vgc_control_device``."""
        device = ffi.new("struct vgc_control_device *")
        lib.vgc_control_ask_device(self._control, device)
        return bytes(ffi.buffer(device))

    # ---- channels --------------------------------------------------------------------------------

    def open(self, terms: Terms, pes: Sequence[int], channels: Sequence[int], generations: Sequence[int]) -> None:
        """Makes and binds channels: all or none.

        :raise DriverError: a channel cannot be opened.
        """
        values = ffi.new("struct vgc_control_terms *", structs.asdict(terms))
        numbers = (_u16(pes), _u16(channels), ffi.new("uint32_t[]", list(generations)))
        self._check(lib.vgc_control_open(self._control, values, *numbers, len(channels), self._why))

    def set(self, channels: Sequence[int], level: int, sample: int) -> None:
        self._check(lib.vgc_control_set(self._control, _u16(channels), len(channels), level, sample, self._why))

    def unbind(self, channels: Sequence[int]) -> None:
        """Unbinds channels: hooks find them no longer. They can be closed once `unsettled` is 0.

        :raise DriverError: a channel is not open; none was unbound.
        """
        self._check(lib.vgc_control_unbind(self._control, _u16(channels), len(channels), self._why))

    def unsettled(self) -> int:
        """Number of unbound channels that elements still hold, or whose last section was not sent."""
        return int(lib.vgc_control_unsettled(self._control))

    def close_channels(self, channels: Sequence[int]) -> int:
        """Closes unbound channels; returns the number that elements still hold, whose links stay unused until then."""
        return int(lib.vgc_control_close(self._control, _u16(channels), len(channels)))

    def send(self, channel: int, data: bytes, *, eof: bool) -> None:
        """Puts bytes into a channel's in link.

        :raise DriverError: the channel is not open, or lacks room: EAGAIN if there is enough once a kernel has read.
        """
        self._check(lib.vgc_control_send(self._control, channel, data, len(data), eof, self._why))

    # ---- elements --------------------------------------------------------------------------------

    def confine(self, pes: Sequence[int]) -> None:
        self._check(lib.vgc_control_confine(self._control, _u16(pes), len(pes), self._why))

    def activate(self, pes: Sequence[int], slot: int) -> None:
        self._check(lib.vgc_control_activate(self._control, _u16(pes), len(pes), slot, self._why))

    def firmware(self) -> bytes:
        """``struct vgc_control_firmware`` of elements that began or ended a change since the last call."""
        states = ffi.new("struct vgc_control_firmware[]", self.num_pes)
        count = lib.vgc_control_firmware(self._control, states, self.num_pes)
        return bytes(ffi.buffer(states))[: count * packets.FIRMWARE.size]

    def slots(self) -> bytes:
        """``struct vgc_control_slot`` of every element."""
        slots = ffi.new("struct vgc_control_slot[]", self.num_pes)
        lib.vgc_control_slots(self._control, slots)
        return bytes(ffi.buffer(slots))

    def gauges(self, pe: int) -> tuple[int, ...]:
        """Addresses of the names of an element's gauges; 0 for a free one."""
        lib.vgc_control_gauges(self._control, pe, self._names)
        return tuple(self._names)

    def bound_gauge(self, pe: int, gauge: int, low: float, high: float) -> None:
        lib.vgc_control_bound_gauge(self._control, pe, gauge, low, high)

    # ---- packets ---------------------------------------------------------------------------------

    def drain(self, now_ns: int) -> memoryview | None:
        """Packet of records, valid until the next call; None: no records. `drained` must follow."""
        used = lib.vgc_control_drain(self._control, now_ns, self._packet + 1, packets.MAX_PACKET_BYTES - 1)
        if used == 0:
            return None
        self._packet[0] = packets.Kind.RECORDS
        return self._view[: 1 + used]

    def drained(self, *, sent: bool) -> None:
        """Takes the records of the last `drain` out of the links if its packet was sent, and keeps them otherwise."""
        lib.vgc_control_drained(self._control, sent)

    def figures(self, now_ns: int) -> memoryview | None:
        """Packet of the figures that are due, valid like that of `drain`. `figured` must follow."""
        head = packets.figures_head(now_ns)
        room = packets.MAX_PACKET_BYTES - len(head)
        used = lib.vgc_control_figures(self._control, now_ns, self._packet + len(head), room)
        if used == 0:
            return None
        self._view[: len(head)] = head
        return self._view[: len(head) + used]

    def figured(self, *, sent: bool) -> None:
        lib.vgc_control_figured(self._control, sent)

    def due_ns(self) -> int | None:
        """Time at which the next sample is due; None: never."""
        due = int(lib.vgc_control_due_ns(self._control))
        return None if due == _NEVER else due

    # ---- texts -----------------------------------------------------------------------------------

    def unknown(self) -> dict[int, str | None]:
        """Texts of the last packet that are not known yet, by address; None: no program has a text there."""
        count = lib.vgc_control_unknown(self._control, self._addresses)
        return {int(address): self.text(int(address)) for address in self._addresses[0:count]}

    def know(self, addresses: Sequence[int]) -> None:
        """Marks addresses as known to the daemon."""
        for address in addresses:
            lib.vgc_control_know(self._control, address)

    def forget(self) -> None:
        """Forgets all known addresses: after programs were loaded or unloaded they may hold other texts."""
        lib.vgc_control_forget(self._control)

    def text(self, address: int) -> str | None:
        length = lib.vgc_control_text(self._control, address, self._string, packets.MAX_TEXT_BYTES)
        return None if length < 0 else bytes(ffi.string(self._string)).decode(errors="replace")

    # ---- looking, governing ----------------------------------------------------------------------

    def ask(self, *, on: bool) -> None:
        """Makes elements note their state from their next block on, or stop doing so."""
        lib.vgc_control_ask(self._control, on)

    def look(self, asked_ns: int) -> tuple[bytes, int]:
        """``struct vgc_control_state`` of every element, and the number of elements that have answered."""
        states = ffi.new("struct vgc_control_state[]", self.num_pes)
        answered = lib.vgc_control_look(self._control, asked_ns, states)
        return bytes(ffi.buffer(states)), int(answered)

    def govern(self, now_ns: int, budget_ppm: int) -> bytes:
        """``struct vgc_control_change`` of channels whose sampling the governor has changed."""
        changes = ffi.new("struct vgc_control_change[]", MAX_CHANGES)
        count = lib.vgc_control_govern(self._control, now_ns, budget_ppm, changes, MAX_CHANGES)
        return bytes(ffi.buffer(changes))[: count * packets.CHANGE.size]

    # ----------------------------------------------------------------------------------------------

    def _text(self) -> str:
        return str(ffi.string(self._why).decode(errors="replace"))

    def _check(self, result: int) -> None:
        if result < 0:
            raise DriverError(-result, self._text())


def _u16(numbers: Sequence[int]) -> Any:
    return ffi.new("uint16_t[]", list(numbers))
