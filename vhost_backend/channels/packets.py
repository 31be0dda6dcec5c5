"""Packets of the record socket, made by a worker's control system and checked by its daemon.

A packet is one message of a ``SOCK_SEQPACKET`` socket, at most `MAX_PACKET_BYTES`, its first byte a `Kind`. Guest code
may have written all of it: `parse` checks that a packet is whole and within bounds, its length first; nothing in it is
trusted. The structures are those of ``vhost_backend/channels/cdef.h``; a test compares them with this module. Texts and
events, which have no structure there, are MessagePack.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from msgspec import Meta, Struct

from vhost_backend.worker_protocol.codec import U64, Part, ProtocolError, Real, pack, unpack

MAX_PACKET_BYTES: Final = 48 << 10
MAX_TEXT_BYTES: Final = 4096
"""Longest text at a device address."""
MAX_TEXTS: Final = 256
MAX_EVENT_FIELDS: Final = 16
MAX_EVENT_TEXT: Final = 256
MAX_EVENT_NAME: Final = 64
MAX_PES: Final = 4096
MAX_COUNTERS: Final = 24
MAX_GAUGES: Final = 8
"""Most counters and gauges of an element: ``VGC_CTL_COUNTERS`` and ``VGC_CTL_GAUGES``."""
STATES_PER_PACKET: Final = 512

SECTION: Final = struct.Struct("<HHIQQQQIIQ")
FIGURES: Final = struct.Struct("<HBBI6Q")
STATE: Final = struct.Struct("<HBBI6Q")
CHANGE: Final = struct.Struct("<HHI")
FIRMWARE: Final = struct.Struct("<HBBIQQ")
DEVICE: Final = struct.Struct("<QQII")
SLOT: Final = struct.Struct("<BBH")
_NAMED_COUNT: Final = struct.Struct("<Qq")
_NAMED_GAUGE: Final = struct.Struct("<Qd")
_TIME: Final = struct.Struct("<Q")
_SNAPSHOT: Final = struct.Struct("<IIQQ")
_VERSIONS: Final = struct.Struct("<QQ")
_UNKNOWN: Final = (1 << 64) - 1
_TEXT_OVERHEAD: Final = 16
"""Most bytes of a text's address and length in MessagePack, and of the head of a packet."""


_P = TypeVar("_P", bound=Part)


class Kind(IntEnum):
    """First byte of a packet."""

    RECORDS = ord("R")
    TEXTS = ord("D")
    FIGURES = ord("P")
    SNAPSHOT = ord("S")
    GOVERNOR = ord("G")
    FIRMWARE = ord("F")
    EVENT = ord("E")
    DEVICE = ord("C")
    SLOTS = ord("L")


_MAX_BYTES: Final[Mapping[int, int]] = {
    Kind.SNAPSHOT: 1 + _SNAPSHOT.size + STATES_PER_PACKET * STATE.size,
    Kind.EVENT: 24 << 10,  # as many fields as allowed, of four bytes per character
    Kind.DEVICE: 1 + DEVICE.size,
    Kind.SLOTS: 1 + _VERSIONS.size + MAX_PES * SLOT.size,
}
"""Longest packets, by kind, where that is less than `MAX_PACKET_BYTES`."""


class PacketError(ValueError):
    """A worker sent an invalid packet."""


class Section(Struct, frozen=True):
    """Records of a channel, and its counts. `taken` + `lost` are all records that were made, except those still in the
    link: exact in a channel's last section, which comes when it has been closed.
    """

    channel: int
    generation: int
    taken: int
    lost: int
    skipped: int
    cost_ns: int
    forged: int
    made_ns: int
    """Time at which the section was made, CLOCK_MONOTONIC."""
    records: bytes
    """Batch of `virtio_proto.control.records`."""


class Records(Struct, frozen=True):
    """Sections of several channels."""

    sections: tuple[Section, ...]


class Texts(Struct, frozen=True):
    """Formats and names by device address, valid from now on."""

    texts: Mapping[int, str]


