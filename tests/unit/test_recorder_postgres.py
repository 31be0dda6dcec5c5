"""The recorder on PostgreSQL: a server of the test's own, from the binaries that the system has."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from control_center.recorder.dialect import StoreError, without_password
from control_center.recording_port import Query
from tests.fakes.postgres import PostgresMissing, PostgresServer
from tests.unit.recorder_rig import (
    SECOND,
    START_NS,
    Clock,
    chosen,
    command,
    event,
    events,
    formatted,
    push,
    recorder,
    text,
)

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a running server with one empty database."""
    with TemporaryDirectory(prefix="pg") as name:
        try:
            running = PostgresServer(Path(name) / "server")
        except PostgresMissing as reason:
            pytest.skip(str(reason))
        with running:
            yield running.url


@pytest.fixture
def url(server: str) -> str:
    """The URL of the server's database, emptied."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS entries, texts, facts")
    return server


def test_recorded_entries_are_found_again(url: str) -> None:
    async def run() -> None:
        async with recorder(url) as made:
            made.record_batch(
                push(formatted(1, 0xFFFF_8000_0000_1000, 42), dictionary={"ffff800000001000": "old %d"}), "a"
            )
            made.record_batch(push(text(2, "nul \0 and \udcff"[:5]), vm="web2", lost=2), "b")
            made.record_event(event(3, "fault", "web2", pe=1, blob=b"\0\xff"), "b")
            made.record_command(command(4, "send", vm="web2", data=b"\0\xff"))
            await made.flush()
            assert [row["text"] for row in await made.query(Query(), 10)] == ["old 42", "nul \0"]
            assert [row["text"] for row in await made.query(chosen("vm=web?,host=b"), 10)] == ["nul \0"]
            (row,) = await events(made, chosen("vm=web2"))
            assert row["detail"] == {"pe": 1, "blob": b"\0\xff"}
            assert (await made.commands(Query()))[0]["arguments"]["data"] == b"\0\xff"
            pieces = await made.timeline(chosen(from_ms=0, to_ms=10), 10)
            assert [piece["lost"] for piece in pieces] == [0, 0, 2, 0, 0, 0, 0, 0, 0, 0]

    asyncio.run(run())


def test_records_persist_and_only_one_recorder_may_open_the_database(url: str) -> None:
    async def run() -> None:
        async with recorder(url) as made:
            made.record_batch(push(text(1, "first")), "a")
        async with recorder(url) as made:
            made.record_batch(push(text(2, "second")), "a")
            await made.flush()
            assert [row["text"] for row in await made.query(Query(), 10)] == ["first", "second"]
            with pytest.raises(StoreError, match="in use by another recorder"):
                async with recorder(url):
                    pass

    asyncio.run(run())


def test_bounds_are_kept(url: str) -> None:
    async def run() -> None:
        clock = Clock(START_NS + SECOND)
        async with recorder(url, clock, retention_s=100, size_bytes=100_000, prune_s=0) as made:
            made.record_batch(push(text(0, "old")), "a")
            await made.flush()
            clock.now = START_NS + 200 * SECOND
            for number in range(200):
                made.record_batch(push(text(200_000 + number, str(number) + "x" * 900)), "a")
            await made.flush()
            rows = await made.query(Query(), 1000)
            assert made.status()["bytes"] <= 100_000
            assert rows[-1]["text"].startswith("199x")
            assert len(rows) < 100

    asyncio.run(run())


def test_a_server_that_goes_away_loses_nothing_that_was_queued(url: str) -> None:
    async def run() -> None:
        import psycopg

        async with recorder(url) as made:
            made.record_batch(push(text(1, "before")), "a")
            await made.flush()
            assert len(await made.query(Query(), 10)) == 1
            with psycopg.connect(url, autocommit=True) as connection:
                others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                connection.execute(others)
            made.record_batch(push(text(2, "after")), "a")
            await made.flush()
            assert [row["text"] for row in await made.query(Query(), 10)] == ["before", "after"]

    asyncio.run(run())


def test_an_unreachable_server_is_named_without_its_password() -> None:
    async def run() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"postgresql://ann:secret@127.0.0.1:{unused.getsockname()[1]}/x"
            with pytest.raises(StoreError, match=r"ann:\*\*\*@127") as raised:
                async with recorder(url):
                    pass
        assert "secret" not in str(raised.value)

    asyncio.run(run())
    assert without_password("postgresql://ann@h/x") == "postgresql://ann@h/x"
