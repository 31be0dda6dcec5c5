"""VMs that are added to a running `vgcd` without a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.fakes.api_client import ApiRefusedError
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.test_reload import MEMORY_MIB, Host, is_reached, memory_of
from tests.protocol.test_vgcd import vgcd, wait_for
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from virtio_proto.schema import Health, Opcode, Status

pytestmark = needs_walls

DEFAULTS = {"engine": "null", "sandbox": "best-effort", "region": REGION_BYTES, "num_queues": 1}


class AddingHost(Host):
    """A `vgcd` with a control system and a state folder; its VMs' settings are defaults."""

    caller: ApiCaller

    def write(self, vms: dict[str, dict[str, Any]], **others: Any) -> None:
        own = {"control": {"socket": str(self.folder / "control")}, "state": str(self.folder / "state")}
        super().write(vms, **{**own, "defaults": DEFAULTS, **others})

    def add(self, name: str, **settings: Any) -> dict[str, Any]:
        done: dict[str, Any] = self.caller.ask("add_vm", vm=name, **{"socket": str(self.socket(name)), **settings})
        return done

    def refusal(self, name: str, **settings: Any) -> str:
        with pytest.raises(ApiRefusedError) as refused:
            self.add(name, **settings)
        return str(refused.value)

    def origins(self) -> dict[str, str]:
        return {vm["vm"]: vm["origin"] for vm in self.caller.ask("topology")["vms"]}


@contextlib.contextmanager
def running(host: AddingHost) -> Iterator[list[dict[str, object]]]:
    """Runs the daemon; gives the log's events until it serves."""
    with vgcd("run", "--config", str(host.file)) as host.process:
        events = []
        assert host.process.stderr is not None
        for line in host.process.stderr:
            events.append(json.loads(line))
            if events[-1]["event"] == "serving":
                break
        until(lambda: is_reached(host.folder / "control"))
        with ApiCaller(host.folder / "control") as host.caller:
            yield events
        host.process.terminate()
        assert host.process.wait(ANSWERS_WITHIN_S) == 0


@pytest.fixture
def host(tmp_path: Path) -> AddingHost:
    made = AddingHost(tmp_path)
    made.write({"a": {}})
    return made


def is_served(host: AddingHost, name: str) -> bool:
    with FakeVm(host.socket(name)) as vm:
        vm.frontend.wait_health(Health.READY)
        return vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK


def test_added_vm_is_served_and_others_notice_nothing(host: AddingHost) -> None:
    with running(host), FakeVm(host.socket("a")) as old:
        old.frontend.wait_health(Health.READY)
        host.caller.ask("subscribe", events=True)
        assert host.add("b", memory="32M")["added"] == ["b"]
        assert host.caller.event("vm_added")["vm"] == "b"
        assert host.origins() == {"a": "file", "b": "added"}
        with FakeVm(host.socket("b")) as new:
            new.frontend.wait_health(Health.READY)
            assert memory_of(new) == 32 << 20
        assert old.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        assert host.caller.ask("remove_vm", vm="b")["removed"] == ["b"]
        assert host.caller.event("vm_left")["vm"] == "b"
        until(lambda: host.origins() == {"a": "file"})
        assert not host.socket("b").exists()


def test_host_begins_without_vms_and_loses_its_last_one(host: AddingHost) -> None:
    host.write({})
    with running(host):
        assert host.origins() == {}
        assert [gpu["pes"] for gpu in host.caller.ask("topology")["gpus"]] == [os.cpu_count()]
        for _ in range(2):
            assert host.add("b")["added"] == ["b"]
            assert is_served(host, "b")
            host.caller.ask("remove_vm", vm="b")
            until(lambda: host.origins() == {})
            host.settle([])
        host.write({"a": {}})
        assert host.reload()["added"] == ["a"]
        with FakeVm(host.socket("a")) as vm:
            vm.frontend.wait_health(Health.READY)
            host.write({})
            assert host.reload()["waiting"] == ["a"]
        assert wait_for(host.process, "vm_left")["vm"] == "a"
        assert host.origins() == {}
        assert host.add("b")["added"] == ["b"]
        assert is_served(host, "b")


def test_vm_on_the_command_line_is_not_removed(tmp_path: Path) -> None:
    options = ["--socket-path", str(tmp_path / "s"), "--engine", "null", "--sandbox", "best-effort"]
    with vgcd(*options, "--control-socket", str(tmp_path / "control"), "--log-format", "json") as process:
        wait_for(process, "serving")
        until(lambda: is_reached(tmp_path / "control"))
        with ApiCaller(tmp_path / "control") as caller:
            with pytest.raises(ApiRefusedError, match="vm is the only VM; allowed: to end vgcd, or to add another one"):
                caller.ask("remove_vm", vm="vm")
            assert [vm["vm"] for vm in caller.ask("topology")["vms"]] == ["vm"]


