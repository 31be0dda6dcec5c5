"""Export of a recording as CSV: one line per record, event, command and gap, all with the same columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from control_center.recorder.entry import Kind
from control_center.recorder.rows import Moment, command_row, event_row, plain, record_row

COLUMNS: Final = (
    "time_ns",
    "time",
    "type",
    "host",
    "gpu",
    "vm",
    "pe",
    "fn",
    "level",
    "kind",
    "block",
    "warp",
    "sequence",
    "lost",
    "text",
)
_FORMULAS: Final = "=+-@\uff1d\uff0b\uff0d\uff20"
_PASSED_OVER: Final = " \t\r\n\0\u00a0\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff"
_PIECE_LINES: Final = 512


def export(moments: Iterable[Moment]) -> Iterator[bytes]:
    """Writes CSV in pieces, after a line with the columns' names. Cells that a spreadsheet would take for a formula get
    an apostrophe in front: their text may come from a guest.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    for count, moment in enumerate(moments, 1):
        writer.writerow({key: _harmless(value) for key, value in _line(moment).items()})
        if count % _PIECE_LINES == 0:
            yield buffer.getvalue().encode(errors="replace")
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode(errors="replace")


def _harmless(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula, not even one that skips blanks and control characters before it."""
    if not isinstance(value, str):
        return value
    first = value.lstrip(_PASSED_OVER)[:1]
    return "'" + value if (first in _FORMULAS and first) or value[:1] in ("\t", "\r") else value


def _line(moment: Moment) -> dict[str, Any]:
    when = datetime.fromtimestamp(moment.time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    times = {"time_ns": moment.time_ns, "time": f"{when}.{moment.time_ns % 10**9:09d}Z"}
    entry = moment.entry
    match entry.kind:
        case Kind.BATCH:
            return {**record_row(moment), **times, "type": "record"}
        case Kind.COMMAND:
            command = command_row(entry)
            detail = {"user": command["user"], "with": command["arguments"], "error": command["error"]}
            text = json.dumps(plain(detail))
            return {**times, "type": "command", "host": entry.host, "vm": entry.vm, "kind": entry.name, "text": text}
        case Kind.EVENT | Kind.GAP:
            event = event_row(moment)
            text = json.dumps(plain(event["detail"]))
            return {**times, "type": "event", "host": entry.host, "vm": entry.vm, "kind": event["event"], "text": text}
        case _:
            return {**times, "type": entry.kind.name.lower(), "host": entry.host, "vm": entry.vm, "kind": entry.name}
