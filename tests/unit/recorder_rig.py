"""Rig of the recorder's tests: batches, events and commands as daemons push them, and a clock that the test sets."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_center.recorder import Settings, StoreRecorder
from control_center.recording_port import CommandRow, EventRow, Query
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.records import Function, Record, pack
from virtio_proto.control.selector import parse

START_NS = 1_700_000_000_000_000_000
"""Time at which the tests' recordings begin."""
MS = 1_000_000
SECOND = 1000 * MS


@dataclass
class Clock:
    """A clock that shows the time that the test set."""

    now: int = START_NS

    def __call__(self) -> int:
        return self.now


def text(at_ms: float, words: str, *, pe: int = 0, sequence: int = 0) -> Record:
    """A record of a print, `at_ms` after the start."""
    return Record(START_NS + int(at_ms * MS), Function.STDIO, 4, 1, pe, 0, 0, sequence, words.encode())


def block(at_ms: float, launch: int, number: int, *, begin: bool, pe: int = 0, last: int = 256) -> Record:
    """A record of a block's begin, or of its end with the duration in ns as `last`."""
    payload = struct.pack("<QQQ", 0x1000, launch, last)
    return Record(START_NS + int(at_ms * MS), Function.PERF, 4, 1 if begin else 2, pe, 0, number, 0, payload)


def formatted(at_ms: float, address: int, *arguments: int) -> Record:
    """A log record with a format at `address`."""
    payload = struct.pack(f"<{1 + len(arguments)}Q", address, *arguments)
    return Record(START_NS + int(at_ms * MS), Function.LOG, 4, 1, 0, 0, 0, 0, payload)


def push(
    *records: Record,
    vm: str = "web1",
    pe: int = 0,
    instance: int = 1,
    lost: int = 0,
    made: int = 0,
    opened_ns: int = START_NS + 3600 * SECOND,
    dictionary: dict[str, str] | None = None,
    data: bytes | None = None,
) -> RecordsPush:
    """A batch as a daemon pushes it. `made`: records of the channel up to this batch."""
    return RecordsPush(
        push="records",
        instance=instance,
        channel=instance * 100 + pe,
        gpu="cpu",
        vm=vm,
        pe=pe,
        clock_ns=0,
        lost=lost,
        fn=(records[0].function if records else Function.LOG).name.lower(),
        opened_ns=opened_ns,
        records=made,
        data=b"".join(map(pack, records)) if data is None else data,
        dictionary=dictionary or {},
    )


def event(at_ms: float, name: str, vm: str | None = None, **detail: Any) -> EventPush:
    return EventPush(push="event", time_ns=START_NS + int(at_ms * MS), event=name, vm=vm, detail=detail)


def command(at_ms: float, verb: str, *, host: str = "a", error: str | None = None, **arguments: Any) -> CommandRow:
    time_ns = START_NS + int(at_ms * MS)
    return CommandRow(time_ns=time_ns, host=host, user="ann", verb=verb, arguments=arguments, error=error)


def chosen(selector: str = "", from_ms: float | None = None, to_ms: float | None = None, **more: Any) -> Query:
    """A query in milliseconds after the start."""
    from_ns, to_ns = (None if ms is None else START_NS + int(ms * MS) for ms in (from_ms, to_ms))
    return Query(parse(selector), from_ns, to_ns, **more)


def sqlite_url(folder: Path) -> str:
    return f"sqlite://{folder}/recording.db"


async def events(made: StoreRecorder, query: Query | None = None) -> list[EventRow]:
    """Reads the events of a replay."""
    return [row[1] async for row in made.replay(query or Query()) if row[0] == "event"]


@contextlib.asynccontextmanager
async def recorder(url: str, clock: Clock | None = None, **settings: Any) -> AsyncIterator[StoreRecorder]:
    """A started recorder; its clock stands at the start plus a minute if none is given."""
    now_ns = clock or Clock(START_NS + 60 * SECOND)
    made = StoreRecorder(Settings(url=url, now_ns=now_ns, flush_s=settings.pop("flush_s", 0.01), **settings))
    await made.start()
    try:
        yield made
    finally:
        await asyncio.shield(made.close())
