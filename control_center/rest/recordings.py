"""Routes about the recording: records, time line, export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, get_args

import structlog
from aiohttp import web

from control_center.errors import RefusedError
from control_center.recording_port import ExportFormat, Query, RecordRow, TimelineBin
from control_center.rest.route import FROM, SELECTOR, TO, Call, Parameter, Route
from virtio_proto.control.api import RecordAccount

log = structlog.get_logger()
MAX_RECORDS: Final = 10_000
DEFAULT_RECORDS: Final = 500
_MEDIA: Final = {"perfetto": "application/json", "csv": "text/csv"}
_SUFFIX: Final = {"perfetto": "json", "csv": "csv"}


def query_of(call: Call) -> Query:
    """Part of the recording that a request asks for and the caller may see.

    :raise RefusedError: "malformed": the part ends before it begins.
    """
    start, end = call.query.get("from_ns"), call.query.get("to_ns")
    if start is not None and end is not None and end < start:
        raise RefusedError("malformed", f"to_ns is {end}, before from_ns {start}; allowed: from_ns up to to_ns")
    return Query(call.selector, start, end, call.scope.vms)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """:raise RefusedError: "failed": the recording cannot be read; the text says why."""
    try:
        yield
    except OSError as error:
        raise RefusedError("failed", str(error)) from None


async def records(call: Call) -> list[RecordRow]:
    """Lists the last records that match, oldest first."""
    with _refusals():
        return await call.centre.recording().query(query_of(call), call.query.get("limit", DEFAULT_RECORDS))


async def accounts(call: Call) -> list[RecordAccount]:
    """Lists the account of each VM's records since the recorder's start: made = kept + lost + left out."""
    return [row for row in call.centre.recording().accounts() if call.scope.sees(row["host"], row["vm"])]


async def timeline(call: Call) -> list[TimelineBin]:
    """Counts records, events and commands in pieces of equal length."""
    with _refusals():
        return await call.centre.recording().timeline(query_of(call), call.query.get("bins", 100))


async def export(call: Call) -> Any:
    """Exports the recording as a Perfetto trace, for ui.perfetto.dev, or as CSV.

    If the recording cannot be read to its end the connection is reset, so that a part is not taken for the whole.
    """
    form: ExportFormat = call.query.get("format", "perfetto")
    if form not in get_args(ExportFormat):
        raise RefusedError("malformed", f"format is {form!r:.40}; allowed: {', '.join(get_args(ExportFormat))}")
    pieces = call.centre.recording().export(query_of(call), form)
    name = f"attachment; filename=vgc-recording.{_SUFFIX[form]}"
    response = web.StreamResponse(headers={"Content-Type": _MEDIA[form], "Content-Disposition": name})
    with _refusals():
        first = await anext(pieces, b"")
    await response.prepare(call.request)
    try:
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    except ConnectionError:  # the client has gone
        pass
    except OSError as error:
        log.error("export_cut_off", reason=str(error))  # noqa: TRY400  the reason says all
        if call.request.transport is not None:
            call.request.transport.abort()
    return response


_LIMIT = Parameter("limit", "integer", f"Most records, {DEFAULT_RECORDS} by default.", 1, MAX_RECORDS)
_BINS = Parameter("bins", "integer", "Number of pieces, 100 by default.", 1, 10_000)
_FORMAT = Parameter("format", "text", "Format: perfetto (the default) or csv.")
_SPAN = (SELECTOR, FROM, TO)
ROUTES = (
    Route.own("/records", records, list[RecordRow], *_SPAN, _LIMIT, tag="recording"),
    Route.own("/accounts", accounts, list[RecordAccount], tag="recording"),
    Route.own("/timeline", timeline, list[TimelineBin], *_SPAN, _BINS, tag="recording"),
    Route.own("/export", export, dict[str, Any], *_SPAN, _FORMAT, tag="recording"),
)
