"""Reading a recording directly, without a control centre, also while a control centre writes it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from control_center.cli.link import Object, Span
from control_center.cli.problems import CommandError, UsageError
from control_center.recorder import StoreReader
from control_center.recorder.dialect import StoreError, check_url
from control_center.recording_port import Query
from virtio_proto.control.selector import parse


@contextlib.asynccontextmanager
async def opened_recording(url: str) -> AsyncIterator[LocalRecording]:
    """Opens the recording at `url` for reading.

    :raise UsageError: the URL does not name a recording.
    :raise CommandError: no recording is there.
    """
    try:
        check_url(url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        reader = StoreReader(url)
        await reader.state()
    except StoreError as error:
        raise CommandError(str(error)) from None
    try:
        yield LocalRecording(reader)
    finally:
        reader.close()


def _query(span: Span) -> Query:
    return Query(parse(span.selector), span.from_ns, span.to_ns)


class LocalRecording:
    """Recordings part of a `Link`, over a store on this machine."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    async def recorder(self) -> Object:
        return {**(await self._reader.state())}

    async def visible(self) -> None:
        """None: who can read the file sees all of it."""

    async def timeline(self, span: Span, bins: int) -> list[Object]:
        return [{**piece} for piece in await self._reader.timeline(_query(span), bins)]

    async def export(self, span: Span, form: str) -> AsyncIterator[bytes]:
        async for piece in self._reader.export(_query(span), "perfetto" if form == "perfetto" else "csv"):
            yield piece

    async def recorded(self, span: Span) -> AsyncIterator[Object]:
        async for kind, row in self._reader.replay(_query(span)):
            if kind != "load":
                yield {"type": kind, **row}
