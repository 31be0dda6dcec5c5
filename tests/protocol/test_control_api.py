"""The control system end to end: its API, the real daemon, real workers, kernels of guests on the CPU engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.api_caller import Reader
from tests.fakes.api_client import ApiRefusedError
from tests.protocol.control_rig import Stage, control_stage
from vhost_backend.control.functions.modules import MODULES
from virtio_proto.control import records
from virtio_proto.control.verbs.channels import Open

VMS: Final = ("web1", "web2")
PES: Final = 2
SOURCE: Final = r"""
#include <vgc.h>
extern "C" __global__ void talk(int n) {
    for (int i = 0; i < n; i++)
        printf("line %d of block %d\n", i, blockIdx.x);
}
extern "C" __global__ void logs() {
    vgc_log(VGC_ERROR, "failed with %d", 7);
    vgc_log(VGC_DEBUG, "detail %s", "here");
}
extern "C" __global__ void chatters(int n) {
    for (int i = 0; i < n; i++)
        vgc_log(VGC_INFO, "line %d", i);
}
extern "C" __global__ void counts(float *out) {
    vgc_count("cells", 10);
    vgc_gauge("heat", 1.5);
    out[blockIdx.x] = blockIdx.x;
}
extern "C" __global__ void echo(char *out, int *length) {
    char c = 0;
    while (c != '\n')
        if (vgc_read(&c, 1) == 1)
            out[(*length)++] = c;
    vgc_printf("read %d bytes", *length);
}
extern "C" __global__ void spin(volatile int *flags) {
    flags[0] = 1;
    while (flags[1] == 0) { }
}
extern "C" __global__ void complain() { vgc_fault(3, "odd value %d", 42); }
extern "C" __global__ void bad() { *(volatile int *)8 = 1; }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with control_stage(tmp_path_factory.mktemp("control"), VMS, SOURCE, PES, budget_percent=100.0) as stage:
        yield stage


@pytest.fixture
def stage(made: Stage) -> Stage:
    made.renew()
    return made


# ---- functions -----------------------------------------------------------------------------------


def test_prints_of_a_vm_reach_the_client_that_opened_them(stage: Stage) -> None:
    with stage.caller() as caller:
        reader = Reader(caller, caller.open("vm=web1,fn=stdio"))
        stage.guests["web2"].program["talk"][1, 1](5)
        stage.guests["web1"].program["talk"][2, 1](2)
        said = reader.texts(4)
        assert sorted(said) == [f"line {i} of block {b}\n" for i in range(2) for b in range(2)]
        assert reader.vms == {"web1"}


def test_channel_is_bound_into_a_kernel_that_runs(stage: Stage) -> None:
    guest = stage.guests["web1"]
    flags = guest.device.zeros(2, "int32")
    job = guest.program["spin"].launch_async(1, 1, flags, stream=guest.stream)
    while flags.get()[0] == 0:
        pass
    with stage.caller() as caller:
        caller.open("vm=web1,fn=stdio")
        seen = caller.ask("snapshot", selector="vm=web1")
        assert [pe["kernel"] for pe in seen["pes"]].count("spin") == 1
        assert (seen["coverage"], seen["silent"]) == (1.0, [])
    flags.set(np.array([1, 1], np.int32))
    job.wait()


def test_log_keeps_the_requested_level(stage: Stage) -> None:
    with stage.caller() as caller:
        few = Reader(caller, caller.open("vm=web1,fn=log", level=records.Level.ERROR))
        stage.guests["web1"].program["logs"][1, 1]()
        assert few.texts(1) == ["failed with 7"]
        every = Reader(caller, caller.open("vm=web1,fn=log", level=records.Level.DEBUG))
        stage.guests["web1"].program["logs"][1, 1]()
        assert every.texts(2) == ["failed with 7", "detail here"]
        assert few.texts(1) == ["failed with 7"]


def test_kernel_waits_for_room_under_the_waiting_policy(stage: Stage) -> None:
    with stage.caller() as caller:
        reader = Reader(caller, caller.open("vm=web1,fn=log", policy="wait", slots=8))
        stage.guests["web1"].program["chatters"][1, 1](500)
        assert reader.texts(500) == [f"line {i}" for i in range(500)]


def test_figures_come_once_where_no_period_is_asked_for(stage: Stage) -> None:
    assert MODULES["perf"].terms(Open.Request(selector="fn=perf", period_ms=0)).period_ns == 0
    with stage.caller() as caller:
        once = caller.open("vm=web1,fn=perf", level=records.Level.CRITICAL, period_ms=0)
        Reader(caller, once).texts(PES)
        Reader(caller, caller.open("vm=web1,fn=load", period_ms=10)).texts(5 * PES)
        caller.ask("close", instance=once)
        assert caller.left(once) == []


def test_typed_input_reaches_the_kernel_that_waits_for_it(stage: Stage) -> None:
    guest = stage.guests["web1"]
    with stage.caller() as caller:
        instance = caller.open("vm=web1,fn=stdio")
        out, length = guest.device.zeros(16, "int8"), guest.device.zeros(1, "int32")
        job = guest.program["echo"].launch_async(1, 1, out, length, stream=guest.stream)
        wants = caller.event("wants_input")
        caller.ask("send", instance=instance, data=b"typed\n", pe=wants["detail"]["pe"])
        told = caller.event("input")["detail"]
        assert (told["data"], told["pe"]) == (b"typed\n", wants["detail"]["pe"])
        job.wait()
        assert bytes(out.get()[: length.get()[0]]) == b"typed\n"
        reader = Reader(caller, instance)
        while reader.next()[1] != "read 6 bytes":
            pass


