"""Entries as the rows that clients see, in the order of time; records of different batches are merged by time."""

from __future__ import annotations

import contextlib
import heapq
import math
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from control_center import marks
from control_center.recorder.entry import DamagedError, Entry, Kind, host_time, unpack_body
from control_center.recorder.lookup import Lookup, Texts
from control_center.recording_port import CommandRow, EventRow, LoadRow, Query, RecordRow
from virtio_proto.control.api import LoadInfo
from virtio_proto.control.records import Record, RecordError, describe, unpack
from virtio_proto.control.selector import FUNCTIONS

ALL_KINDS: Final = tuple(Kind)
MAX_HELD_BYTES: Final = 64 << 20
"""Most bytes of batches that `moments` holds in order to merge them."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One record of a batch, one mark of a program, or one entry of another kind."""

    time_ns: int
    entry: Entry
    record: Record | None = None
    texts: Mapping[int, str] | None = None
    mark: tuple[str, dict[str, Any]] | None = None
    """Name and detail of a mark's event."""


_Open: TypeAlias = tuple[int, int, Moment, Iterator[tuple[int, Moment]]]
"""Batch whose records are being given out: time of its next moment, its number, that moment, the rest."""


def record_row(moment: Moment) -> RecordRow:
    """Record as clients see it; `moment` must be a record's."""
    record, entry = moment.record, moment.entry
    assert record is not None
    return RecordRow(
        time_ns=moment.time_ns,
        host=entry.host,
        gpu=entry.gpu,
        vm=entry.vm,
        pe=entry.pe,
        fn=FUNCTIONS[record.function],
        level=record.level,
        kind=record.kind,
        text=describe(record, moment.texts or {}),
        block=record.block,
        warp=record.warp,
        sequence=record.sequence,
        lost=entry.lost,
    )


def event_row(moment: Moment) -> EventRow:
    """Event as clients see it. A gap of the recording is the event ``recording_gap``; each mark of a program is one."""
    entry = moment.entry
    if moment.mark is not None:
        name, fields = moment.mark
        return EventRow(time_ns=moment.time_ns, host=entry.host, event=name, vm=entry.vm or None, detail=fields)
    if entry.kind is Kind.GAP:
        detail: dict[str, Any] = {"reason": entry.name, "to_ns": entry.end_ns, **_fields(entry)}
        return EventRow(time_ns=entry.time_ns, host="", event="recording_gap", vm=None, detail=detail)
    return EventRow(
        time_ns=entry.time_ns,
        host=entry.host,
        event=entry.name,
        vm=entry.vm or None,
        detail=_fields(entry),
    )


def _fields(entry: Entry) -> dict[str, Any]:
    """Fields of an entry's body; ``damaged`` if it cannot be unpacked, so that the rest of a recording can be read."""
    try:
        found = unpack_body(entry.body)
    except DamagedError as error:
        return {"damaged": str(error)}
    return found if isinstance(found, dict) else {"damaged": "no map"}


def load_row(entry: Entry) -> LoadRow | None:
    """Load of a host; None if the entry is damaged."""
    found = _fields(entry)
    return None if "damaged" in found else LoadRow(time_ns=entry.time_ns, hosts={entry.host: cast("LoadInfo", found)})


def command_row(entry: Entry) -> CommandRow:
    rest = {"user": "", "arguments": {}, "error": None, **_fields(entry)}
    return CommandRow(
        time_ns=entry.time_ns,
        host=entry.host,
        user=rest["user"],
        verb=entry.name,
        arguments=rest["arguments"],
        error=rest["error"],
    )


def _inside(time_ns: int, query: Query) -> bool:
    return (query.from_ns is None or time_ns >= query.from_ns) and (query.to_ns is None or time_ns < query.to_ns)


