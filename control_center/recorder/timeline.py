"""Counts per time bin over a recording, for the page's time line. The database counts."""

from __future__ import annotations

from typing import Final

from control_center.recorder.entry import Kind
from control_center.recorder.lookup import Lookup, where
from control_center.recording_port import Query, TimelineBin
from virtio_proto.control.selector import FUNCTIONS

LAST_NS: Final = 2**63 - 1
"""Latest time that a column of the store can hold."""


def timeline(lookup: Lookup, query: Query, bins: int) -> list[TimelineBin]:
    """Counts in `bins` pieces of equal length from `query.from_ns` to `query.to_ns`, by default the whole recording. A
    batch counts in the piece in which its first record lies, under the lowest-numbered of its functions.
    """
    recorded = lookup.range_ns()
    if recorded is None and (query.from_ns is None or query.to_ns is None):
        return []
    first, last = recorded or (0, 0)
    start = first if query.from_ns is None else query.from_ns
    start = min(start, LAST_NS - 1)
    end = max(min(last + 1 if query.to_ns is None else query.to_ns, LAST_NS), start + 1)
    width = -(-(end - start) // bins)
    pieces = [
        TimelineBin(
            start_ns=start + i * width, end_ns=start + (i + 1) * width, records={}, events={}, commands=0, lost=0
        )
        for i in range(bins)
    ]
    window = Query(query.selector, start, end, query.vms)
    condition, values = where(window, (Kind.BATCH, Kind.EVENT, Kind.COMMAND, Kind.GAP), 0)
    names = "CASE kind WHEN 1 THEN '' ELSE name END"
    sql = f"SELECT (time_ns - ?) / ? AS bin, kind, fns, {names} AS label, COUNT(*), SUM(count), SUM(lost_new)"
    sql += f" FROM entries WHERE {condition} GROUP BY bin, kind, fns, label"
    for index, kind, fns, name, entries, records, lost in lookup.fetch(sql, [start, width, *values]):
        piece = pieces[index]
        match Kind(kind):
            case Kind.BATCH:
                fn = FUNCTIONS[(fns & -fns).bit_length() - 1]
                piece["records"][fn] = piece["records"].get(fn, 0) + int(records)
                piece["lost"] += int(lost)
            case Kind.COMMAND:
                piece["commands"] += entries
            case _:
                event = "recording_gap" if kind == Kind.GAP else name
                piece["events"][event] = piece["events"].get(event, 0) + entries
    return pieces
