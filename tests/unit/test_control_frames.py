"""Frames of the control API."""

from __future__ import annotations

import asyncio

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtio_proto.control import frames
from virtio_proto.control.frames import FrameError

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def read_all(data: bytes) -> list[frames.Frame]:
    async def run() -> list[frames.Frame]:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        found = []
        while (frame := await frames.read(stream)) is not None:
            found.append(frame)
        return found

    return asyncio.run(run())


@given(st.lists(st.dictionaries(st.text(max_size=6), values, max_size=4), max_size=3))
def test_frames_come_back_in_order(sent: list[frames.Frame]) -> None:
    assert read_all(b"".join(map(frames.encode, sent))) == sent


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xc1", "not MessagePack"),
        (b"\x81\xa1a", "not MessagePack"),
        (msgpack.packb([1]), "a list; allowed: a map with string keys"),
        (msgpack.packb({1: 2}), "not MessagePack|string keys"),
        (msgpack.packb({b"a": 2}), "string keys"),
        (b"", "not MessagePack"),
    ],
)
def test_malformed_frame_is_refused_with_the_reason(body: bytes, said: str) -> None:
    with pytest.raises(FrameError, match=said):
        read_all(len(body).to_bytes(4, "little") + body)


@pytest.mark.parametrize(("value", "said"), [("\ud800", "no UTF-8 form"), (1 << 64, "more than 64 bits")])
def test_value_that_no_frame_can_hold_is_named(value: object, said: str) -> None:
    with pytest.raises(FrameError, match=said):
        frames.encode({"value": value})


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_a_frame_error(data: bytes) -> None:
    try:
        read_all(data)
    except FrameError:
        return


def test_length_is_refused_before_anything_is_read() -> None:
    with pytest.raises(FrameError, match=f"allowed: {frames.MAX_FRAME_BYTES}"):
        read_all(b"\xff\xff\xff\xff")


def test_end_in_the_middle_is_an_error() -> None:
    with pytest.raises(FrameError, match="middle of a frame"):
        read_all(frames.encode({"a": 1})[:-1])


@pytest.mark.parametrize(
    "value", [[[]] * (frames.MAX_CONTAINERS + 1), [{}] * (frames.MAX_CONTAINERS + 1), [0] * (frames.MAX_ITEMS + 1)]
)
def test_frame_of_too_many_parts_is_refused(value: list[object]) -> None:
    with pytest.raises(FrameError, match=r"lists and maps|exceeds max_array_len"):
        frames.decode(msgpack.packb({"a": value}))


def test_frame_of_many_parts_is_read() -> None:
    value: list[list[int]] = [[]] * (frames.MAX_CONTAINERS - 2)
    assert frames.decode(msgpack.packb({"a": value})) == {"a": value}
