"""Commands of a daemon to the control system in a worker; part of `vhost_backend.worker_protocol.protocol`.

The worker's main thread passes each command to the control system's thread, which executes commands in order and
acknowledges each when it has been executed. Records of channels travel on the record socket
(`vhost_backend.channels.packets`).

The daemon chooses the numbers and generations of channels. A command that fails changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from vhost_backend.worker_protocol.codec import (
    Parser,
    ProtocolError,
    flag,
    integer,
    parsed,
    part,
    text,
    tuple_of,
    unsigned,
)

MAX_CHANNELS: Final = 16383
"""VGC_CTL_MAX_CHANNELS of vgc_control.h, less number 0, which means "no channel"."""
MAX_PES: Final = 4096
MAX_PER_MESSAGE: Final = 1024
"""Most channels of one command; more need several commands."""
MAX_SEND_BYTES: Final = 16 << 10
MAX_SEND_CHARS: Final = (MAX_SEND_BYTES + 2) // 3 * 4
MAX_SLOTS: Final = 1 << 20
MAX_IN_BYTES: Final = 1 << 20
MAX_SAMPLE: Final = 32
MAX_NAME_CHARS: Final = 64

FIRMWARE_ACTIONS: Final = ("stage", "activate")


def _number(maximum: int, minimum: int = 0) -> Parser:
    """Parser of list items that are integers of minimum..maximum."""

    def parse(path: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: an integer of {minimum}..{maximum}")
        return value

    return parse


_CHANNEL: Final = _number(MAX_CHANNELS, minimum=1)
_PE: Final = _number(MAX_PES - 1)
_GENERATION: Final = _number((1 << 32) - 1)


def _parse_real(path: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: a finite number")
    return float(value)


@dataclass(frozen=True, slots=True)
class ControlSetup:
    """Control system of a worker; part of `Setup`. An area of 0 bytes: the worker has no control system."""

    area_bytes: int = unsigned(40)
    channels: int = integer(MAX_CHANNELS)
    """Number of channels that the area has room for; also the highest channel number."""
    budget_ppm: int = integer(1_000_000)
    """Share of an element's time that making records may take, in millionths; 0: no limit."""


NO_CONTROL: Final = ControlSetup(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms on which a channel works: ``struct vgc_control_terms`` of vhost_backend/channels/cdef.h."""

    function: int = integer(7)
    """``enum vgc_ctl_function``"""
    policy: int = integer(2, default=0)
    """``enum vgc_ctl_policy``"""
    level: int = integer(5, default=4)
    sample: int = integer(MAX_SAMPLE, default=0)
    """One record of 2**sample is kept."""
    slots: int = integer(MAX_SLOTS, default=256)
    """Ring size in slots of 64 bytes, rounded up to a power of two."""
    in_bytes: int = integer(MAX_IN_BYTES, default=0)
    """Room for standard input, rounded up to a power of two; 0: no in link."""
    wait_ns: int = unsigned(62, default=0)
    period_ns: int = integer(3600 * 10**9, default=0)
    """Reporting period of counters (functions perf and load); 0: reported once."""


@dataclass(frozen=True, slots=True)
class ControlOpen:
    """Makes and binds channels of one function on `terms`, one on each of `pes`, with these numbers and generations.

    If the ack is an error, no channel was made.
    """

    TYPE: ClassVar[str] = "control_open"
    seq: int = unsigned(32)
    terms: Terms = part(Terms)  # noqa: RUF009  a field
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PER_MESSAGE)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)
    generations: tuple[int, ...] = tuple_of(_GENERATION, MAX_PER_MESSAGE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlClose:
    """Unbinds channels, sends the records left in their links, and frees them. The ack comes after the last batch."""

    TYPE: ClassVar[str] = "control_close"
    seq: int = unsigned(32)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Sets level and sampling of channels from the next record on. The governor may only sample more coarsely."""

    TYPE: ClassVar[str] = "control_set"
    seq: int = unsigned(32)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)
    level: int = integer(5)
    sample: int = integer(MAX_SAMPLE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlSend:
    """Writes bytes (base64, at most `MAX_SEND_BYTES`) to a channel's in link; refused if they do not all fit."""

    TYPE: ClassVar[str] = "control_send"
    seq: int = unsigned(32)
    channel: int = integer(MAX_CHANNELS, minimum=1)
    data: str = text(MAX_SEND_CHARS)
    eof: bool = flag()

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlThreshold:
    """Bounds a gauge that kernels on `pes` set: a record is made when its value leaves the bounds and comes back."""

    TYPE: ClassVar[str] = "control_threshold"
    seq: int = unsigned(32)
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PES)
    name: str = text(MAX_NAME_CHARS)
    low: float = parsed(_parse_real)
    high: float = parsed(_parse_real)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlSnapshot:
    """Takes a snapshot of all elements; the ack comes when its packets, which bear `number`, have been sent."""

    TYPE: ClassVar[str] = "control_snapshot"
    seq: int = unsigned(32)
    number: int = unsigned(32)
    deadline_ms: int = integer(10_000)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlConfine:
    """Lets only `pes` take further blocks; an empty list: all may."""

    TYPE: ClassVar[str] = "control_confine"
    seq: int = unsigned(32)
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PES)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlFirmware:
    """Loads firmware. stage: loads an image into a slot. activate: elements change to a slot at their next poll point.

    One fd with "stage": a sealed memfd with the compiled image, whose signature the daemon has checked.
    """

    TYPE: ClassVar[str] = "control_firmware"
    seq: int = unsigned(32)
    action: str = text(16, FIRMWARE_ACTIONS)
    slot: int = integer(1)
    version: int = unsigned(64)
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PES)

    def num_fds(self) -> int:
        return int(self.action == "stage")


ControlMessage: TypeAlias = (
    ControlOpen
    | ControlClose
    | ControlSet
    | ControlSend
    | ControlThreshold
    | ControlSnapshot
    | ControlConfine
    | ControlFirmware
)
CONTROL_MESSAGES: Final[tuple[type[ControlMessage], ...]] = (
    ControlOpen,
    ControlClose,
    ControlSet,
    ControlSend,
    ControlThreshold,
    ControlSnapshot,
    ControlConfine,
    ControlFirmware,
)
