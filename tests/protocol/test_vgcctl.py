"""vgcctl, a control centre with a recorder, the real daemon, a real worker and a kernel that reads and prints."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import guest_driver as vgc
from control_center import address
from control_center.config import CentreConfig, RecorderConfig
from control_center.host import HostConfig
from control_center.recorder import StoreRecorder
from control_center.service import running
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import open_device
from tests.unit.vgcctl_rig import Ran, vgcctl
from tests.waiting import turns_until, until
from vhost_backend.config.daemon import MIB, ControlConfig, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker

SOURCE: Final = r"""
#include <vgc.h>
extern "C" __global__ void adder() {
    int sum = 0, number = 0;
    char c = 0;
    while (c != 'q') {
        if (vgc_read(&c, 1) != 1)
            continue;
        if (c >= '0' && c <= '9') {
            number = 10 * number + (c - '0');
        } else if (c == '\n') {
            sum += number;
            number = 0;
            printf("the sum is %d\n", sum);
        }
    }
    printf("done\n");
}
extern "C" __global__ void measurer() {
    char buffer[512];
    int total = 0, checksum = 0;
    while (total < 40000) {
        int got = vgc_read(buffer, sizeof(buffer));
        total += got > 0 ? got : 0;
        for (int i = 0; i < got; i++)
            checksum = (31 * checksum + (unsigned char)buffer[i]) & 0xffffff;
    }
    printf("%d bytes, checksum %d\n", total, checksum);
}
extern "C" __global__ void work(volatile int *flags) {
    flags[0] = 1;
    for (int i = 0; i < 50000 && flags[1] == 0; i++)
        ;
}
"""


@dataclass
class Stage:
    """A daemon with one VM of one element, and its guest."""

    socket: Path
    folder: Path
    device: vgc.Device
    program: vgc.Program
    stream: vgc.Stream


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("vgcctl")
    quota = QuotaConfig(pes=1, memory_bytes=64 * MIB)
    vm = VmConfig(
        "web1", vm_uuid("web1"), folder / "web1", engine=EngineConfig("cpu"), quota=quota, num_queues=2, sandbox=SANDBOX
    )
    control = ControlConfig(socket=folder / "control", host="h1", budget_percent=100.0)
    config = DaemonConfig((vm,), cache=folder / "cache", control=control)
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)):
        link = AttachedLink(folder / "web1", num_queues=2)
        link.wait_ready()
        device = open_device(link, folder / "state")
        yield Stage(folder / "control", folder, device, device.compile(SOURCE), device.stream())
        device.close()
        link.close()


async def while_it_runs(stage: Stage, kernel: str, *argv: str) -> Ran:
    """Runs a command while the guest's kernel runs; returns when both have ended."""
    job = stage.program[kernel].launch_async(1, 1, stream=stage.stream)
    ran = await vgcctl(*argv)
    await asyncio.to_thread(job.wait)
    return ran


EXPECTED: Final = "the sum is 5\nthe sum is 12\nthe sum is 112\ndone\n"


def test_replayed_input_makes_a_kernel_print_the_same_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    (stage.folder / "typed").write_bytes(b"5\n7\n100\nq")
    typed = (stage.folder / "typed").open(encoding="utf-8")
    request.addfinalizer(typed.close)
    monkeypatch.setattr(sys, "stdin", typed)
    hosts = (HostConfig("h1", address.parse(f"unix:{stage.socket}")),)
    recording = RecorderConfig(f"sqlite://{stage.folder}/recording.db")

    async def run() -> None:
        async with running(CentreConfig(hosts, ("127.0.0.1", 0), recorder=recording)) as (url, centre):
            await turns_until(lambda: centre.cluster.hosts["h1"].state == "up")
            first = await while_it_runs(stage, "adder", "send", "vm=web1", "--linger", "0.5", "--centre", url)
            assert (first.out, first.code) == (EXPECTED, 0)
            assert isinstance(centre.recorder, StoreRecorder)
            await centre.recorder.flush()
            again = await while_it_runs(
                stage, "adder", "replay", "vm=web1", "--feed", "--linger", "0.5", "--for", "4", "--centre", url
            )
            assert (again.out, again.code) == (EXPECTED, 0)

    asyncio.run(run())


def test_a_long_file_reaches_a_reader_that_takes_it_in_small_pieces(stage: Stage) -> None:
    path = stage.folder / "long"
    data = bytes(range(250)) * 160
    path.write_bytes(data)
    checksum = 0
    for byte in data:
        checksum = (31 * checksum + byte) & 0xFFFFFF
    argv = ("send", "vm=web1", "--file", str(path), "--eof", "--linger", "0.5", "--daemon", f"unix:{stage.socket}")
    ran = asyncio.run(while_it_runs(stage, "measurer", *argv))
    assert (ran.out, ran.code) == (f"{len(data)} bytes, checksum {checksum}\n", 0)


