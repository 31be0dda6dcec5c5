"""Recorded input, fed to a fresh run: a kernel that reads and prints prints the same again."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from pathlib import Path
from typing import Any

from control_center.recorder import Settings, StoreRecorder
from control_center.recorder.feed import plan
from control_center.recording_port import Query
from tests.fakes.control_daemon import FakeDaemon
from tests.unit.recorder_rig import START_NS, event, events, recorder, sqlite_url
from tests.unit.vgcctl_rig import SHAPE, Ran, vgcctl
from virtio_proto.control.records import Function, Record, pack


class Reader:
    """A kernel on one element of a simulated daemon: reads words, prints how often each has come; then reads again."""

    def __init__(self, daemon: FakeDaemon, vm: str, pe: int) -> None:
        self.daemon = daemon
        self.vm = vm
        self.pe = pe
        self.words: Counter[str] = Counter()
        self.printed: list[str] = []
        self.heard = 0
        self.asked_at: int | None = None

    def step(self) -> None:
        """Asks for input once; when input has come, prints and asks again."""
        for instance in list(self.daemon.host.instances.values()):
            if instance.function is Function.STDIO and any(channel.pe == self.pe for channel in instance.channels):
                sent = [one for one in self.daemon.host.sent if one.get("pe") in (None, self.pe)]
                if self.asked_at is None or len(sent) > self.heard:
                    self._take([one["data"] for one in sent[self.heard :]], instance.number)
                    self.heard = len(sent)
                    self.asked_at = self.heard

    def _take(self, pieces: list[bytes], instance: int) -> None:
        records = []
        for piece in pieces:
            for word in piece.decode().split():
                self.words[word] += 1
                line = f"{word} {self.words[word]}\n"
                self.printed.append(line)
                records.append(self._record(1, line.encode()))
        records.append(self._record(3, (16).to_bytes(8, "little")))
        self.daemon.push(
            {
                "push": "records",
                "instance": instance,
                "channel": 1,
                "gpu": "0",
                "vm": self.vm,
                "pe": self.pe,
                "clock_ns": 0,
                "lost": 0,
                "fn": "stdio",
                "opened_ns": 1,
                "records": len(self.printed),
                "data": b"".join(map(pack, records)),
                "dictionary": {},
            }
        )

    def _record(self, kind: int, payload: bytes) -> Record:
        return Record(self.daemon.world.clock_ns(), Function.STDIO, 4, kind, self.pe, 0, 0, 0, payload)


async def with_kernel(daemon: FakeDaemon, kernel: Reader, *argv: str) -> Ran:
    """Runs a command while the kernel runs."""
    task = asyncio.ensure_future(vgcctl(*argv, "--daemon", daemon.url))
    while not task.done():
        if any(verb == "subscribe" for verb, _ in daemon.asked):
            kernel.step()
        await asyncio.wait({task}, timeout=0.005)
    return task.result()


async def record_input(url: str, pieces: list[str]) -> None:
    async with recorder(url) as made:
        for number, piece in enumerate(pieces):
            made.record_event(event(number, "input", "web1", instance=4, pe=2, data=piece.encode(), eof=False), "h1")
        made.record_event(event(20, "input", "other", instance=4, pe=0, data=b"not this", eof=False), "h1")


def test_a_kernel_that_reads_and_prints_prints_the_same_again(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        await record_input(url, ["one two\n", "two\n", "one one\n"])
        for how in (["--linger", "0.3"], ["--timed", "--speed", "max", "--linger", "0.1"]):
            async with FakeDaemon("h1", tmp_path / "h1.sock", shape=SHAPE) as daemon:
                kernel = Reader(daemon, "h1-vm0", 2)
                options = ["--recording", url, "--feed", "--as", "web1=h1-vm0", *how]
                ran = await with_kernel(daemon, kernel, "replay", "vm=web1", *options)
            assert ran.out == "one 1\ntwo 1\ntwo 2\none 2\none 3\n"
            assert "3 pieces were sent again" in ran.err
            assert [sent["data"] for sent in daemon.host.sent] == [b"one two\n", b"two\n", b"one one\n"]
            assert {(sent["vm"], sent["pe"]) for sent in daemon.host.sent} == {("h1-vm0", 2)}

    asyncio.run(run())


def test_each_piece_waits_until_the_kernel_asks(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        await record_input(url, ["one\n", "two\n"])
        async with FakeDaemon("h1", tmp_path / "h1.sock", shape=SHAPE) as daemon:
            options = (
                "--recording",
                url,
                "--feed",
                "--as",
                "web1=h1-vm0",
                "--linger",
                "0.05",
                "--for",
                "0.5",
                "--daemon",
                daemon.url,
            )
            ran = await vgcctl("replay", "vm=web1", *options)
            assert "0 pieces were sent again; 2 were not asked for" in ran.err
            assert daemon.host.sent == []
            nothing = await vgcctl("replay", "vm=nobody", *options)
            assert (nothing.code, "no input is recorded there" in nothing.err) == (1, True)
            assert (await vgcctl("replay", "vm=web1", *options, "--as", "web1")).code == 2

    asyncio.run(run())


def test_a_plan_has_each_elements_pieces_in_order() -> None:
    def sent(at: int, vm: str, pe: Any, data: Any, **more: Any) -> dict[str, Any]:
        return {"time_ns": START_NS + at, "event": "input", "vm": vm, "detail": {"pe": pe, "data": data, **more}}

    scripts = plan(
        [
            sent(0, "a", 0, b"x"),
            sent(1, "a", 1, base64.b64encode(b"y").decode()),
            sent(2, "a", 0, b"z", eof=True),
            sent(3, "a", None, b"no element"),
            sent(4, "a", 0, "no base64"),
            {"time_ns": 5, "event": "fault", "vm": "a", "detail": {"pe": 0, "data": b"x"}},
        ],
        {"a": "b"},
    )
    assert {place: [piece.data for piece in script.pieces] for place, script in scripts.items()} == {
        ("b", 0): [b"x", b"z"],
        ("b", 1): [b"y"],
    }
    script = scripts["b", 0]
    pieces = [script.next(), script.next()]
    assert [piece.eof for piece in pieces if piece is not None] == [False, True]
    assert script.is_done
    assert script.next() is None


def test_input_events_keep_all_bytes(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        made = StoreRecorder(Settings(url=url, flush_s=0.01, now_ns=lambda: START_NS))
        await made.start()
        made.record_event(event(1, "input", "web1", pe=0, data=bytes(range(256))), "h1")
        await made.flush()
        (row,) = await events(made, Query())
        assert row["detail"]["data"] == bytes(range(256))
        await made.close()

    asyncio.run(run())


def test_a_local_recording_is_listed_exported_and_played(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        await record_input(url, ["one\n"])
        listing = await vgcctl("replay", "--list", "--recording", url)
        assert "event input" in listing.out
        ran = await vgcctl("replay", "--export", "perfetto", "-o", str(tmp_path / "trace.json"), "--recording", url)
        assert (ran.code, "trace.json" in ran.err) == (0, True)
        played = await vgcctl("replay", "vm=web1", "--speed", "max", "--recording", url)
        assert "h1/web1 input" in played.out
        nowhere = await vgcctl("replay", "--list", "--recording", f"sqlite://{tmp_path}/none.db")
        assert (nowhere.code, "unable to open" in nowhere.err) == (1, True)

    asyncio.run(run())
