"""What a daemon tells the control system in a worker: the part of `vhost_backend.worker.protocol` that is about it.

Each is a command of the patent's command scheduler: the worker's main thread passes it to the control system thread,
which executes commands in order, and acknowledges it when it has been done. What comes of channels travels on the
record socket (`vhost_backend.control.driver.packets`).

Channels have numbers and generations of the daemon's choice. A command that fails changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from vhost_backend.worker.codec import (
    Parser,
    ProtocolError,
    flag,
    integer,
    parsed,
    text,
    tuple_of,
    unsigned,
)

MAX_CHANNELS: Final = 16383
"""VGC_CTL_MAX_CHANNELS of vgc_control.h, less number 0, which is none."""
MAX_PES: Final = 4096
MAX_PER_MESSAGE: Final = 1024
"""Channels of one command; more are several commands."""
MAX_SEND_BYTES: Final = 16 << 10
MAX_SEND_CHARS: Final = (MAX_SEND_BYTES + 2) // 3 * 4
MAX_SLOTS: Final = 1 << 20
MAX_IN_BYTES: Final = 1 << 20
MAX_SAMPLE: Final = 32
MAX_NAME_CHARS: Final = 64

FIRMWARE_ACTIONS: Final = ("stage", "activate")


def _number(maximum: int, minimum: int = 0) -> Parser:
    """Of a list's items that are integers of minimum..maximum."""

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
    """The control system of a worker; part of `Setup`. An area of 0 bytes: there is none."""

    area_bytes: int = unsigned(40)
    channels: int = integer(MAX_CHANNELS)
    """That the area has room for; the highest number."""
    budget_ppm: int = integer(1_000_000)
    """Of an element's time that making records may take, in millionths; 0: whatever it takes."""


NO_CONTROL: Final = ControlSetup(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ControlOpen:
    """Makes and binds channels of one function on `pes`; `channels` and `generations` are as many.

    All of them or, when the ack says so, none. `slots` and `in_bytes` are rounded up to powers of two; `in_bytes` 0
    is no in link.
    """

    TYPE: ClassVar[str] = "control_open"
    seq: int = unsigned(32)
    function: int = integer(7)
    policy: int = integer(2)
    level: int = integer(5)
    sample: int = integer(MAX_SAMPLE)
    slots: int = integer(MAX_SLOTS)
    in_bytes: int = integer(MAX_IN_BYTES)
    wait_ns: int = unsigned(62)
    period_ms: int = integer(3_600_000)
    """perf, load: how often counters are reported; 0: once."""
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PER_MESSAGE)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)
    generations: tuple[int, ...] = tuple_of(_GENERATION, MAX_PER_MESSAGE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlClose:
    """Unbinds channels, sends what was left in their links, and frees them. The ack comes after the last batch."""

    TYPE: ClassVar[str] = "control_close"
    seq: int = unsigned(32)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Level and sampling of channels, from the next record on. The governor may sample more coarsely, never finer."""

    TYPE: ClassVar[str] = "control_set"
    seq: int = unsigned(32)
    channels: tuple[int, ...] = tuple_of(_CHANNEL, MAX_PER_MESSAGE)
    level: int = integer(5)
    sample: int = integer(MAX_SAMPLE)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlSend:
    """Bytes for a channel's in link, base64, at most `MAX_SEND_BYTES`; all of them or, without room, none."""

    TYPE: ClassVar[str] = "control_send"
    seq: int = unsigned(32)
    channel: int = integer(MAX_CHANNELS, minimum=1)
    data: str = text(MAX_SEND_CHARS)
    eof: bool = flag()

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlThreshold:
    """Bounds of a gauge that a kernel on `pes` sets: a record is made when its value leaves them and comes back."""

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
    """Looks at all elements now; the ack comes when the snapshot's packets, which bear `number`, have been sent."""

    TYPE: ClassVar[str] = "control_snapshot"
    seq: int = unsigned(32)
    number: int = unsigned(32)
    deadline_ms: int = integer(10_000)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlConfine:
    """Lets only `pes` take further blocks; none named: all may."""

    TYPE: ClassVar[str] = "control_confine"
    seq: int = unsigned(32)
    pes: tuple[int, ...] = tuple_of(_PE, MAX_PES)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ControlFirmware:
    """stage: loads an image into a slot. activate: elements change to a slot at their next poll point.

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