class ElementCounts(Struct, frozen=True):
    """Counts of an element. Counters and gauges are keyed by the device address of their name."""

    pe: int
    blocks: int
    warps: int
    launches: int
    busy_ns: int
    stall_ns: int
    faults: int
    counters: Mapping[int, int]
    gauges: Mapping[int, float]


class Figures(Struct, frozen=True):
    """Counts of some elements at `time_ns`, CLOCK_MONOTONIC."""

    time_ns: int
    elements: tuple[ElementCounts, ...]


class StateSeen(Struct, frozen=True):
    """State of an element. Times are of the device's clock, except `at_ns`, which is CLOCK_MONOTONIC."""

    pe: int
    answered: bool
    warps: int
    kernel: int
    """Key of the kernel: address of its name, if the engine has names; 0: the element is idle."""
    launch: int
    block: int
    since_ns: int
    last_record_ns: int
    at_ns: int


class Snapshot(Struct, frozen=True):
    """Part of snapshot `number`, which has `num_pes` elements in all."""

    number: int
    num_pes: int
    began_ns: int
    ended_ns: int
    states: tuple[StateSeen, ...]


class Samples(Struct, frozen=True):
    """Channels whose sampling the governor has changed: (channel, generation, sample in force)."""

    changes: tuple[tuple[int, int, int], ...]


class FirmwareStates(Struct, frozen=True):
    """Results of changes of elements' firmware: (pe, slot, version that runs now, state, code)."""

    states: tuple[tuple[int, int, int, int, int], ...]


class FirmwareSlots(Struct, frozen=True):
    """Firmware of a worker that was taken over."""

    versions: tuple[int, int]
    """Versions in the slots; 0: the slot is empty."""
    elements: tuple[tuple[int, int, int], ...]
    """Slot that each element runs, state and code of its last change; state 0: it never changed, or is changing."""


class Event(Struct, frozen=True):
    """Event for the log; `fields` are strings and numbers."""

    event: str
    fields: Mapping[str, str | int | float]


class DeviceState(Struct, frozen=True):
    """State of a device."""

    clock_error_ns: int | None
    """Largest error of elements' times when the device's clock was read; None: unknown."""
    clock_read_ns: int
    """CLOCK_MONOTONIC when the device's clock was read; 0: both are the same clock."""
    num_pes: int
    """Bound of the elements' numbers; 0: as the worker said when it was ready."""


class _TextsBody(Part, frozen=True):
    """Content of a packet of texts."""

    texts: Annotated[
        dict[U64, Annotated[str, Meta(max_length=MAX_TEXT_BYTES)]],
        Meta(max_length=MAX_TEXTS),
    ]


class _EventBody(Part, frozen=True):
    """Content of a packet of an event."""

    event: Annotated[str, Meta(max_length=MAX_EVENT_NAME)]
    fields: Annotated[
        dict[
            Annotated[str, Meta(max_length=MAX_EVENT_NAME)],
            Annotated[str, Meta(max_length=MAX_EVENT_TEXT)] | int | Real | bool,
        ],
        Meta(max_length=MAX_EVENT_FIELDS),
    ]


Packet: TypeAlias = (
    Records | Texts | Figures | Snapshot | Samples | FirmwareStates | FirmwareSlots | Event | DeviceState
)


# --------------------------------------------------------------------------------------------------
# Making
# --------------------------------------------------------------------------------------------------


def texts(found: Mapping[int, str]) -> Iterator[bytes]:
    """Packets with all texts of `found`."""
    batch: dict[int, str] = {}
    size = 0
    for address, text in found.items():
        sendable = text.encode(errors="replace").decode()
        more = len(sendable.encode()) + _TEXT_OVERHEAD
        if batch and (size + more > MAX_PACKET_BYTES - _TEXT_OVERHEAD or len(batch) == MAX_TEXTS):
            yield _packed(Kind.TEXTS, _TextsBody(batch))
            batch, size = {}, 0
        batch[address] = sendable
        size += more
    if batch:
        yield _packed(Kind.TEXTS, _TextsBody(batch))