def _moments_of(number: int, entry: Entry, query: Query, texts: Texts) -> Iterator[tuple[int, Moment]]:
    """Moments of an entry, each with the time that it is ordered by, which never decreases."""
    if entry.kind is Kind.EVENT and entry.name == marks.EVENT:
        yield from _marks_of(entry, query)
        return
    if entry.kind is not Kind.BATCH:
        if _inside(entry.time_ns, query) or entry.kind is Kind.GAP:
            yield entry.time_ns, Moment(entry.time_ns, entry)
        return
    order = entry.time_ns
    known = texts.at(number, entry.host, entry.vm)
    for record in _records(entry):
        time_ns = host_time(record.time_ns, entry.clock_ns, entry.arrived_ns)
        order = max(order, time_ns)
        if _inside(time_ns, query) and query.selector.matches_fn(FUNCTIONS[record.function]):
            yield order, Moment(time_ns, entry, record, known)


def _marks_of(entry: Entry, query: Query) -> Iterator[tuple[int, Moment]]:
    """Marks of programs by the time at which they begin; an entry that holds none is a moment of its own."""
    fields = _fields(entry)
    found = [(host_time(at_ns, 0, entry.arrived_ns), (name, more)) for at_ns, name, more in marks.marks_of(fields)]
    for time_ns, mark in sorted(found, key=lambda one: one[0]):
        if _inside(time_ns, query):
            yield time_ns, Moment(time_ns, entry, mark=mark)
    if not found and _inside(entry.time_ns, query):
        yield entry.time_ns, Moment(entry.time_ns, entry)


def _records(entry: Entry) -> Iterator[Record]:
    with contextlib.suppress(RecordError):  # damaged in the store: the records before the damage are still shown
        yield from unpack(entry.body)


def plain(value: Any) -> Any:
    """`value` with only what JSON has: bytes become base64, numbers that JSON lacks null, keys and the rest texts.

    Exports use it, since one odd value of a host or a person must not end them.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return str(value)


def moments(lookup: Lookup, query: Query, *kinds: Kind) -> Iterator[Moment]:
    """Moments that `query` chooses, oldest first. Holds the batches that overlap in time, `MAX_HELD_BYTES` at most: a
    guest may spread its records' times over an hour, and the batches that overlap then may exceed the memory. Above
    that bound the earliest moment held is given out, even if a later batch has an earlier one.
    """
    texts = Texts(lookup)
    open_: list[_Open] = []
    held = 0
    for number, entry in lookup.entries(query, *kinds):
        while open_ and (open_[0][0] < entry.time_ns or held > MAX_HELD_BYTES):
            moment, done = _advance(open_)
            held -= done
            yield moment
        rest = _moments_of(number, entry, query, texts)
        if (first := next(rest, None)) is not None:
            heapq.heappush(open_, (first[0], number, first[1], rest))
            held += entry.size
    while open_:
        yield _advance(open_)[0]


def _advance(open_: list[_Open]) -> tuple[Moment, int]:
    """Takes the earliest moment from the heap and puts its batch's next one there; also gives the bytes no longer held."""
    _, number, moment, rest = open_[0]
    following = next(rest, None)
    if following is None:
        heapq.heappop(open_)
        return moment, moment.entry.size
    heapq.heapreplace(open_, (following[0], number, following[1], rest))
    return moment, 0


def last_records(lookup: Lookup, query: Query, limit: int) -> list[RecordRow]:
    """Last `limit` records that `query` chooses, oldest first."""
    texts, span_ns = Texts(lookup), lookup.span_ns()
    kept: list[tuple[int, int, int, Moment]] = []
    for number, entry in lookup.entries(query, Kind.BATCH, newest_first=True):
        if len(kept) >= limit and entry.time_ns + span_ns < kept[0][0]:
            break
        if len(kept) >= limit and entry.end_ns < kept[0][0]:
            continue
        for index, (_, moment) in enumerate(_moments_of(number, entry, query, texts)):
            item = (moment.time_ns, number, index, moment)
            if len(kept) < limit:
                heapq.heappush(kept, item)
            elif item > kept[0]:
                heapq.heapreplace(kept, item)
    return [record_row(moment) for *_, moment in sorted(kept, key=lambda item: item[:3])]
