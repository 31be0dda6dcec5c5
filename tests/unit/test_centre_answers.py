"""Decoding of a daemon's answers straight to their types: as decoding first and checking then."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_center.answers import push_of
from control_center.daemon_link import opened
from virtio_proto.control import frames
from virtio_proto.control.frames import FrameError
from virtio_proto.control.shapes import ShapeError, checked, decoded
from virtio_proto.control.verbs import VERBS
from virtio_proto.control.verbs.channels import Ls
from virtio_proto.control.verbs.hosts import Load

COUNTS: dict[str, Any] = dict.fromkeys(("records", "lost", "skipped", "forged", "cost_ns", "sample"), 1)
CHANNEL: dict[str, Any] = {"channel": 1, "gpu": "0", "vm": "web1", "pe": 1, **COUNTS}
ABOUT: dict[str, Any] = {"function": "log", "selector": "fn=log", "owner": "o", "level": 4, "policy": "drop-new"}
INSTANCE: dict[str, Any] = {"instance": 1, **ABOUT, "opened_ns": 1, "expires_ns": None, "channels": [CHANNEL]}
LISTING: dict[str, Any] = {"instances": [INSTANCE], "more": "unknown"}
EVENT: dict[str, Any] = {"push": "event", "time_ns": 1, "event": "opened", "vm": None, "detail": {}}

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def outcome(work: Any) -> tuple[str, str]:
    """Result or refusal as text, since NaN differs from itself."""
    try:
        return "found", repr(work())
    except ShapeError as error:
        return "wrong", str(error)


def both(value: Any, shape: Any) -> None:
    """Asserts that both ways find the same, or refuse with the same text."""
    body = msgpack.packb(value)
    assert outcome(lambda: decoded(body, shape, "it")) == outcome(lambda: checked(frames.unpack(body), shape, "it"))


def test_unknown_fields_are_dropped() -> None:
    assert decoded(msgpack.packb(LISTING), Ls.Answer, "ls") == {"instances": [INSTANCE]}


@given(st.sampled_from(sorted(VERBS)), anything)
def test_any_answer_is_found_as_by_checking(verb: str, value: Any) -> None:
    both(value, VERBS[verb].Answer)


@given(st.sampled_from(sorted(CHANNEL)), st.sampled_from(sorted(INSTANCE)), anything)
def test_any_field_is_found_as_by_checking(of_channel: str, of_instance: str, value: Any) -> None:
    both({"instances": [{**INSTANCE, of_instance: value}]}, Ls.Answer)
    both({"instances": [{**INSTANCE, "channels": [CHANNEL, {**CHANNEL, of_channel: value}]}]}, Ls.Answer)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_found(body: bytes) -> None:
    try:
        decoded(body, Load.Answer, "load")
    except ShapeError:
        return


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_of_a_daemon_or_a_frame_error(body: bytes) -> None:
    try:
        opened(body)
    except FrameError:
        return


@pytest.mark.parametrize("detail", [msgpack.Timestamp(1, 2), msgpack.ExtType(5, b"x"), {1: 2}, [{b"x": 1}]])
def test_what_only_messagepack_has_is_no_detail_of_an_event(detail: object) -> None:
    with pytest.raises(FrameError, match="push event"):
        push_of("event", msgpack.packb({**EVENT, "detail": {"x": detail}}))


def test_pushes_of_unknown_kinds_are_left_out() -> None:
    assert push_of("weather", b"\xc1") is None
    assert push_of("event", msgpack.packb(EVENT)) == EVENT


@pytest.mark.parametrize("item", [[], {}], ids=["lists", "maps"])
def test_a_frame_of_too_many_parts_is_refused_before_it_is_decoded(item: object) -> None:
    with pytest.raises(FrameError, match="lists and maps"):
        opened(msgpack.packb({"id": 1, "ok": [item] * (frames.MAX_CONTAINERS + 1)}))


def test_numbers_that_look_like_lists_are_no_parts() -> None:
    body = msgpack.packb({"id": 1, "ok": [0x90] * (frames.MAX_CONTAINERS + 1)})
    assert msgspec.msgpack.decode(opened(body).ok, type=list[int])[0] == 0x90  # type: ignore[arg-type]