def test_added_vm_outlasts_reloads(host: AddingHost) -> None:
    with running(host):
        host.add("b")
        host.write({"a": {}, "c": {}})
        assert host.reload()["added"] == ["c"]
        assert host.origins() == {"a": "file", "b": "added", "c": "file"}
        host.write({"a": {}, "b": {}})
        assert host.caller.ask("reload_vms")["removed"] == ["c"]
        assert host.origins() == {"a": "file", "b": "file"}
        host.write({"a": {}})
        assert host.caller.ask("reload_vms")["removed"] == ["b"]


def test_mistakes_change_nothing_and_are_named(host: AddingHost, tmp_path: Path) -> None:
    host.write({"a": {}}, overcommit=False)
    with running(host):
        assert "vms.a is served already; allowed: a name that no VM has" in host.refusal("a", socket="/x")
        assert "allowed: a path that vms.a does not use" in host.refusal("b", socket=str(host.socket("a")))
        (tmp_path / "alias").symlink_to(tmp_path)
        alias = str(tmp_path / "alias" / "a.sock")
        assert "allowed: a path that vms.a does not use" in host.refusal("b", socket=alias)
        assert "vms.b.quota.pes is 0; allowed: an integer" in host.refusal("b", pes=0)
        assert "vms.b.socket is 'b.sock'; allowed: an absolute path" in host.refusal("b", socket="b.sock")
        assert "the VM b may use 4000 processing elements" in host.refusal("b", engine="cpu", pes=4000)
        assert "there is no folder /nowhere" in host.refusal("b", socket="/nowhere/b.sock", persist=True)
        assert host.origins() == {"a": "file"}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sock", "alias", "cache", "control", "vgcd.yaml"]


def test_vm_of_the_file_with_an_added_vms_socket_is_refused(host: AddingHost) -> None:
    with running(host):
        host.add("b")
        host.write({"a": {}, "c": {"socket": str(host.socket("b"))}})
        assert "vms.b.socket is" in host.refused()[0]
        assert is_served(host, "b")


def test_persisted_vm_outlasts_the_daemon_until_it_is_removed(host: AddingHost) -> None:
    with running(host):
        host.add("b", memory="32M", persist=True)
        host.add("c")
    with running(host):
        assert host.origins() == {"a": "file", "b": "persisted"}
        with FakeVm(host.socket("b")) as vm:
            vm.frontend.wait_health(Health.READY)
            assert memory_of(vm) == 32 << 20
        assert host.reload()
        host.caller.ask("remove_vm", vm="b")
    with running(host):
        assert host.origins() == {"a": "file"}


def test_limits_of_an_added_vm_stay_over_reloads_and_those_of_a_persisted_one_over_restarts(host: AddingHost) -> None:
    def memory(name: str) -> int:
        return int(host.caller.ask("show_limits", vm=name)["configured"]["memory_bytes"]) >> 20

    with running(host):
        host.add("b", memory="32M", persist=True)
        host.add("c", memory="32M")
        for name in "abc":
            host.caller.ask("set_limits", vm=name, memory_bytes=48 << 20)
        host.caller.ask("reload_vms")
        assert {name: memory(name) for name in "abc"} == {"a": MEMORY_MIB, "b": 48, "c": 48}
    with running(host):
        assert (memory("b"), host.origins()) == (48, {"a": "file", "b": "persisted"})


def test_persisted_vm_that_the_file_names_is_the_files(host: AddingHost) -> None:
    with running(host):
        host.add("b", persist=True)
        host.write({"a": {}, "b": {}})
        host.reload()
        assert host.origins() == {"a": "file", "b": "file"}
        host.write({"a": {}})
    with running(host):
        assert host.origins() == {"a": "file"}


def test_daemon_starts_without_the_added_vms_that_it_cannot_serve(host: AddingHost) -> None:
    with running(host):
        for name in "bcd":
            host.add(name, persist=True)
    host.write({"a": {}, "x": {"socket": str(host.socket("b"))}})
    host.socket("c").mkdir()
    with running(host) as events:
        left_out = {event["vm"]: event for event in events if event["event"] == "added_vm_not_served"}
        assert left_out.keys() == {"b", "c"}
        assert "a path that vms.x does not use" in str(left_out["b"]["problems"])
        assert host.origins() == {"a": "file", "x": "file", "d": "persisted"}
        assert is_served(host, "d")
        told = host.caller.ask("status")["left_out"]
        assert told.keys() == {"b", "c"}
        assert "a path that vms.x does not use" in told["b"]
        host.add("e", persist=True)  # the others stay in the state file
    host.write({"a": {}})
    host.socket("c").rmdir()
    with running(host):
        assert host.origins().keys() == {"a", "b", "c", "d", "e"}
        assert "left_out" not in host.caller.ask("status")


