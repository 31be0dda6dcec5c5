"""Packets of the record socket: valid ones arrive whole, all others are refused."""

from __future__ import annotations

import contextlib
from struct import Struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels import packets
from vhost_backend.channels.packets import Event, Kind, PacketError, Snapshot, StateSeen, Texts, parse


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (packets.SECTION, "struct vgc_control_section"),
        (packets.FIGURES, "struct vgc_control_figures"),
        (packets.STATE, "struct vgc_control_state"),
        (packets.CHANGE, "struct vgc_control_change"),
        (packets.FIRMWARE, "struct vgc_control_firmware"),
        (packets.DEVICE, "struct vgc_control_device"),
        (packets.SLOT, "struct vgc_control_slot"),
    ],
)
def test_layouts_are_those_of_the_driver(layout: Struct, name: str) -> None:
    assert layout.size == ffi.sizeof(name)
    fields = [(field.offset, ffi.sizeof(field.type)) for _, field in ffi.typeof(name).fields]
    sizes = {"Q": 8, "I": 4, "H": 2, "B": 1}
    codes = layout.format.lstrip("<").replace("6Q", "QQQQQQ")
    assert [sizes[code] for code in codes] == [size for _, size in fields]
    assert packets.SECTION.size == lib.VGC_CONTROL_SECTION


def test_texts_travel_in_as_many_packets_as_they_need() -> None:
    found = dict.fromkeys(range(1, 200), "text ü" * 100)
    made = list(packets.texts(found))
    assert len(made) > 1
    together: dict[int, str] = {}
    for packet in made:
        parsed = parse(packet)
        assert isinstance(parsed, Texts)
        together |= parsed.texts
    assert together == found


def test_more_short_texts_than_a_packet_may_have_travel_in_several() -> None:
    found = dict.fromkeys(range(1000), "x\ud800")
    parts = [parse(packet) for packet in packets.texts(found)]
    assert [len(part.texts) for part in parts if isinstance(part, Texts)] == [256, 256, 256, 232]
    assert parts[0] == Texts(dict.fromkeys(range(256), "x?"))


def test_a_snapshot_travels_in_parts() -> None:
    states = b"".join(packets.STATE.pack(pe, 1, 0, 2, 3, 4, 5, 6, 7, 8) for pe in range(1000))
    parts = [parse(packet) for packet in packets.snapshot(9, 10, 11, states)]
    seen: list[StateSeen] = []
    for part in parts:
        assert isinstance(part, Snapshot)
        assert (part.number, part.num_pes, part.began_ns, part.ended_ns) == (9, 1000, 10, 11)
        seen += part.states
    assert [state.pe for state in seen] == list(range(1000))
    assert seen[0].answered
    assert (seen[0].warps, seen[0].kernel, seen[0].at_ns) == (2, 3, 8)


def test_events_are_names_with_scalars() -> None:
    assert parse(packets.event("released_late", {"held": 2})) == Event("released_late", {"held": 2})


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (b"", "a packet of 0 bytes"),
        (bytes(packets.MAX_PACKET_BYTES + 1), "allowed: 1.."),
        (b"X", "a packet of kind 88; allowed: R, D, P, S, G, F, E, C"),
        (b"R" + bytes(55), "55 bytes at the end of records"),
        (b"R" + packets.SECTION.pack(1, 0, 1, 0, 0, 0, 0, 0, 8, 0) + bytes(7), "a section of 8 bytes, of which 7"),
        (b"D" + msgspec.msgpack.encode([[]]), r"texts\.texts is a list or a map; allowed: `object`"),
        (b"D" + msgspec.msgpack.encode([{"xyz": "a"}]), "allowed: `int`"),
        (b"D" + msgspec.msgpack.encode([{-1: "a"}]), "allowed: `int` >= 0"),
        (b"D" + msgspec.msgpack.encode([{1: 7}]), "allowed: `str`"),
        (b"D" + msgspec.msgpack.encode([{1: "x" * 4097}]), "allowed: `str` of length <= 4096"),
        (b"D" + msgspec.msgpack.encode([dict.fromkeys(range(257), "")]), "allowed: `object` of length <= 256"),
        (b"D" + b"\x91" * 40_000, "texts.* allowed: `object`"),
        (b"D", "texts: 0 bytes that are not MessagePack"),
        (b"P", "figures of 0 bytes"),
        (b"P" + bytes(8) + packets.FIGURES.pack(1, 1, 0, 0, *[0] * 6), "end in the middle"),
        (b"P" + bytes(8) + packets.FIGURES.pack(4096, 0, 0, 0, *[0] * 6), "element 4096"),
        (b"S" + bytes(23), "a snapshot of 23 bytes"),
        (b"S" + bytes(25), "a multiple of 56"),
        (b"G" + bytes(9), "a multiple of 8"),
        (b"F" + bytes(9), "a multiple of 24"),
        (b"C" + bytes(23), "a device's state of 23 bytes; allowed: 24"),
        (b"C" + bytes(30_000), "a packet of 30001 bytes; allowed: 1..25"),
        (b"E" + msgspec.msgpack.encode([None, {}]), r"event\.event is None; allowed: `str`"),
        (b"E" + msgspec.msgpack.encode(["a b", {}]), "event 'a b'; allowed: a name"),
        (b"E" + msgspec.msgpack.encode(["x", {"list": []}]), r"event\.fields"),
        (b"E" + msgspec.msgpack.encode(["x", {"n": float("inf")}]), r"event\.fields"),
    ],
)
def test_malformed_packets_are_refused(packet: bytes, why: str) -> None:
    with pytest.raises(PacketError, match=why):
        parse(packet)


@given(st.sampled_from(Kind), st.binary(max_size=400))
def test_random_packets_raise_packet_errors_only(kind: Kind, body: bytes) -> None:
    with contextlib.suppress(PacketError):
        parse(bytes([kind]) + body)
