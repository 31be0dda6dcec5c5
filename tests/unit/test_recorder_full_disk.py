"""Recorder on a full disk: it says so wherever people look, loses nothing that fits its memory, and says when that is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from control_center.recorder import StoreRecorder
from control_center.recorder.dialect import Database, StoreError
from control_center.recording_port import Query
from tests.small_disk import SmallDisk, limited_files, small_disk
from tests.unit.recorder_rig import SECOND, START_NS, Clock, push, recorder, sqlite_url, text
from tests.unit.test_recorder_store import texts
from tests.unit.test_vgcctl_centre import Cluster, with_centre
from tests.waiting import turns_until

DISKS = pytest.mark.parametrize("disk_of", [small_disk, limited_files])
DiskOf = Callable[[Path], AbstractContextManager[SmallDisk]]


async def got(cluster: Cluster, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(cluster.url + path) as response:
        return await response.text()


async def series(cluster: Cluster, name: str) -> list[str]:
    """Values of a series that has no labels."""
    lines = (await got(cluster, "metrics")).splitlines()
    return [value for line in lines for found, _, value in (line.partition(" "),) if found == name]


def is_failing(made: StoreRecorder) -> bool:
    failure = made.status()["failure"]
    return failure is not None and failure["to_ns"] is None


@DISKS
def test_full_disk_is_a_failure_until_there_is_room_again(tmp_path: Path, disk_of: DiskOf) -> None:
    async def run(disk: SmallDisk) -> None:
        clock = Clock(START_NS + 60 * SECOND)
        async with recorder(sqlite_url(disk.folder), clock) as made:
            made.record_batch(push(text(0, "before")), "a")
            await made.flush()
            status = made.status()
            assert (status["failures"], status["failure"]) == (0, None)
            assert (status["lag_ns"], status["queued_bytes"]) == (0, 0)

            disk.fill()
            for number in range(64):
                made.record_batch(push(text(1 + number, "x" * 900, sequence=number)), "a")
            await turns_until(lambda: is_failing(made))
            clock.now += 7 * SECOND
            status = made.status()
            assert status["failure"] is not None
            assert str(disk.folder) in status["failure"]["error"]
            assert status["failure"]["from_ns"] == START_NS + 60 * SECOND
            assert status["lag_ns"] == 7 * SECOND
            assert 64 * 900 < status["queued_bytes"] < status["queue_bytes"]

            disk.free()
            await made.flush()
            status = made.status()
            assert status["failures"] == 1
            assert status["failure"] is not None
            assert status["failure"]["to_ns"] == START_NS + 67 * SECOND
            assert (status["lag_ns"], status["queued_bytes"], status["left_out"]) == (0, 0, 0)
            rows = await made.query(Query(), 1000)
            assert [row["sequence"] for row in rows[1:]] == list(range(64)), "each is there, and once"

    with disk_of(tmp_path / "disk") as disk:
        asyncio.run(run(disk))


def test_free_space_is_told_and_a_full_disk_can_be_read(tmp_path: Path) -> None:
    async def run(disk: SmallDisk) -> None:
        async with recorder(sqlite_url(disk.folder)) as made:
            made.record_batch(push(text(0, "a")), "a")
            await made.flush()
            free = made.status()["free_bytes"]
            assert free is not None
            assert 128 << 20 < free < 160 << 20
            disk.fill()
            made.record_batch(push(text(0, "x" * 900), text(1, "x" * 900)), "a")
            await turns_until(lambda: is_failing(made))
            assert made.status()["free_bytes"] == 0
            assert await texts(made) == ["a"], "what is there can be read"

    with small_disk(tmp_path / "disk") as disk:
        asyncio.run(run(disk))


def test_failure_to_delete_old_entries_has_none_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise StoreError("database or disk is full")

    async def run() -> None:
        async with recorder(sqlite_url(tmp_path), prune_s=0) as made:
            with monkeypatch.context() as patch:
                patch.setattr("control_center.recorder.prune.prune", refuse)
                made.record_batch(push(text(0, "once")), "a")
                await turns_until(lambda: is_failing(made))
            await made.flush()
            await turns_until(lambda: not is_failing(made))
            assert await texts(made) == ["once"]
            assert made.status()["failures"] == 1

    asyncio.run(run())


def test_end_while_the_disk_is_full_says_what_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_database: Database, *_: Any) -> None:
        raise StoreError("database or disk is full")

    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("control_center.recorder.dialect.Sqlite.insert", refuse)
                made.record_batch(push(text(0, "lost")), "a")
                await turns_until(lambda: is_failing(made))
                await made.close()

    asyncio.run(run())
    assert "ends without 1 batches, events and commands" in caplog.text


def test_full_disk_is_seen_wherever_people_look(tmp_path: Path) -> None:
    """`/self`, ``/metrics``, ``vgcctl doctor`` and ``vgcctl status``; the page's own test is in tests/web."""

    async def test(cluster: Cluster) -> None:
        made = cluster.centre.recorder
        assert isinstance(made, StoreRecorder)

        async def about() -> tuple[Any, list[str], str, str]:
            problems = json.loads(await got(cluster, "api/v1/self"))["problems"]
            doctor, status = await cluster.run("doctor"), await cluster.run("status")
            return problems, await series(cluster, "vgc_recorder_failing"), doctor.out, status.out

        await cluster.recorded()
        problems, failing, doctor, status = await about()
        assert (problems, failing) == ([], ["0"])
        assert "cannot write" not in doctor + status

        disk.fill()
        await turns_until(lambda: is_failing(made))  # the load of hosts is recorded each second
        (problem,), failing, doctor, status = await about()
        assert problem["host"] == "centre"
        for shown in (problem["what"], doctor, status):
            assert "the recorder cannot write: recording " in shown
        assert "make room there: 0.0 MiB are free" in problem["remedy"]
        assert failing == ["1"]
        assert await series(cluster, "vgc_recorder_disk_free_bytes") == ["0"]
        assert (await cluster.run("status")).code == 5

        disk.free()
        await cluster.recorded()
        problems, failing, doctor, status = await about()
        assert (problems, failing) == ([], ["0"])
        assert await series(cluster, "vgc_recorder_failures_total") == ["1"]
        for shown in (doctor, status):
            assert "the recorder cannot write" not in shown
            assert "; it could not write from " in shown

    with small_disk(tmp_path / "disk") as disk:
        with_centre(disk.folder, test)


