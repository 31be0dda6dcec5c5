"""The account of records adds up from real kernels to the recorder's store, whatever becomes of workers on the way.

made = kept + lost + left out, for each VM. The kernels' own count of what they made is the truth that it is held against.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

import guest_driver as vgc
from control_center import address
from control_center.access import Access
from control_center.centre import Centre
from control_center.cluster import Cluster
from control_center.host import HostConfig
from control_center.recorder import Settings, StoreRecorder
from control_center.recording_port import Query
from control_center.scope import Caller, Scope
from tests.fakes.control_caller import ControlCaller
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.control_rig import Guest, Stage, control_stage
from tests.protocol.worker_rig import needs_walls
from tests.waiting import turns_until
from virtio_proto.control.api import RecordAccount
from virtio_proto.control.selector import parse
from virtio_proto.control.verbs.channels import Close, Open

pytestmark = needs_walls

VMS: Final = ("web1", "web2")
PES: Final = 2
BLOCKS: Final = 4
LINES: Final = 200
PER_LAUNCH: Final = BLOCKS * LINES
SOURCE: Final = r"""
#include <vgc.h>
extern "C" __global__ void say(int lines) { for (int i = 0; i < lines; i++) vgc_log(VGC_INFO, "line %d", i); }
"""


class Talking(threading.Thread):
    """A guest whose kernels log, launch after launch, until told to end. A lost device is reset."""

    def __init__(self, guest: Guest) -> None:
        super().__init__(name="talking")
        self.begun = 0
        self.done = 0
        """Launches that have ended well: their kernels have written all their lines."""
        self.losses = 0
        self._guest = guest
        self._stop_wanted = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_wanted.is_set():
                self._launch()
        except BaseException as error:  # noqa: BLE001  raised by `end`
            self._error = error

    def _launch(self) -> None:
        self.begun += 1
        try:
            self._guest.program["say"][BLOCKS, 1](LINES)
            self._guest.device.synchronize()
        except vgc.VgcError:
            self.losses += 1
            self._guest.renew()
        else:
            self.done += 1

    def end(self) -> None:
        """Lets the last launch end."""
        self._stop_wanted.set()
        self.join(ANSWERS_WITHIN_S)
        if self._error is not None:
            raise self._error


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("accounts")
    with control_stage(folder, VMS, SOURCE, PES, budget_percent=100.0) as stage:
        yield stage


class Watch:
    """A control centre whose recorder is throttled: its queue holds a part of what comes between two flushes."""

    def __init__(self, centre: Centre, recorder: StoreRecorder) -> None:
        self._centre = centre
        self._recorder = recorder
        self._host = centre.cluster.hosts["h1"]
        self._caller = Caller("test", "admin", Scope())

    def rows(self) -> dict[str, RecordAccount]:
        return {row["vm"]: row for row in self._recorder.accounts()}

    def made(self) -> dict[str, int]:
        return {vm: row["made"] for vm, row in self.rows().items()}

    def has_all_ends(self) -> bool:
        """True if records of each VM were kept, were lost and were left out."""
        rows = self.rows().values()
        return len(rows) == len(VMS) and all(row["kept"] and row["lost"] and row["left_out"] for row in rows)

    @contextlib.asynccontextmanager
    async def channels(self) -> AsyncIterator[None]:
        """Log channels of all VMs, open in the block; at its end the accounts have all their records."""
        opened = await self._centre.command(self._caller, self._host, Open.Request(selector="fn=log", slots=64))
        await turns_until(lambda: opened["instance"] in self._host._subscribed)
        numbers = {vm: {one["channel"] for one in opened["channels"] if one["vm"] == vm} for vm in VMS}
        assert numbers["web1"] == numbers["web2"], "VMs number their channels alike"
        yield
        await self._centre.command(self._caller, self._host, Close.Request(instance=opened["instance"]))
        await self._recorder.flush()

    async def stored(self, vm: str) -> tuple[int, int]:
        """Records of a VM that the store has, and losses that it tells of."""
        (piece,) = await self._recorder.timeline(Query(parse(f"vm={vm}")), 1)
        return piece["records"]["log"], piece["lost"]


@contextlib.asynccontextmanager
async def watched(stage: Stage, folder: Path) -> AsyncIterator[Watch]:
    recorder = StoreRecorder(Settings(f"sqlite://{folder}/recording.db", flush_s=0.05, queue_bytes=100_000))
    cluster = Cluster([HostConfig("h1", address.parse(f"unix:{stage.path}"))])
    centre = Centre(cluster, Access(), recorder)
    await recorder.start()
    try:
        async with cluster:
            await turns_until(lambda: cluster.hosts["h1"].state == "up")
            yield Watch(centre, recorder)
    finally:
        await recorder.close()


@contextlib.asynccontextmanager
async def all_talk(stage: Stage) -> AsyncIterator[dict[str, Talking]]:
    """Guests of all VMs that log, until the end of the block."""
    talking = {vm: Talking(stage.guests[vm]) for vm in VMS}
    for one in talking.values():
        one.start()
    try:
        yield talking
    finally:
        for one in talking.values():
            await asyncio.to_thread(one.end)


async def check_exactly(stage: Stage, watch: Watch) -> None:
    """Has all guests log, and compares the accounts with the number of lines that their kernels wrote."""
    before = watch.made()
    async with watch.channels(), all_talk(stage) as talking:
        goals = {vm: one.done + 8 for vm, one in talking.items()}
        await turns_until(lambda: watch.has_all_ends() and all(one.done > goals[vm] for vm, one in talking.items()))
    truth = {vm: before.get(vm, 0) + one.done * PER_LAUNCH for vm, one in talking.items()}
    assert watch.made() == truth


async def check_over_workers(stage: Stage, watch: Watch) -> None:
    """Likewise, while one VM's worker is killed and the work of the other migrates. Until channels are open in the next
    worker, kernels make no records; of the launch that was killed, nobody knows how many it made.
    """
    before = watch.made()
    async with watch.channels():
        async with all_talk(stage) as talking:
            await turns_until(lambda: all(one.done for one in talking.values()))
            with ControlCaller(stage.path) as control:
                control.ask("subscribe", events=True)
                await asyncio.to_thread(stage.kill_worker, "web1")
                report = await asyncio.to_thread(control.migrate, "web2", PES)
                assert report["state"] == "done", report
                await turns_until(lambda: talking["web1"].losses)
                ready = [await asyncio.to_thread(control.event, "worker_ready") for _ in VMS]
            assert {push["vm"] for push in ready} == set(VMS), "their channels are open again"
            sure = {vm: one.done for vm, one in talking.items()}
            await turns_until(lambda: all(one.done > sure[vm] + 2 for vm, one in talking.items()))
        assert (talking["web1"].losses, talking["web2"].losses) == (1, 0)
    for vm, one in talking.items():
        made = watch.made()[vm] - before[vm]
        assert PER_LAUNCH * (one.done - sure[vm] - 1) <= made <= PER_LAUNCH * one.begun


def test_records_are_kept_lost_or_left_out_over_all_workers_of_a_vm(stage: Stage, tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(stage, tmp_path) as watch:
            await check_exactly(stage, watch)
            await check_over_workers(stage, watch)
            await check_exactly(stage, watch)
            for vm, row in watch.rows().items():
                assert row["made"] == row["kept"] + row["lost"] + row["left_out"]
                assert await watch.stored(vm) == (row["kept"], row["lost"])

    asyncio.run(run())
