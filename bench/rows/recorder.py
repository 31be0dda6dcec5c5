"""Rows of the control centre's recorder: records per second into SQLite and PostgreSQL, beside appending the same bytes
to a file. A batch has the size of a busy channel's; every record is a block's begin or end.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import SkipRow, outcome
from bench.stats import alternate, attempt
from control_center.recorder import Settings, StoreRecorder
from tests.fakes.postgres import PostgresMissing, PostgresServer
from virtio_proto.control.api import RecordsPush
from virtio_proto.control.records import Function, Record, pack

BATCH_RECORDS: Final = 256
CHANNELS: Final = 132


def batches(count: int) -> list[RecordsPush]:
    """Makes batches of all elements of a large GPU in turn, with the current time."""
    now_ns = time.time_ns()
    payload = struct.pack("<QQQ", 0x1000, 1, 5000)
    made = []
    for number in range(count):
        pe = number % CHANNELS
        data = b"".join(
            pack(Record(now_ns + at * 5000, Function.PERF, 4, 1 + at % 2, pe, 0, at, at, payload))
            for at in range(BATCH_RECORDS)
        )
        made.append(
            RecordsPush(
                push="records",
                instance=1,
                channel=pe + 1,
                gpu="0",
                vm="vm",
                pe=pe,
                clock_ns=0,
                lost=0,
                fn="perf",
                opened_ns=now_ns,
                records=(number // CHANNELS + 1) * BATCH_RECORDS,
                data=data,
                dictionary={},
            )
        )
    return made


def append_per_s(folder: Path, pushes: list[RecordsPush]) -> float:
    """Measures records per second appended to a plain file."""
    path = folder / "appended"
    start = time.perf_counter()
    with path.open("ab") as file:
        for push in pushes:
            file.write(push["data"])
    elapsed = time.perf_counter() - start
    path.unlink()
    return BATCH_RECORDS * len(pushes) / elapsed


def record_per_s(url: str, clean: Path | None, pushes: list[RecordsPush]) -> float:
    """Measures records per second through a recorder, until all are in the store."""

    async def run() -> float:
        recorder = StoreRecorder(Settings(url=url, size_bytes=4 << 30, queue_bytes=1 << 30))
        await recorder.start()
        start = time.perf_counter()
        for push in pushes:
            recorder.record_batch(push, "host")
        await recorder.flush()
        elapsed = time.perf_counter() - start
        left_out = recorder.status()["left_out"]
        await recorder.close()
        if left_out:
            raise SkipRow(f"{left_out} batches found no room: the figure would be wrong")
        return BATCH_RECORDS * len(pushes) / elapsed

    figure = asyncio.run(run())
    if clean is not None:
        for path in clean.glob("recording.db*"):
            path.unlink()
    return figure


@row("recorder_records_per_s", "recorder_postgres_records_per_s")
def recorder_records(lab: Lab) -> Iterator[Outcome]:
    """Recording of records of 48 bytes in batches of 256, from 132 channels."""
    pushes = batches(lab.samples(4096, 512))
    with TemporaryDirectory(prefix="vgc-recorder-") as name:
        folder = Path(name)
        server = attempt(partial(_server, folder))
        subjects = (
            partial(record_per_s, f"sqlite://{folder}/recording.db", folder, pushes),
            partial(append_per_s, folder, pushes),
            server if isinstance(server, SkipRow) else partial(record_per_s, server.url, None, pushes),
        )
        try:
            sqlite, plain, postgres = alternate(lab.samples(7, 3), *subjects)
        finally:
            if not isinstance(server, SkipRow):
                server.stop()
        against = "a plain file that the same bytes are appended to"
        yield outcome("recorder_records_per_s", sqlite, "1/s", "higher", plain, against=against)
        yield outcome("recorder_postgres_records_per_s", postgres, "1/s", "higher", plain, against=against)


def _server(folder: Path) -> PostgresServer:
    try:
        return PostgresServer(folder / "postgres")
    except PostgresMissing as reason:
        raise SkipRow(str(reason)) from None