def test_counters_move_while_perf_is_open(stage: Stage) -> None:
    guest = stage.guests["web1"]
    out = guest.device.zeros(64, "float32")
    with stage.caller() as caller:
        reader = Reader(caller, caller.open("vm=web1,fn=perf", level=records.Level.CRITICAL, period_ms=20))
        guest.program["counts"][64, 1](out)
        stats: list[dict[str, Any]] = []
        while sum(pe["blocks"] for pe in stats) < 64:
            reader.next()
            stats = caller.ask("stat", selector="vm=web1")["pes"]
        assert sum(pe["blocks"] for pe in stats) == 64
        assert sum(pe["counters"].get("cells", 0) for pe in stats) == 640
        assert {pe["gauges"]["heat"] for pe in stats if pe["blocks"]} == {1.5}
        assert out.get()[63] == 63


def test_fault_that_a_kernel_reports_is_listed(stage: Stage) -> None:
    with stage.caller() as caller:
        caller.open("vm=web1,fn=fault")
        stage.guests["web1"].program["complain"][1, 1]()
        told = caller.event("fault")["detail"]
        assert (told["kind"], told["text"], told["vm"]) == ("user", "odd value 42", "web1")


# ---- workers come and go -------------------------------------------------------------------------


def test_killed_worker_is_a_fault_and_takes_no_instance_with_it(stage: Stage) -> None:
    guest = stage.guests["web1"]
    with stage.caller() as caller:
        instance = caller.open("vm=web1,fn=stdio")
        guest.program["talk"][1, 1](3)
        reader = Reader(caller, instance)
        reader.texts(3)
        stage.kill_worker("web1")
        caller.event("worker_lost")
        told = caller.event("fault")["detail"]
        assert (told["kind"], told["pe"], told["text"]) == ("death", None, "the worker was killed by SIGKILL")
        caller.event("worker_ready")
        guest.link.wait_ready(guest.generation + 1)
        guest.renew()
        guest.program["talk"][1, 1](2)
        assert reader.texts(2) == ["line 0 of block 0\n", "line 1 of block 0\n"]
        (info,) = caller.ask("ls")["instances"]
        assert sum(channel["records"] for channel in info["channels"]) == 5


def test_records_of_a_kernel_that_killed_its_worker_arrive(stage: Stage) -> None:
    guest = stage.guests["web1"]
    with stage.caller() as caller:
        reader = Reader(caller, caller.open("vm=web1,fn=stdio"))
        guest.program["talk"][1, 1](2)
        with pytest.raises(vgc.VgcError):
            guest.program["bad"][1, 1]()
        assert reader.texts(2) == ["line 0 of block 0\n", "line 1 of block 0\n"]
        told = caller.event("fault")["detail"]
        assert (told["kind"], told["vm"]) == ("kernel", "web1")
        caller.event("worker_ready")


def test_reset_worker_replaces_it(stage: Stage) -> None:
    with stage.caller() as caller:
        caller.ask("reset_worker", vm="web2")
        caller.event("worker_lost")
        assert caller.event("worker_ready")["vm"] == "web2"


def test_quiesced_vm_waits_until_it_is_resumed(stage: Stage) -> None:
    guest = stage.guests["web1"]
    out = guest.device.zeros(1, "float32")
    with stage.caller() as caller:
        caller.ask("quiesce", vm="web1")
        job = guest.program["counts"].launch_async(1, 1, out, stream=guest.stream)
        assert caller.ask("topology")["vms"][0]["quiesced"]
        assert not job.done()
        caller.ask("resume", vm="web1")
        job.wait()


# ---- floods and owners ---------------------------------------------------------------------------


def test_flood_is_accounted_for_record_by_record(stage: Stage) -> None:
    lines = 20_000
    with stage.caller() as caller:
        instance = caller.open("vm=web1,fn=stdio")
        stage.guests["web1"].program["talk"][1, 1](lines)
        (last,) = [caller.ask("close", instance=instance)]
        counts = [(c["records"], c["lost"], c["skipped"], c["forged"]) for c in last["channels"]]
        assert sum(records + lost + skipped for records, lost, skipped, _ in counts) == lines
        assert sum(forged for *_, forged in counts) == 0
        stage.guests["web2"].program["talk"][1, 1](1)


def test_owner_of_one_vm_sees_nothing_of_the_other(stage: Stage) -> None:
    with stage.caller("web1") as owner:
        assert [vm["vm"] for vm in owner.ask("topology")["vms"]] == ["web1"]
        reader = Reader(owner, owner.open("fn=stdio"))
        with pytest.raises(ApiRefusedError, match="no VM web2; there is: web1"):
            owner.ask("open", selector="vm=web2,fn=stdio")
        stage.guests["web2"].program["talk"][1, 1](1)
        stage.guests["web1"].program["talk"][1, 1](1)
        reader.texts(1)
        assert reader.vms == {"web1"}
