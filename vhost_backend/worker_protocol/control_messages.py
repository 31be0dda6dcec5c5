"""Commands of a daemon to the control system in a worker; part of `vhost_backend.worker_protocol.protocol`.

The worker's main thread passes each command to the control system's thread, which executes commands in order and
acknowledges each when it has been executed. Records of channels travel on the record socket
(`vhost_backend.channels.packets`).

The daemon chooses the numbers and generations of channels. A command that fails changes nothing.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta

from vhost_backend.worker_protocol.codec import U32, U62, U64, Message, Part, Real

MAX_CHANNELS: Final = 16383
"""VGC_CTL_MAX_CHANNELS of vgc_control.h, less number 0, which means "no channel"."""
MAX_PES: Final = 4096
MAX_PER_MESSAGE: Final = 1024
"""Most channels of one command; more need several commands."""
MAX_SEND_BYTES: Final = 16 << 10
MAX_SLOTS: Final = 1 << 20
MAX_IN_BYTES: Final = 1 << 20
MAX_SAMPLE: Final = 32
MAX_NAME_CHARS: Final = 64

FirmwareAction: TypeAlias = Literal["stage", "activate"]

Channels: TypeAlias = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_CHANNELS)], ...], Meta(max_length=MAX_PER_MESSAGE)
]
Pe: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_PES - 1)]
Pes: TypeAlias = Annotated[tuple[Pe, ...], Meta(max_length=MAX_PES)]


class ControlSetup(Part, frozen=True):
    """Control system of a worker; part of `Setup`. An area of 0 bytes: the worker has no control system."""

    area_bytes: Annotated[int, Meta(ge=0, le=(1 << 40) - 1)]
    channels: Annotated[int, Meta(ge=0, le=MAX_CHANNELS)]
    """Number of channels that the area has room for; also the highest channel number."""
    budget_ppm: Annotated[int, Meta(ge=0, le=1_000_000)]
    """Share of an element's time that making records may take, in millionths; 0: no limit."""


NO_CONTROL: Final = ControlSetup(0, 0, 0)


class Terms(Part, frozen=True):
    """Terms on which a channel works: ``struct vgc_control_terms`` of vhost_backend/channels/cdef.h."""

    function: Annotated[int, Meta(ge=0, le=7)]
    """``enum vgc_ctl_function``"""
    policy: Annotated[int, Meta(ge=0, le=2)] = 0
    """``enum vgc_ctl_policy``"""
    level: Annotated[int, Meta(ge=0, le=5)] = 4
    sample: Annotated[int, Meta(ge=0, le=MAX_SAMPLE)] = 0
    """One record of 2**sample is kept."""
    slots: Annotated[int, Meta(ge=0, le=MAX_SLOTS)] = 256
    """Ring size in slots of 64 bytes, rounded up to a power of two."""
    in_bytes: Annotated[int, Meta(ge=0, le=MAX_IN_BYTES)] = 0
    """Room for standard input, rounded up to a power of two; 0: no in link."""
    wait_ns: U62 = 0
    period_ns: Annotated[int, Meta(ge=0, le=3600 * 10**9)] = 0
    """Reporting period of counters (functions perf and load); 0: reported once."""


class ControlOpen(Message, frozen=True):
    """Makes and binds channels of one function on `terms`, one on each of `pes`, with these numbers and generations.

    If the ack is an error, no channel was made.
    """

    TYPE: ClassVar[str] = "control_open"
    seq: U32
    terms: Terms
    pes: Annotated[tuple[Pe, ...], Meta(max_length=MAX_PER_MESSAGE)]
    channels: Channels
    generations: Annotated[tuple[U32, ...], Meta(max_length=MAX_PER_MESSAGE)]


class ControlClose(Message, frozen=True):
    """Unbinds channels, sends the records left in their links, and frees them. The ack comes after the last batch."""

    TYPE: ClassVar[str] = "control_close"
    seq: U32
    channels: Channels


class ControlSet(Message, frozen=True):
    """Sets level and sampling of channels from the next record on. The governor may only sample more coarsely."""

    TYPE: ClassVar[str] = "control_set"
    seq: U32
    channels: Channels
    level: Annotated[int, Meta(ge=0, le=5)]
    sample: Annotated[int, Meta(ge=0, le=MAX_SAMPLE)]


class ControlSend(Message, frozen=True):
    """Writes at most `MAX_SEND_BYTES` to a channel's in link; refused if they do not all fit."""

    TYPE: ClassVar[str] = "control_send"
    seq: U32
    channel: Annotated[int, Meta(ge=1, le=MAX_CHANNELS)]
    data: Annotated[bytes, Meta(max_length=MAX_SEND_BYTES)]
    eof: bool


class ControlThreshold(Message, frozen=True):
    """Bounds a gauge that kernels on `pes` set: a record is made when its value leaves the bounds and comes back."""

    TYPE: ClassVar[str] = "control_threshold"
    seq: U32
    pes: Pes
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
    low: Real
    high: Real


class ControlSnapshot(Message, frozen=True):
    """Takes a snapshot of all elements; the ack comes when its packets, which bear `number`, have been sent."""

    TYPE: ClassVar[str] = "control_snapshot"
    seq: U32
    number: U32
    deadline_ms: Annotated[int, Meta(ge=0, le=10_000)]


class ControlConfine(Message, frozen=True):
    """Lets only `pes` take further blocks; an empty list: all may."""

    TYPE: ClassVar[str] = "control_confine"
    seq: U32
    pes: Pes


class ControlFirmware(Message, frozen=True):
    """Loads firmware. stage: loads an image into a slot. activate: elements change to a slot at their next poll point.

    One fd with "stage": a sealed memfd with the compiled image, whose signature the daemon has checked.
    """

    TYPE: ClassVar[str] = "control_firmware"
    seq: U32
    action: FirmwareAction
    slot: Annotated[int, Meta(ge=0, le=1)]
    version: U64
    pes: Pes

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
