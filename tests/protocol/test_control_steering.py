"""Automatic actions on real workers: policies about faults, hung elements, migrations to balance the load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.api_caller import ApiCaller
from tests.protocol.control_rig import Guest, Stage, control_stage
from vhost_backend.control.load.meter import SUSTAINED_NS, Sample
from vhost_backend.daemon.server import Daemon
from virtio_proto.control.frames import Frame

VMS: Final = ("web1", "web2")
PES: Final = (os.cpu_count() or 1) + 1
"""Elements of each VM: together more than the host has processors."""
SOURCE: Final = r"""
#include <vgc.h>
extern "C" __global__ void complain(int code) { vgc_fault(code, "odd value"); }
extern "C" __global__ void add(int *out, int n) { out[blockIdx.x] += n; }
extern "C" __global__ void stuck(int *out) {
    if (threadIdx.x < 16)
        out[0] = __shfl_sync(~0u, 1, 0);
    else
        __syncthreads();
}
extern "C" __global__ void spin(volatile int *flags) {
    flags[0] = 1;
    while (flags[1] == 0) { }
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("steering")
    with control_stage(folder, VMS, SOURCE, PES, hung_after_ns=100_000_000) as stage:
        yield stage


@pytest.fixture
def stage(made: Stage) -> Iterator[Stage]:
    made.renew()
    yield made
    with made.caller() as caller:
        caller.ask("set_policies", policies=[])
        caller.ask("clear_faults")


@pytest.fixture
def caller(stage: Stage) -> Iterator[ApiCaller]:
    with stage.caller() as connected:
        yield connected


def set_policy(caller: ApiCaller, **policy: Any) -> None:
    caller.ask("set_policies", policies=[{"name": "p", "selector": "vm=web1", **policy}])


def begin_to_spin(guest: Guest) -> tuple[vgc.DeviceArray, vgc.Job]:
    """Starts a kernel that runs until ``flags[1]`` is not 0; returns its flags and job once it runs."""
    flags = guest.device.zeros(2, "int32")
    job = guest.program["spin"].launch_async(1, 1, flags, stream=guest.stream)
    while flags.get()[0] == 0:
        pass
    return flags, job


def add_up(guest: Guest) -> vgc.DeviceArray:
    """Runs a kernel that adds to an array; returns the array."""
    numbers = guest.device.zeros(8, "int32")
    guest.program["add"][8, 1](numbers, 1)
    return numbers


# ---- policies ------------------------------------------------------------------------------------


def test_alert_is_announced_and_disturbs_nothing(stage: Stage, caller: ApiCaller) -> None:
    guest = stage.guests["web1"]
    set_policy(caller, kinds=["user"])
    caller.open("vm=web1,fn=fault")
    guest.program["complain"][1, 1](1)
    acted = caller.event("policy_acted")
    assert (acted["vm"], acted["detail"]["action"], acted["detail"]["result"]) == ("web1", "alert", "told")
    assert guest.device.info().generation == guest.generation


def test_quiesce_holds_the_vm_of_the_fault_and_no_other(stage: Stage, caller: ApiCaller) -> None:
    guest = stage.guests["web1"]
    numbers = guest.device.zeros(8, "int32")
    set_policy(caller, kinds=["user"], trigger="sustained", count=2, action="quiesce")
    caller.open("vm=web1,fn=fault")
    caller.ask("confine", vm="web1", pes="0")  # `sustained` counts by element
    guest.program["complain"][1, 1](1)
    assert not caller.ask("topology")["vms"][0]["quiesced"], "once is not twice"
    guest.program["complain"][1, 1](1)
    assert "no new requests" in caller.event("policy_acted")["detail"]["result"]
    job = guest.program["add"].launch_async(8, 1, numbers, 1, stream=guest.stream)
    add_up(stage.guests["web2"])
    assert [vm["quiesced"] for vm in caller.ask("topology")["vms"]] == [True, False]
    assert not job.done()
    caller.ask("resume", vm="web1")
    job.wait()
    assert numbers.get().tolist() == [1] * 8
    caller.ask("confine", vm="web1")


def test_hung_element_is_found_by_snapshots_and_its_worker_reset(stage: Stage, caller: ApiCaller) -> None:
    guest, other = (stage.guests[vm] for vm in VMS)
    before = other.generation
    _, job = begin_to_spin(guest)
    set_policy(caller, kinds=["hung"], action="reset")
    told = caller.event("fault")["detail"]
    assert (told["kind"], told["vm"]) == ("hung", "web1")
    assert "of spin" in told["text"]
    assert caller.event("policy_acted")["detail"]["result"] == "worker replaced"
    with pytest.raises(vgc.VgcError):
        job.wait()
    assert {fault["kind"] for fault in caller.ask("faults")["faults"]} == {"hung"}, "not its deadline ended it"
    guest.renew()
    assert add_up(guest).get().tolist() == [1] * 8
    assert other.device.info().generation == before


def test_migrate_policy_migrates_the_vm_with_its_memory(stage: Stage, caller: ApiCaller) -> None:
    guest = stage.guests["web1"]
    numbers = add_up(guest)
    set_policy(caller, kinds=["user"], action="migrate", target="pes:0")
    caller.open("vm=web1,fn=fault")
    guest.program["complain"][1, 1](1)
    assert caller.event("policy_acted")["detail"]["result"].startswith("migrated from")
    assert [vm["pes"] for vm in caller.ask("topology")["vms"]] == [1, PES]
    guest.program["add"][8, 1](numbers, 2)
    assert numbers.get().tolist() == [3] * 8
    assert guest.device.info().generation == guest.generation, "the guest has not noticed"
    move(caller, "web1", range(PES))


def move(caller: ApiCaller, vm: str, pes: range) -> None:
    number = caller.ask("migrate", vm=vm, pes=f"0-{pes[-1]}")["migration"]
    assert end_of_move(caller, number) == "done"


def end_of_move(caller: ApiCaller, number: int) -> str:
    def ends(frame: Frame) -> bool:
        detail = frame.get("detail", {})
        return frame.get("event") == "migration" and detail["migration"] == number and detail["ended_ns"] is not None

    return str(caller.push(ends)["detail"]["state"])


def test_deadlock_is_a_fault_of_its_own_kind(stage: Stage, caller: ApiCaller) -> None:
    guest = stage.guests["web1"]
    caller.open("vm=web1,fn=fault")
    with pytest.raises(vgc.VgcError):
        guest.program["stuck"][1, 32](guest.device.zeros(1, "int32"))
    told = caller.event("fault")["detail"]
    assert (told["kind"], told["vm"]) == ("deadlock", "web1")
    assert "__syncthreads()" in told["advice"]
    caller.ask("reset_worker", vm="web1")
    assert caller.event("worker_ready")["vm"] == "web1"


# ---- load ----------------------------------------------------------------------------------------


def test_load_follows_the_running_kernels(stage: Stage, caller: ApiCaller) -> None:
    flags, job = begin_to_spin(stage.guests["web1"])
    load = caller.ask("load")
    while load["vms"]["web1"] == 0:
        load = caller.ask("load")
    flags.set(np.array([1, 1], np.int32))
    job.wait()
    assert sum(busy > 0 for busy in load["pes"]["web1"]) == 1
    assert load["host"] > 0
    assert load["vms"]["web2"] == 0


def test_balance_migrates_an_idle_vm_to_fewer_elements(stage: Stage, caller: ApiCaller) -> None:
    """All elements of one VM were busy and all of the other idle; together they have too many elements for the host."""
    numbers = add_up(stage.guests["web2"])

    def busy(daemon: Daemon) -> None:
        assert daemon.control is not None
        now_ns = daemon.control.registry.clock_ns()
        for passed_ns in (1, SUSTAINED_NS):
            for vm, part in (("web1", 1.0), ("web2", 0.0)):
                spent = dict.fromkeys(range(PES), int(part * passed_ns))
                daemon.control.load.meter(vm).note(Sample(now_ns + passed_ns, spent))

    def moves(*, apply: bool) -> list[dict[str, Any]]:
        stage.daemon.ask(busy)
        return list(caller.ask("balance", apply=apply)["moves"])

    assert moves(apply=False)[0]["migration"] is None
    (proposed,) = moves(apply=True)
    assert (proposed["vm"], proposed["target"]) == ("web2", "cpu, 1 PEs")
    assert end_of_move(caller, proposed["migration"]) == "done"
    assert [vm["pes"] for vm in caller.ask("topology")["vms"]] == [PES, 1]
    stage.guests["web2"].program["add"][8, 1](numbers, 2)
    assert numbers.get().tolist() == [3] * 8
    move(caller, "web2", range(PES))
