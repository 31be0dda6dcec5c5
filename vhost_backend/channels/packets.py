"""Packets of the record socket, made by a worker's control system and checked by its daemon.

A packet is one message of a ``SOCK_SEQPACKET`` socket, at most `MAX_PACKET_BYTES`, its first byte a `Kind`. Guest code
may have written all of it: `parse` checks that a packet is whole and within bounds; nothing in it is trusted. The
structures are those of ``vhost_backend/channels/cdef.h``; a test compares them with this module.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

MAX_PACKET_BYTES: Final = 48 << 10
MAX_TEXT_BYTES: Final = 4096
"""Longest text at a device address."""
MAX_TEXTS: Final = 256
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
_NAMED: Final = struct.Struct("<QQ")
_TIME: Final = struct.Struct("<Q")
_SNAPSHOT: Final = struct.Struct("<IIQQ")
_I64: Final = struct.Struct("<q")
_F64: Final = struct.Struct("<d")
_UNKNOWN: Final = (1 << 64) - 1


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


class PacketError(ValueError):
    """A worker sent an invalid packet."""


@dataclass(frozen=True, slots=True)
class Section:
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


@dataclass(frozen=True, slots=True)
class Records:
    """Sections of several channels."""

    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """Formats and names by device address, valid from now on."""

    texts: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ElementCounts:
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


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of some elements at `time_ns`, CLOCK_MONOTONIC."""

    time_ns: int
    elements: tuple[ElementCounts, ...]


