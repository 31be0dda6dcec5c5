"""Entries as the rows that clients see, in the order of time; a batch's records among those of all other batches."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from control_center.recorder.entry import DamagedError, Entry, Kind, host_time, unpack_body
from control_center.recorder.lookup import Lookup, Texts
from control_center.recording_port import CommandRow, EventRow, LoadRow, Query, RecordRow
from virtio_proto.control.api import LoadInfo
from virtio_proto.control.records import Record, RecordError, describe, unpack
from virtio_proto.control.selector import FUNCTIONS

ALL_KINDS: Final = tuple(Kind)
MAX_HELD_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened: a record of a batch, or what an entry of another kind says."""

    time_ns: int
    entry: Entry
    record: Record | None = None
    texts: Mapping[int, str] | None = None


_Open: TypeAlias = tuple[int, int, Moment, Iterator[tuple[int, Moment]]]
"""A batch that is given out: its next moment's time, its number, that moment, the rest."""


def record_row(moment: Moment) -> RecordRow:
    """A record as clients see it; `moment` must be one's."""
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


def event_row(entry: Entry) -> EventRow:
    """An event as clients see it. A gap of the recording is the event ``recording_gap``."""
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
    """What an entry's body says; what is damaged says so, so that all the rest of a recording can be read."""
    try:
        found = unpack_body(entry.body)
    except DamagedError as error:
        return {"damaged": str(error)}
    return found if isinstance(found, dict) else {"damaged": "no map"}


def load_row(entry: Entry) -> LoadRow | None:
    """How loaded a host was; None: the entry is damaged."""
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
    """An entry's moments with the times that they are put in order by, which never go back."""
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


def _records(entry: Entry) -> Iterator[Record]:
    with contextlib.suppress(RecordError):  # it was whole when it was written; what is left of it counts
        yield from unpack(entry.body)


def moments(lookup: Lookup, query: Query, *kinds: Kind) -> Iterator[Moment]:
    """What `query` chooses, oldest first. Holds the batches that overlap in time, up to `MAX_HELD_BYTES` of them: a
    guest may give its records times of an hour, and more would overlap than there is memory. Beyond that the earliest
    of those held comes first, whatever comes behind them.
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
    """The earliest moment of the heap, and how much is not held any more; its batch's next one takes its place."""
    _, number, moment, rest = open_[0]
    following = next(rest, None)
    if following is None:
        heapq.heappop(open_)
        return moment, moment.entry.size
    heapq.heapreplace(open_, (following[0], number, following[1], rest))
    return moment, 0


def last_records(lookup: Lookup, query: Query, limit: int) -> list[RecordRow]:
    """The last `limit` records of what `query` chooses, oldest first."""
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