def test_stat_shows_the_busy_share_of_an_element(stage: Stage) -> None:
    flags = stage.device.zeros(2, "int32")
    job = stage.program["work"].launch_async(1 << 20, 1, flags, stream=stage.stream)
    while flags.get()[0] == 0:
        pass
    argv = ("stat", "vm=web1", "--for", "0.4s", "--json", "--daemon", f"unix:{stage.socket}")
    busy = [asyncio.run(vgcctl(*argv)).json for _ in range(2)]
    flags.set(np.array([1, 1], np.int32))
    job.wait()
    assert [(pe["pe"], 0.5 < pe["busy_share"] <= 1.0) for ran in busy for pe in ran] == [(0, True)] * 2, busy
    assert busy[1][0]["busy_ns"] > busy[0][0]["busy_ns"], "the second time the figures are new"
    (idle,) = asyncio.run(vgcctl(*argv)).json
    assert idle["busy_share"] == 0.0


def test_read_only_verbs_work_with_the_real_daemon(stage: Stage) -> None:
    async def run() -> None:
        daemon = f"unix:{stage.socket}"
        listing = await vgcctl("ls", "--json", "--daemon", daemon)
        assert [(vm["vm"], vm["pes"], vm["state"]) for vm in listing.json["vms"]] == [("web1", 1, "ready")]
        for argv in (
            ["stat", "--for", "0.2s"],
            ["watch", "--count", "1"],
            ["snap", "take"],
            ["fault"],
            ["migrate"],
            ["flash", "ls"],
            ["policy", "ls"],
            ["doctor"],
        ):
            ran = await vgcctl(*argv, "--daemon", daemon)
            assert ran.code == 0, (argv, ran.out, ran.err)

    asyncio.run(run())


def test_vm_shows_the_peak_of_its_memory_its_failures_and_its_compilations(stage: Stage) -> None:
    stage.device.zeros(1 << 20, "int32").free()
    with pytest.raises(vgc.CompileError):
        stage.device.compile("no program")
    argv = ("vm", "show", "web1", "--json", "--daemon", f"unix:{stage.socket}")
    until(lambda: "compile_failed" in asyncio.run(vgcctl(*argv)).json["failures"])
    vm = asyncio.run(vgcctl(*argv)).json
    assert vm["memory_used_bytes"] < 4 << 20 <= vm["memory_peak_bytes"] <= vm["memory_quota_bytes"]
    assert vm["failures"] == {"compile_failed": 1}
    assert vm["compilations"] == {"compiled": 1, "cached": 0, "failed": 1}
    assert vm["compile_ns"] > 0


def test_status_has_the_allotment_of_the_vm_that_runs(stage: Stage) -> None:
    argv = ("status", "--json", "--daemon", f"unix:{stage.socket}")
    ran = asyncio.run(vgcctl(*argv))
    (host,) = ran.json["hosts"]
    (gpu,) = (gpu for gpu in host["status"]["gpus"] if gpu["gpu"] == "cpu")
    assert (gpu["pes_allotted"], gpu["vms"], gpu["memory_allotted_bytes"]) == (1, 1, 64 * MIB)
    assert host["status"]["undecided"] == []
    assert 0 < host["status"]["started_ns"] < host["status"]["time_ns"]
    assert host["status"]["memory_allotted_bytes"] >= gpu["memory_allotted_bytes"]
    about_vm = [problem["what"] for problem in ran.json["problems"] if problem["vm"] == "web1"]
    assert any("never acknowledged its limits" in what for what in about_vm), "the stage's link knows nothing of limits"
    others = [problem["what"] for problem in ran.json["problems"] if problem["vm"] is None]
    assert all("vgcd did nothing" in what for what in others), (
        "a busy machine may hold the loop of a daemon in this process"
    )
    assert ran.code == 5


def test_top_has_the_functions_that_a_guest_launches(stage: Stage) -> None:
    flags = stage.device.to_device(np.array([0, 1], "int32"))
    argv = ("top", "vm=web1", "--functions", "--json", "--once", "--every", "0.2s", "--daemon", f"unix:{stage.socket}")

    async def launching() -> Ran:
        ran = asyncio.ensure_future(vgcctl(*argv))
        while not ran.done():
            await asyncio.to_thread(stage.program["work"].launch, 1, 1, flags)
        return ran.result()

    (row,) = asyncio.run(launching()).json["functions"]
    assert (row["vm"], row["function"]) == ("web1", "work")
    assert row["launches"] > 0
    assert 0 < row["mean_ns"] <= row["busy_ns"]
    assert 0 < row["busy_part"] <= 1
    assert row["p99_ns"] > 0