@dataclass(frozen=True, slots=True)
class StateSeen:
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Part of snapshot `number`, which has `num_pes` elements in all."""

    number: int
    num_pes: int
    began_ns: int
    ended_ns: int
    states: tuple[StateSeen, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Channels whose sampling the governor has changed: (channel, generation, sample in force)."""

    changes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class FirmwareStates:
    """Results of changes of elements' firmware: (pe, slot, version that runs now, state, code)."""

    states: tuple[tuple[int, int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Event for the log; `fields` are strings and numbers."""

    event: str
    fields: Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """State of a device."""

    clock_error_ns: int | None
    """Largest error of elements' times when the device's clock was read; None: unknown."""
    clock_read_ns: int
    """CLOCK_MONOTONIC when the device's clock was read; 0: both are the same clock."""
    num_pes: int
    """Bound of the elements' numbers; 0: as the worker said when it was ready."""


Packet: TypeAlias = Records | Texts | Figures | Snapshot | Samples | FirmwareStates | Event | DeviceState


# --------------------------------------------------------------------------------------------------
# Making
# --------------------------------------------------------------------------------------------------


def texts(found: Mapping[int, str]) -> Iterator[bytes]:
    """Packets with all texts of `found`."""
    batch: dict[str, str] = {}
    size = 0
    for address, text in found.items():
        more = len(json.dumps(text)) + 32
        if batch and size + more > MAX_PACKET_BYTES - 64:
            yield _json(Kind.TEXTS, batch)
            batch, size = {}, 0
        batch[f"{address:x}"] = text
        size += more
    if batch:
        yield _json(Kind.TEXTS, batch)


def snapshot(number: int, began_ns: int, ended_ns: int, states: bytes) -> Iterator[bytes]:
    """Packets of a snapshot; `states` are consecutive ``struct vgc_control_state``."""
    num_pes = len(states) // STATE.size
    head = bytes([Kind.SNAPSHOT]) + _SNAPSHOT.pack(number, num_pes, began_ns, ended_ns)
    step = STATES_PER_PACKET * STATE.size
    for start in range(0, len(states), step):
        yield head + states[start : start + step]


def event(name: str, fields: Mapping[str, str | int | float]) -> bytes:
    """Packet of an `Event`."""
    return _json(Kind.EVENT, {"event": name, **fields})


def device_state(state: bytes) -> bytes:
    """Packet of a ``struct vgc_control_device``."""
    return bytes([Kind.DEVICE]) + state


def figures_head(time_ns: int) -> bytes:
    """Bytes in front of those that vgc_control_figures() writes."""
    return bytes([Kind.FIGURES]) + _TIME.pack(time_ns)


def _json(kind: Kind, value: Mapping[str, object]) -> bytes:
    return bytes([kind]) + json.dumps(value, separators=(",", ":")).encode()


# --------------------------------------------------------------------------------------------------
# Checking
# --------------------------------------------------------------------------------------------------


def parse(packet: bytes) -> Packet:
    """Parses a packet.

    :raise PacketError: the packet is invalid; the text says why. No input raises anything else.
    """
    if not packet or len(packet) > MAX_PACKET_BYTES:
        raise PacketError(f"a packet of {len(packet)} bytes; allowed: 1..{MAX_PACKET_BYTES}")
    body = packet[1:]
    match packet[0]:
        case Kind.RECORDS:
            return Records(tuple(sections(body)))
        case Kind.TEXTS:
            return _parse_texts(body)
        case Kind.FIGURES:
            return _parse_figures(body)
        case Kind.SNAPSHOT:
            return _parse_snapshot(body)
        case Kind.GOVERNOR:
            changes = _entries(CHANGE, body)
            return Samples(tuple((channel, generation, sample) for channel, sample, generation in changes))
        case Kind.FIRMWARE:
            states = _entries(FIRMWARE, body)
            return FirmwareStates(
                tuple((_pe(pe), slot, version, state, code) for pe, slot, state, _, version, code in states)
            )
        case Kind.EVENT:
            return _parse_event(body)
        case Kind.DEVICE:
            return _parse_device(body)
    raise PacketError(f"a packet of kind {packet[0]}; allowed: {', '.join(chr(kind) for kind in Kind)}")


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


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise PacketError(f"{len(body)} bytes that are not JSON: {error!s:.80}") from None
    if not isinstance(value, dict):
        raise PacketError(f"{value!r:.80}; allowed: an object")
    return value


def _parse_texts(body: bytes) -> Texts:
    found: dict[int, str] = {}
    for key, text in _object(body).items():
        if not isinstance(text, str) or len(text) > MAX_TEXT_BYTES or len(found) >= MAX_TEXTS:
            raise PacketError(f"text {text!r:.80}; allowed: {MAX_TEXTS} of at most {MAX_TEXT_BYTES} characters")
        found[_address(key)] = text.encode(errors="replace").decode()
    return Texts(found)


def _address(key: str) -> int:
    digits = key if len(key) <= 16 and key.isascii() and key.isalnum() else "no address"
    try:
        return int(digits, 16)
    except ValueError:
        raise PacketError(f"{key!r:.40}; allowed: an address of up to 16 hexadecimal digits") from None


def _parse_event(body: bytes) -> Event:
    fields = _object(body)
    name = fields.pop("event", None)
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 64 or len(fields) > 16:
        raise PacketError(f"event {name!r:.80}; allowed: a name of at most 64 characters and 16 fields")
    for key, value in fields.items():
        if not isinstance(value, str | int | float) or len(str(value)) > 256 or len(key) > 64:
            raise PacketError(f"event {name}: {key!r:.64} is {value!r:.80}; allowed: a short string or a number")
    return Event(name, fields)


def _parse_device(body: bytes) -> DeviceState:
    if len(body) != DEVICE.size:
        raise PacketError(f"a device's state of {len(body)} bytes; allowed: {DEVICE.size}")
    error_ns, read_ns, num_pes, _ = DEVICE.unpack(body)
    return DeviceState(None if error_ns == _UNKNOWN else error_ns, read_ns, num_pes)


def _parse_figures(body: bytes) -> Figures:
    if len(body) < _TIME.size:
        raise PacketError(f"figures of {len(body)} bytes; allowed: at least {_TIME.size}")
    elements: list[ElementCounts] = []
    at = _TIME.size
    while at < len(body):
        if len(body) - at < FIGURES.size:
            raise PacketError(f"{len(body) - at} bytes at the end of figures; an element has at least {FIGURES.size}")
        pe, num_counters, num_gauges, _, *counts = FIGURES.unpack_from(body, at)
        at += FIGURES.size
        if num_counters > MAX_COUNTERS or num_gauges > MAX_GAUGES:
            raise PacketError(
                f"{num_counters} counters and {num_gauges} gauges; allowed: {MAX_COUNTERS} and {MAX_GAUGES}"
            )
        end = at + (num_counters + num_gauges) * _NAMED.size
        if end > len(body):
            raise PacketError(f"figures of element {pe} end in the middle")
        named = list(_NAMED.iter_unpack(body[at:end]))
        elements.append(_element(_pe(pe), counts, named[:num_counters], named[num_counters:]))
        at = end
    return Figures(_TIME.unpack_from(body)[0], tuple(elements))


def _element(
    pe: int, counts: list[int], counters: list[tuple[int, int]], gauges: list[tuple[int, int]]
) -> ElementCounts:
    blocks, warps, launches, busy_ns, stall_ns, faults = counts
    return ElementCounts(
        *(pe, blocks, warps, launches, busy_ns, stall_ns, faults),
        counters={name: _I64.unpack(value.to_bytes(8, "little"))[0] for name, value in counters},
        gauges={name: _F64.unpack(value.to_bytes(8, "little"))[0] for name, value in gauges},
    )


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
