"""Marks of guests' programs: what a request may say, how many are passed on, and what clients see of them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_center.cli.output import Output, event_line
from control_center.marks import marks_of
from control_center.recording_port import Query
from tests.unit.plane_rig import Rig, plane_rig
from tests.unit.recorder_rig import MS, SECOND, START_NS, recorder, sqlite_url
from tests.unit.registry_rig import rig as control_rig
from vhost_backend.control.events import GuestMarked
from vhost_backend.errors import DriverError
from vhost_backend.worker.marks import MAX_AGE_NS, parse_marks
from vhost_backend.worker_protocol.marks import MESSAGE_COST, Mark, MarkBudget, Marks
from vhost_backend.worker_protocol.protocol import WorkerMessage
from virtio_proto import schema
from virtio_proto.control.api import EventPush
from virtio_proto.schema import LIMITS, MarkKind, Opcode, PayloadKind, Status

HOST_NS: Final = 1_800_000_000 * SECOND
GUEST_NS: Final = 5000 * SECOND


def wire(
    text: bytes = b"step", domain: bytes = b"", category: bytes = b"", thread: bytes = b"", **fields: Any
) -> bytes:
    """A mark as a driver sends it: a range of 2 ms that ended 1 ms ago, unless told otherwise."""
    head = {
        "begin_ns": GUEST_NS - 3 * MS,
        "end_ns": GUEST_NS - MS,
        "payload": 0,
        "kind": MarkKind.NESTED,
        "payload_kind": 0,
        "thread": 7,
        "category": 0,
        "colour": 0,
        "text_len": len(text),
        "domain_len": len(domain),
        "category_len": len(category),
        "thread_len": len(thread),
        "reserved": 0,
    }
    built: bytes = schema.MARK.construct.build(head | fields)
    return built + text + domain + category + thread


def body(raw: bytes, count: int = 1, **fields: Any) -> dict[str, Any]:
    announced = {"now_ns": GUEST_NS, "num_marks": count, "marks_len": len(raw), "dropped": 0, "process": 42}
    return announced | {"name": b"train".ljust(16, b"\0")} | fields


def parsed(raw: bytes, count: int = 1, **fields: Any) -> Marks:
    built = schema.BODY_MARKS.construct.build(body(raw, count, **fields))
    return parse_marks(schema.BODY_MARKS.construct.parse(built), raw, HOST_NS)


# ---- requests ------------------------------------------------------------------------------------


def test_times_are_put_on_the_hosts_clock() -> None:
    (mark,) = parsed(wire()).marks
    assert (mark.at_ns, mark.duration_ns) == (HOST_NS - 3 * MS, 2 * MS)


@pytest.mark.parametrize(
    ("begin", "end", "at", "duration"),
    [
        (0, 1, MAX_AGE_NS, 0),  # long before the hour
        (GUEST_NS + SECOND, GUEST_NS + 2 * SECOND, 0, 0),  # to come
        (GUEST_NS - MS, GUEST_NS - 3 * MS, MS, 0),  # ends before it begins
        ((1 << 64) - 1, 0, 0, 0),
    ],
)
def test_times_that_cannot_be_are_moved(begin: int, end: int, at: int, duration: int) -> None:
    (mark,) = parsed(wire(begin_ns=begin, end_ns=end)).marks
    assert (HOST_NS - mark.at_ns, mark.duration_ns) == (at, duration)


@pytest.mark.parametrize(
    ("kind", "bits", "number"),
    [
        (PayloadKind.NONE, 5, None),
        (PayloadKind.UNSIGNED, (1 << 64) - 1, (1 << 64) - 1),
        (PayloadKind.SIGNED, (1 << 64) - 5, -5),
        (PayloadKind.FLOAT, int.from_bytes(struct.pack("<d", 1.5), "little"), 1.5),
        (PayloadKind.FLOAT, int.from_bytes(struct.pack("<d", float("nan")), "little"), None),
    ],
)
def test_numbers_of_marks_have_their_type(kind: PayloadKind, bits: int, number: float | None) -> None:
    (mark,) = parsed(wire(payload_kind=kind, payload=bits)).marks
    assert mark.payload == number


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (wire() + b"x", 1),
        (wire()[:-1], 1),
        (wire(), 2),
        (wire() + wire(), 1),
        (wire(text_len=0xFFFF), 1),
        (wire(b"x" * 256), 1),
        (wire(domain=b"x" * 64), 1),
        (wire(b"\xff\xfe"), 1),
        (wire(b"\xed\xa0\x80"), 1),  # a surrogate
        (wire(b"a\nb"), 1),
        (wire(thread=b"\x1b[31m"), 1),
        (wire(category="\x85".encode()), 1),
        (wire(kind=3), 1),
        (wire(payload_kind=4), 1),
        (wire(reserved=1), 1),
    ],
)
def test_marks_that_are_wrong_are_refused(raw: bytes, count: int) -> None:
    with pytest.raises(DriverError) as refused:
        parsed(raw, count)
    assert refused.value.status is Status.BAD_REQUEST


@given(st.binary(max_size=400), st.integers(0, 8))
def test_random_bytes_are_marks_or_refused(raw: bytes, count: int) -> None:
    try:
        found = len(parsed(raw, count).marks)
    except DriverError as error:
        found = count if error.status is Status.BAD_REQUEST else -1
    assert found == count


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def passed_on(rig: Rig) -> list[Marks]:
    """List that gets what the worker tells the daemon of marks."""
    said: list[Marks] = []

    def send(message: WorkerMessage) -> None:
        assert isinstance(message, Marks)
        said.append(message)

    rig.server._send = send
    return said


def test_a_request_of_marks_reaches_the_daemon(rig: Rig) -> None:
    said, raw = passed_on(rig), wire() + wire(b"next", b"io")
    reply = rig.cold(Opcode.MARKS, body(raw, 2), raw, context=rig.context())
    assert (reply.status, reply.value) == (Status.OK, 2)
    ((process, name, texts),) = [(m.process, m.name, [one.text for one in m.marks]) for m in said]
    assert (process, name, texts) == (42, "train", ["step", "next"])


@pytest.mark.parametrize(
    ("fields", "trailing", "status"),
    [
        ({"num_marks": LIMITS["MAX_MARKS"] + 1}, wire(), Status.INVALID_ARGUMENT),
        ({"marks_len": LIMITS["MAX_MARKS_BYTES"] + 1}, wire(), Status.INVALID_ARGUMENT),
        ({"marks_len": 1}, wire(), Status.BAD_REQUEST),
        ({"num_marks": 0}, wire(), Status.BAD_REQUEST),
        ({"name": b"\xff" * 16}, wire(), Status.BAD_REQUEST),
    ],
)
def test_requests_that_announce_something_else_are_refused(
    rig: Rig, fields: dict[str, Any], trailing: bytes, status: Status
) -> None:
    said = passed_on(rig)
    reply = rig.cold(Opcode.MARKS, body(trailing) | fields, trailing, context=rig.context(), writable_len=200)
    assert (reply.status, said) == (status, [])


def test_marks_beyond_the_rate_are_left_out_and_counted(rig: Rig) -> None:
    said, raw, context = passed_on(rig), wire(), rig.context()
    rig.server._mark_budget = MarkBudget(lambda: 0.0)
    values = [rig.cold(Opcode.MARKS, body(raw), raw, context=context).value for _ in range(200)]
    assert sum(values) == len(said) == LIMITS["MARKS_BURST"] // MESSAGE_COST


# ---- the budget ----------------------------------------------------------------------------------


def test_a_budget_tells_what_was_left_out_with_the_next_message() -> None:
    now = [0.0]
    budget = MarkBudget(lambda: now[0])
    assert budget.take(LIMITS["MARKS_BURST"], 3) == 3
    assert budget.take(20, 5) == -1
    assert budget.take(0, 7) == -1
    now[0] = 1.0
    assert budget.take(LIMITS["MARKS_PER_S"], 1) == 20 + 5 + 7 + 1
    assert budget.take(1, 0) == -1


# ---- what clients see ----------------------------------------------------------------------------


def made(text: str, at_ns: int, **fields: Any) -> Mark:
    values = {"duration_ns": MS, "kind": MarkKind.NESTED, "thread": 7, "category": 0, "colour": 0, "payload": None}
    rest = {"domain": "", "category_name": "", "thread_name": ""}
    return Mark(at_ns=at_ns, text=text, **(values | rest | fields))


def test_push_of_marks_has_no_times_to_come_and_no_hidden_characters(tmp_path: Path) -> None:
    async def run() -> None:
        async with control_rig(tmp_path) as rig:
            client = await rig.client()
            await client.ask("subscribe", events=True)
            now = rig.clock.now_ns
            marks = (made("a\u202eb", now + SECOND, duration_ns=1 << 60), made("c", 0, colour=0xFF0102FF, category=4))
            rig.bus.publish(GuestMarked("web1", 42, "train", 5, marks))
            push = await client.event("marks")
        assert (push["vm"], push["detail"]["dropped"]) == ("web1", 5)
        first, second = push["detail"]["marks"]
        assert (first["at_ns"], first["duration_ns"], first["text"]) == (now, 0, "a\ufffdb")
        assert (second["at_ns"], second["duration_ns"]) == (now - 3600 * SECOND, MS)
        assert (second["colour"], second["category"]) == ("#0102ff", 4)

    asyncio.run(run())


def marks_push(*marks: dict[str, Any], **fields: Any) -> EventPush:
    detail = {"process": 42, "name": "train", "dropped": 0, "marks": list(marks), **fields}
    return {"push": "event", "time_ns": START_NS, "event": "marks", "vm": "web1", "detail": detail}


def mark(at_ms: int, text: str, **fields: Any) -> dict[str, Any]:
    return {"at_ns": START_NS + at_ms * MS, "duration_ns": MS, "kind": "nested", "text": text, "thread": 7, **fields}


def recorded(folder: Path, *pushes: EventPush) -> list[tuple[int, str, Any]]:
    """Time in ms, name and text of the events that a replay shows."""

    async def run() -> list[tuple[int, str, Any]]:
        async with recorder(sqlite_url(folder)) as store:
            for push in pushes:
                store.record_event(push, "a")
            await store.flush()
            rows: list[Any] = [row async for _, row in store.replay(Query())]
        return [((row["time_ns"] - START_NS) // MS, row["event"], row["detail"].get("text")) for row in rows]

    return asyncio.run(run())


def test_replay_shows_marks_one_by_one_in_the_order_of_time(tmp_path: Path) -> None:
    late = marks_push(mark(-5, "inner"), mark(-9, "outer"))
    early = marks_push(mark(-7, "between", kind="instant"))
    assert recorded(tmp_path, late, early) == [(-9, "range", "outer"), (-7, "mark", "between"), (-5, "range", "inner")]


@pytest.mark.parametrize("marks", ["none", [], [5, {"at_ns": "now"}], [{"at_ns": 1 << 63, "text": "x"}]])
def test_marks_of_a_host_that_lies_break_no_replay(tmp_path: Path, marks: Any) -> None:
    push = marks_push()
    push["detail"]["marks"] = marks
    found = recorded(tmp_path, push, marks_push(mark(-1, "right")))
    assert (-1, "range", "right") in found


def test_lines_of_marks_tell_what_was_left_out_once() -> None:
    push = marks_push(mark(1, "a"), mark(2, "b\nc"), dropped=3)
    assert ["dropped" in detail for _, _, detail in marks_of(push["detail"])] == [True, False]
    first, second = event_line({**push, "host": "h1"}, Output()).split("\n")
    assert first.startswith("h1/web1 range ")
    assert r"text=b\nc" in second