def snapshot(number: int, began_ns: int, ended_ns: int, states: bytes) -> Iterator[bytes]:
    """Packets of a snapshot; `states` are consecutive ``struct vgc_control_state``."""
    num_pes = len(states) // STATE.size
    head = bytes([Kind.SNAPSHOT]) + _SNAPSHOT.pack(number, num_pes, began_ns, ended_ns)
    step = STATES_PER_PACKET * STATE.size
    for start in range(0, len(states), step):
        yield head + states[start : start + step]


def event(name: str, fields: Mapping[str, str | int | float]) -> bytes:
    """Packet of an `Event`."""
    return _packed(Kind.EVENT, _EventBody(name, dict(fields)))


def device_state(state: bytes) -> bytes:
    """Packet of a ``struct vgc_control_device``."""
    return bytes([Kind.DEVICE]) + state


def firmware_slots(versions: tuple[int, int], slots: bytes) -> bytes:
    """Packet of the firmware of all elements; `slots` are consecutive ``struct vgc_control_slot``."""
    return bytes([Kind.SLOTS]) + _VERSIONS.pack(*versions) + slots


def figures_head(time_ns: int) -> bytes:
    """Bytes in front of those that vgc_control_figures() writes."""
    return bytes([Kind.FIGURES]) + _TIME.pack(time_ns)


def _packed(kind: Kind, body: Part) -> bytes:
    return bytes([kind]) + pack(body)


# --------------------------------------------------------------------------------------------------
# Checking
# --------------------------------------------------------------------------------------------------


def parse(packet: bytes) -> Packet:
    """Parses a packet.

    :raise PacketError: the packet is invalid; the text says why. No input raises anything else.
    """
    most = _MAX_BYTES.get(packet[0], MAX_PACKET_BYTES) if packet else 0
    if not 0 < len(packet) <= most:
        raise PacketError(f"a packet of {len(packet)} bytes; allowed: 1..{most or MAX_PACKET_BYTES}")
    parse_body = _PARSERS.get(packet[0])
    if parse_body is None:
        raise PacketError(f"a packet of kind {packet[0]}; allowed: {', '.join(chr(kind) for kind in Kind)}")
    return parse_body(packet[1:])


def sections(body: bytes) -> Iterator[Section]:
    """Parses the output of vgc_control_drain() or vgc_salvage_drain().

    :raise PacketError: `body` ends in the middle of a section.
    """
    at = 0
    while at < len(body):
        if len(body) - at < SECTION.size:
            raise PacketError(f"{len(body) - at} bytes at the end of records; a section has at least {SECTION.size}")
        numbers = SECTION.unpack_from(body, at)
        channel, _, generation, taken, lost, skipped, cost_ns, forged, length, made_ns = numbers
        at += SECTION.size
        if length > len(body) - at:
            raise PacketError(f"a section of {length} bytes, of which {len(body) - at} are there")
        records = body[at : at + length]
        yield Section(channel, generation, taken, lost, skipped, cost_ns, forged, made_ns, records)
        at += length


def _pe(number: int) -> int:
    if number >= MAX_PES:
        raise PacketError(f"processing element {number}; allowed: below {MAX_PES}")
    return number


def _entries(layout: struct.Struct, body: bytes) -> Iterable[tuple[Any, ...]]:
    if len(body) % layout.size:
        raise PacketError(f"{len(body)} bytes; allowed: a multiple of {layout.size}")
    return layout.iter_unpack(body)


def _parse_governor(body: bytes) -> Samples:
    return Samples(tuple((channel, generation, sample) for channel, sample, generation in _entries(CHANGE, body)))


def _parse_firmware(body: bytes) -> FirmwareStates:
    states = _entries(FIRMWARE, body)
    return FirmwareStates(tuple((_pe(pe), slot, version, state, code) for pe, slot, state, _, version, code in states))


def _parse_texts(body: bytes) -> Texts:
    return Texts(_unpacked(body, _TextsBody, "texts").texts)


