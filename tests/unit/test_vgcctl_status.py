"""``vgcctl status``: one picture, what needs attention first, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from control_center import health
from control_center.cli.verbs import status
from tests.fakes.control_daemon import FakeDaemon
from tests.unit.test_vgcctl_centre import Cluster, with_centre
from tests.unit.vgcctl_rig import vgcctl, with_daemon
from virtio_proto.control import tokens

ATTENTION = 5


def test_host_without_problems_is_well(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, ran.lines[0]) == (0, "all is well")
        assert "h1: vgcd" in ran.out
        gpu = next(line for line in ran.lines if line.startswith("0  "))
        assert "4 of 4" in gpu
        assert "16 GiB of 141 GiB" in gpu
        assert "VMs: 2 (2 serving)" in ran.out
        assert "limits: control groups (version 2) hold each VM" in ran.out
        assert "recording: none" in ran.out
        found = (await vgcctl("status", "--json", "--daemon", daemon.url)).json
        assert (found["well"], found["problems"], found["recorder"]) == (True, [], None)
        assert found["hosts"][0]["status"]["gpus"][0]["pes_allotted"] == 4

    with_daemon(tmp_path, test)


@pytest.mark.parametrize(
    ("facts", "what", "remedy"),
    [
        ({"state": "failed"}, "its workers end before they are ready", "vgcctl worker reset h1/h1-vm0"),
        ({"state": "recovering"}, "its worker is gone", "vgcctl fault"),
        ({"state": "unresponsive"}, "does not answer", "vgcctl worker reset h1/h1-vm0"),
        ({"quiesced": True}, "is held", "vgcctl worker resume h1/h1-vm0"),
        ({"problem": "no user is free"}, "cannot be served: no user is free", "make room"),
        (
            {"ring_problem": "QEMU shares 1 MiB", "allotment_state": "never acknowledged"},
            "its guest cannot use the device: QEMU shares 1 MiB;",
            "give QEMU a region of the size that 'region' says",
        ),
        ({"allotment_state": "never acknowledged"}, "has never acknowledged", "update the driver"),
        ({"allotment_state": "wrong"}, "never got", "update the driver"),
        ({"pending": ["memory_bytes"]}, "do not hold yet: memory;", "vgcctl vm limits h1/h1-vm0"),
        (
            {"exceeded": ["memory_bytes", "queue_depth"]},
            "gets no more: memory, queue_depth;",
            "vgcctl vm limits h1/h1-vm0 --memory N --queue-depth N",
        ),
    ],
)
def test_what_needs_attention_comes_first_with_its_remedy(
    tmp_path: Path, facts: dict[str, Any], what: str, remedy: str
) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].more = facts
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, ran.lines[0]) == (ATTENTION, "needs attention: 1 thing")
        assert ran.lines[1].startswith("  h1/h1-vm0  ")
        assert what in ran.lines[1]
        assert remedy in ran.lines[1]
        assert "h1-vm1" not in ran.out

    with_daemon(tmp_path, test)


def test_faults_and_missing_control_groups_need_attention(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.no_cgroups = "version 2 is not mounted"
        for pe in (0, 0, 1):
            daemon.host.fault("h1-vm1", pe)
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, ran.lines[0]) == (ATTENTION, "needs attention: 2 things")
        assert "version 2 is not mounted; run vgcd as" in ran.lines[1]
        assert "h1/h1-vm1  fault kernel, 3 times" in ran.lines[2]
        assert "limits: of each process by itself" in ran.out
        await vgcctl("fault", "clear", "vm=h1-vm1", "--daemon", daemon.url)
        daemon.world.no_cgroups = ""
        assert (await vgcctl("status", "--daemon", daemon.url)).code == 0

    with_daemon(tmp_path, test)


def test_vms_that_were_to_stay_and_cannot_be_served_need_attention(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.left_out = {"web9": "vms.web9.socket is '/run/9'; allowed: another path"}
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, ran.lines[0]) == (ATTENTION, "needs attention: 1 thing")
        assert "h1/web9  was added to stay, and cannot be served: vms.web9.socket" in ran.lines[1]

    with_daemon(tmp_path, test)


def test_configuration_that_was_refused_needs_attention(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.reload_refused = "vms.web9.quota.pes is 0; allowed: 1 to 4096"
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, ran.lines[0]) == (ATTENTION, "needs attention: 1 thing")
        assert (
            "h1  goes on as before, as its configuration was refused when it was read again: vms.web9.quota"
            in ran.lines[1]
        )

    with_daemon(tmp_path, test)


def test_more_than_there_is_is_told_as_a_factor(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm1"].gpu = 0
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert "8 of 4 (2 times over)" in ran.out
        assert "which the configuration may exceed (overcommit)" in ran.out
        assert ran.code == 0  # it was allowed

    with_daemon(tmp_path, test)


def test_many_times_as_much_is_told_as_a_whole_number() -> None:
    assert [status._of(allotted, 2, str) for allotted in (2, 3, 8002)] == [
        "2 of 2",
        "3 of 2 (1.5 times over)",
        "8002 of 2 (4001 times over)",
    ]
    assert status._of(3, 0, str) == "3 of 0"


def test_caller_that_sees_some_vms_gets_no_allotments(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.host.status_problem = "status is about all VMs; allowed: a token without vms"
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert ran.code == 0
        assert daemon.host.status_problem in ran.err
        assert "VMs: 2 (2 serving)" in ran.out
        assert "limits:" not in ran.out

    with_daemon(tmp_path, test)


def test_unknown_host_is_refused(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("status", "h9", "--daemon", daemon.url)
        assert (ran.code, "no host h9; there is: h1" in ran.err) == (3, True)

    with_daemon(tmp_path, test)


def test_centre_tells_of_all_hosts_and_of_its_recorder(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("status")
        assert (ran.code, ran.lines[0]) == (ATTENTION, "needs attention: 1 thing")
        assert ran.lines[1].startswith("  dead  is down: ")
        assert "is vgcd running there?" in ran.lines[1]
        assert {line.partition(":")[0] for line in ran.lines if ": vgcd" in line} == {"h1", "h2", "dead"}
        assert f"recording: sqlite://{tmp_path}/recording.db" in ran.lines[-1]
        assert "no allotments: dead: " not in ran.err  # that it is down was told
        one = await cluster.run("status", "h2")
        assert (one.code, "h1" in one.out) == (0, False)

    with_centre(tmp_path, test, gone=("dead",))


def test_owner_of_a_vm_gets_its_own_vm_and_no_allotments_of_hosts(tmp_path: Path) -> None:
    secret, token = tokens.new("view", frozenset({"h1-vm0"}), None, "owner")

    async def test(cluster: Cluster) -> None:
        cluster.daemons[0].world.vms["h1-vm1"].state = "failed"
        ran = await cluster.run("status", "--token", secret)
        assert ran.code == 0
        assert "VMs: 1 (1 serving)" in ran.out
        assert "limits:" not in ran.out

    with_centre(tmp_path, test, token.line())


def test_states_of_vms_are_counted_in_words() -> None:
    found = [
        health.state_of(vm)
        for vm in (
            {"state": "ready"},
            {"state": "ready", "quiesced": True},
            {"state": "ready", "origin": "leaving"},
            {"state": "stopped", "origin": "file"},
            {"state": "recovering"},
            {"state": "failed"},
            {"state": "migrating"},
        )
    ]
    assert found == ["serving", "held", "ending", "waiting for QEMU", "being replaced", "down", "migrating"]


WELL: Final = {
    "left_out": 0,
    "failures": 0,
    "failure": None,
    "ended": None,
    "free_bytes": 1 << 40,
    "queued_bytes": 0,
    "lag_ns": 10**9,
}
"""Status of a recorder that is well, as far as its health goes."""


def test_recorder_needs_attention_while_it_is_not_well() -> None:
    def told(**facts: Any) -> list[str]:
        return [problem.what for problem in health.of_recorder(WELL | facts)]

    failure = {"error": "disk is full", "from_ns": 1, "to_ns": None}
    assert list(health.of_recorder(None)) == []
    assert told() == []
    assert told(free_bytes=None) == []
    assert told(ended={"error": "KeyError: 'x'", "at_ns": 7}, lag_ns=1 << 62, left_out=7) == [
        "the recorder has ended, and nothing is recorded any more: KeyError: 'x'"
    ]
    assert told(left_out=7) == ["the recorder was too slow, and left out 7 batches and events"]
    assert told(free_bytes=2 << 20) == ["the recorder's disk is nearly full: 2.0 MiB are free"]
    assert told(lag_ns=11 * 10**9) == ["the recorder is 11 s behind"]
    assert told(failures=1, failure=failure, lag_ns=1 << 62, free_bytes=0, queued_bytes=1 << 19) == [
        "the recorder cannot write: disk is full; 0.5 MiB wait in memory"
    ]
    assert told(failures=2, failure={**failure, "to_ns": 5}) == []
    assert told(failures=2, failure={**failure, "to_ns": 5}, left_out=3) == [
        "the recorder was too slow, or could not write (2 times), and left out 3 batches and events"
    ]