def test_recorder_that_has_ended_says_so_wherever_people_look(tmp_path: Path) -> None:
    """A bug in the writing thread, of which people would else see only that it is behind."""

    def fail(*_: Any) -> None:
        raise KeyError("a bug")

    async def test(cluster: Cluster) -> None:
        made = cluster.centre.recorder
        assert isinstance(made, StoreRecorder)
        await cluster.recorded()
        assert (made.status()["ended"], await series(cluster, "vgc_recorder_ended")) == (None, ["0"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("control_center.recorder.writer.Writer._prepare", fail)
            await turns_until(lambda: made.status()["ended"])
        (problem,) = json.loads(await got(cluster, "api/v1/self"))["problems"]
        doctor, status = await cluster.run("doctor"), await cluster.run("status")
        for shown in (problem["what"], doctor.out, status.out):
            assert "the recorder has ended, and nothing is recorded any more: KeyError: 'a bug'" in shown
        assert await series(cluster, "vgc_recorder_ended") == ["1"]
        with pytest.raises(StoreError, match="the recorder has ended: KeyError: 'a bug'"):
            await made.flush()
        before = made.status()["left_out"]
        made.record_batch(push(text(0, "too late")), "a")
        assert (made.status()["left_out"], made.status()["queued_bytes"]) == (before + 1, 0)

    with_centre(tmp_path, test)