def _parse_event(body: bytes) -> Event:
    found = _unpacked(body, _EventBody, "event")
    if not found.event.isidentifier():
        raise PacketError(f"event {found.event!r:.80}; allowed: a name")
    return Event(found.event, found.fields)


def _unpacked(body: bytes, kind: type[_P], what: str) -> _P:
    try:
        return unpack(body, kind, what)
    except ProtocolError as error:
        raise PacketError(str(error)) from None


def _parse_device(body: bytes) -> DeviceState:
    if len(body) != DEVICE.size:
        raise PacketError(f"a device's state of {len(body)} bytes; allowed: {DEVICE.size}")
    error_ns, read_ns, num_pes, _ = DEVICE.unpack(body)
    return DeviceState(None if error_ns == _UNKNOWN else error_ns, read_ns, num_pes)


def _parse_slots(body: bytes) -> FirmwareSlots:
    if len(body) < _VERSIONS.size:
        raise PacketError(f"firmware of {len(body)} bytes; allowed: at least {_VERSIONS.size}")
    slot_a, slot_b = _VERSIONS.unpack_from(body)
    elements = tuple((slot, state, code) for slot, state, code in _entries(SLOT, body[_VERSIONS.size :]))
    return FirmwareSlots((slot_a, slot_b), elements)


def _parse_figures(body: bytes) -> Figures:
    if len(body) < _TIME.size:
        raise PacketError(f"figures of {len(body)} bytes; allowed: at least {_TIME.size}")
    elements: list[ElementCounts] = []
    at = _TIME.size
    while at < len(body):
        if len(body) - at < FIGURES.size:
            raise PacketError(f"{len(body) - at} bytes at the end of figures; an element has at least {FIGURES.size}")
        pe, num_counters, num_gauges, _, *six = FIGURES.unpack_from(body, at)
        at += FIGURES.size
        if num_counters > MAX_COUNTERS or num_gauges > MAX_GAUGES:
            raise PacketError(
                f"{num_counters} counters and {num_gauges} gauges; allowed: {MAX_COUNTERS} and {MAX_GAUGES}"
            )
        middle = at + num_counters * _NAMED_COUNT.size
        end = middle + num_gauges * _NAMED_GAUGE.size
        if end > len(body):
            raise PacketError(f"figures of element {pe} end in the middle")
        counters = dict(_NAMED_COUNT.iter_unpack(body[at:middle]))
        gauges = dict(_NAMED_GAUGE.iter_unpack(body[middle:end]))
        elements.append(ElementCounts(*(_pe(pe), *six, counters, gauges)))
        at = end
    return Figures(_TIME.unpack_from(body)[0], tuple(elements))


def _parse_snapshot(body: bytes) -> Snapshot:
    if len(body) < _SNAPSHOT.size:
        raise PacketError(f"a snapshot of {len(body)} bytes; allowed: at least {_SNAPSHOT.size}")
    number, num_pes, began_ns, ended_ns = _SNAPSHOT.unpack_from(body)
    if num_pes > MAX_PES:
        raise PacketError(f"a snapshot of {num_pes} elements; allowed: {MAX_PES}")
    states = tuple(
        StateSeen(_pe(pe), bool(answered), warps, *rest)
        for pe, answered, _, warps, *rest in _entries(STATE, body[_SNAPSHOT.size :])
    )
    return Snapshot(number, num_pes, began_ns, ended_ns, states)


_PARSERS: Final[Mapping[int, Callable[[bytes], Packet]]] = {
    Kind.RECORDS: lambda body: Records(tuple(sections(body))),
    Kind.TEXTS: _parse_texts,
    Kind.FIGURES: _parse_figures,
    Kind.SNAPSHOT: _parse_snapshot,
    Kind.GOVERNOR: _parse_governor,
    Kind.FIRMWARE: _parse_firmware,
    Kind.EVENT: _parse_event,
    Kind.DEVICE: _parse_device,
    Kind.SLOTS: _parse_slots,
}