def test_vm_that_cannot_be_served_is_forgotten_when_another_has_its_name(host: AddingHost) -> None:
    with running(host):
        host.add("b", persist=True)
    host.socket("b").mkdir()
    with running(host):
        assert host.caller.ask("status")["left_out"].keys() == {"b"}
        host.caller.ask("add_vm", vm="b", socket=str(host.socket("elsewhere")))
        host.caller.ask("remove_vm", vm="b")
        assert "left_out" not in host.caller.ask("status")
        host.socket("b").rmdir()
        assert host.caller.ask("reload_vms")["added"] == []


def test_vms_that_cannot_be_served_are_tried_again_or_forgotten(host: AddingHost) -> None:
    with running(host):
        for name in "bc":
            host.add(name, persist=True)
    for name in "bc":
        host.socket(name).mkdir()
    with running(host):
        assert host.caller.ask("status")["left_out"].keys() == {"b", "c"}
        assert host.caller.ask("reload_vms")["added"] == []
        host.socket("b").rmdir()
        assert host.caller.ask("reload_vms")["added"] == ["b"]
        assert is_served(host, "b")
        assert host.caller.ask("status")["left_out"].keys() == {"c"}
        assert host.caller.ask("remove_vm", vm="c")["removed"] == ["c"]
        assert "left_out" not in host.caller.ask("status")
        with pytest.raises(ApiRefusedError, match="no VM"):
            host.caller.ask("remove_vm", vm="c")
    host.socket("c").rmdir()
    host.socket("b").unlink(missing_ok=True)
    host.socket("b").mkdir()
    with running(host):
        assert host.caller.ask("status")["left_out"].keys() == {"b"}
        host.write({"a": {}, "b": {"socket": str(host.socket("x"))}})
        host.caller.ask("reload_vms")
        assert host.origins() == {"a": "file", "b": "file"}
        assert "left_out" not in host.caller.ask("status"), "the file has a VM of its name"
        assert host.caller.ask("remove_vm", vm="b")["removed"] == ["b"]
        assert host.origins() == {"a": "file"}


def test_damaged_state_is_told_and_kept(host: AddingHost, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    state = tmp_path / "state" / "added-vms.json"
    state.write_text("{")
    with running(host) as events:
        (event,) = [event for event in events if event["event"] == "added_vms_lost"]
        assert str(state) in str(event["problem"])
        assert "allowed: a file that vgcd wrote, or none" in host.refusal("b", persist=True)
        assert host.origins() == {"a": "file"}
        host.add("b")
    assert state.read_text() == "{"


def test_daemon_without_a_file_serves_added_vms_while_it_runs(tmp_path: Path) -> None:
    host = AddingHost(tmp_path)
    options = ("--engine", "null", "--sandbox", "best-effort", "--log-format", "json")
    control = str(tmp_path / "control")
    with vgcd("--socket-path", str(host.socket("vm")), *options, "--control-socket", control) as host.process:
        wait_for(host.process, "serving")
        until(lambda: is_reached(tmp_path / "control"))
        with ApiCaller(tmp_path / "control") as host.caller:
            settings = {"engine": "null", "sandbox": "best-effort", "region": "16M", "num_queues": 1}
            assert "b cannot persist: vgcd has no configuration file" in host.refusal("b", persist=True, **settings)
            host.add("b", **settings)
            assert host.origins() == {"vm": "command line", "b": "added"}
            assert is_served(host, "b")
            host.caller.ask("remove_vm", vm="vm")
            until(lambda: host.origins() == {"b": "added"})
        host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(ANSWERS_WITHIN_S) == 0


def test_vm_that_a_policy_is_to_migrate_must_be_one_that_can_be(host: AddingHost, tmp_path: Path) -> None:
    """Policies of the configuration hold for added VMs, and those that clients put in force for all that come later."""
    policy = {"name": "p", "action": "migrate"}
    refused = "p is to migrate vms.b: VMs on the engine cuda cannot be migrated yet"
    control = {"socket": str(tmp_path / "control")}
    host.write({"a": {}}, control={**control, "policies": [policy]})
    with running(host):
        assert refused in host.refusal("b", engine="cuda")
        host.add("c", engine="null")
        assert host.origins() == {"a": "file", "c": "added"}
    host.write({"a": {}})
    with running(host):
        host.caller.ask("set_policies", policies=[policy])
        assert refused in host.refusal("b", engine="cuda")
        host.write({"a": {}, "b": {"engine": "cuda"}})
        with pytest.raises(ApiRefusedError) as error:
            host.caller.ask("reload_vms")
        assert refused in str(error.value)
        host.caller.ask("set_policies", policies=[{**policy, "selector": "vm=a"}])
        assert host.caller.ask("reload_vms")["added"] == ["b"]
