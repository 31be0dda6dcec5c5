"""VMs that come and go while the daemon runs: SIGHUP has `vgcd` read its configuration again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.fakes.api_client import ApiRefusedError
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.frontend import FakeFrontend
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.test_cpu_requests import Program
from tests.protocol.test_vgcd import alive, vgcd, wait_for
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, Status

pytestmark = needs_walls

MEMORY_MIB = 16


class Host:
    """A running `vgcd` and its configuration file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "vgcd.yaml"
        self.process: subprocess.Popen[str]

    def write(self, vms: dict[str, dict[str, Any]], **others: Any) -> None:
        common = {"engine": "null", "sandbox": "best-effort", "region": REGION_BYTES, "num_queues": 1}
        sections = {
            name: {
                **common,
                "socket": str(self.socket(name)),
                "quota": {"memory": f"{MEMORY_MIB}M"},
                **settings,
            }
            for name, settings in vms.items()
        }
        root = {"vms": sections, "cache": str(self.folder / "cache"), "log": {"format": "json"}, "overcommit": True}
        self.file.write_text(json.dumps(root | others))

    def socket(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    def reload(self, event: str = "reloaded") -> dict[str, object]:
        self.process.send_signal(signal.SIGHUP)
        return wait_for(self.process, event)

    def settle(self, names: list[str]) -> None:
        """Waits until just these VMs have a socket."""
        wanted = {f"{name}.sock" for name in names}
        until(lambda: {path.name for path in self.folder.glob("*.sock")} == wanted)

    def refused(self) -> list[str]:
        problems = self.reload("reload_refused")["problems"]
        assert isinstance(problems, list)
        return problems


@contextlib.contextmanager
def serving(folder: Path, vms: dict[str, dict[str, Any]], **others: Any) -> Iterator[Host]:
    host = Host(folder)
    host.write(vms, **others)
    with vgcd("run", "--config", str(host.file)) as host.process:
        wait_for(host.process, "serving")
        yield host
        host.process.terminate()
        assert host.process.wait(ANSWERS_WITHIN_S) == 0
    assert not list(folder.glob("*.sock"))


def memory_of(vm: FakeVm) -> int:
    """Device memory that the guest is told it may use."""
    space = schema.CONFIG.construct.parse(vm.frontend.config_read())
    return int(space.quota_memory_bytes)


def wait_for_memory(vm: FakeVm, mib: int) -> None:
    """Waits until the guest is told that it may use so much device memory."""
    vm.frontend.wait_for_config(lambda space: space.quota_memory_bytes == mib << 20)


def is_reached(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextlib.contextmanager
def controlled(folder: Path, vms: dict[str, dict[str, Any]], **others: Any) -> Iterator[tuple[Host, ApiCaller, FakeVm]]:
    """A daemon with a control system, a caller of its API, and a guest of the VM `a` whose device is ready."""
    with serving(folder, vms, control=control_of(folder), **others) as host, contextlib.ExitStack() as stack:
        until(lambda: is_reached(folder / "control.sock"))
        caller = stack.enter_context(ApiCaller(folder / "control.sock"))
        vm = stack.enter_context(FakeVm(host.socket("a")))
        vm.frontend.wait_health(Health.READY)
        yield host, caller, vm


def control_of(folder: Path) -> dict[str, Any]:
    """Section `control` of the configuration."""
    return {"socket": str(folder / "control.sock")}


def test_region_of_another_size_is_told_by_the_vm(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}, "b": {}}) as (host, caller, _vm):

        def told() -> list[str | None]:
            return [info.get("ring_problem") for info in caller.ask("topology")["vms"]]

        with FakeVm(host.socket("b"), region_bytes=2 * REGION_BYTES):
            size = f"{REGION_BYTES >> 20} MiB"
            until(lambda: str(told()[1]).endswith("-device ivshmem-plain"))
            assert f"allowed: a whole file of {size}, as QEMU shares it" in str(told()[1])
            assert told()[0] is None
        until(lambda: told() == [None, None])


def test_new_vm_is_served_and_the_old_one_notices_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, FakeVm(host.socket("a")) as old:
        old.frontend.wait_health(Health.READY)
        pid = wait_for(host.process, "worker_started")["pid"]
        host.write({"a": {}, "b": {}})
        assert host.reload()["added"] == ["b"]
        with FakeVm(host.socket("b")) as new:
            new.frontend.wait_health(Health.READY)
            for vm in (old, new):
                assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        assert alive(pid)


def test_vms_that_never_had_a_guest_are_shown_with_socket_and_elements(tmp_path: Path) -> None:
    vms: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"engine": "cpu"},
        "c": {"engine": "cpu", "quota": {"pes": 3}},
        "d": {"engine": "auto"},
    }
    with controlled(tmp_path, vms) as (host, caller, _vm):
        shown = {info["vm"]: info for info in caller.ask("topology")["vms"]}
        assert {name: info["socket"] for name, info in shown.items()} == {name: str(host.socket(name)) for name in vms}
        cores = os.cpu_count()
        assert {name: info["pes"] for name, info in shown.items()} == {"a": cores, "b": cores, "c": 3, "d": 0}
        caller.ask("set_limits", vm="b", weight=7)
        assert [info["vm"] for info in caller.ask("topology")["vms"]] == ["a", "b", "c", "d"], "its order stays"


def test_removed_vm_without_a_guest_is_gone(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}, "b": {}}) as host:
        host.write({"a": {}})
        assert "waiting" not in (told := host.reload())
        assert told["removed"] == ["b"]
        assert wait_for(host.process, "vm_left")["vm"] == "b"
        assert not host.socket("b").exists()
        assert is_reached(host.socket("a"))


def test_removed_vm_with_a_guest_leaves_when_that_does(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}, "b": {}}) as host:
        with FakeVm(host.socket("b")) as vm:
            vm.frontend.wait_health(Health.READY)
            host.write({"a": {}})
            told = host.reload()
            assert (told["removed"], told["waiting"]) == (["b"], ["b"])
            assert not host.socket("b").exists()
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        assert wait_for(host.process, "vm_left")["vm"] == "b"


def test_new_limits_count_at_once_with_and_without_a_guest(tmp_path: Path) -> None:
    more = {"quota": {"memory": f"{2 * MEMORY_MIB}M"}}
    with serving(tmp_path, {"a": {}, "b": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        pid = wait_for(host.process, "worker_started")["pid"]
        context = vm.driver.request(Opcode.CONTEXT_CREATE).value
        host.write({"a": more, "b": more})
        told = host.reload()
        assert (told["live"], told["changed"]) == (["a"], ["b"])
        assert not told.keys() & {"waiting", "later"}
        assert wait_for(host.process, "vm_changed")["vm"] == "b"
        wait_for_memory(vm, 2 * MEMORY_MIB)
        big = {"size": (MEMORY_MIB + 1) << 20}
        assert vm.driver.request(Opcode.ALLOC, big, context=context).status == Status.OK
        assert alive(pid)
        with FakeVm(host.socket("b")) as other:
            other.frontend.wait_health(Health.READY)
            assert memory_of(other) == 2 * MEMORY_MIB << 20


def test_other_settings_count_from_the_next_guest_on(tmp_path: Path) -> None:
    other = {"num_queues": 2, "quota": {"memory": f"{2 * MEMORY_MIB}M", "pes": 7}}
    with serving(tmp_path, {"a": {}}) as host:
        with FakeVm(host.socket("a")) as vm:
            vm.frontend.wait_health(Health.READY)
            host.write({"a": other})
            told = host.reload()
            assert (told["live"], told["changed"], told["waiting"]) == (["a"], ["a"], ["a"])
            assert told["later"] == {"a": ["num_queues", "quota.pes"]}
            wait_for_memory(vm, 2 * MEMORY_MIB)
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
            host.write({"a": other | {"quota": {"memory": f"{3 * MEMORY_MIB}M", "pes": 7}}})
            assert host.reload()["live"] == ["a"]  # also while it is to leave
            wait_for_memory(vm, 3 * MEMORY_MIB)
        with FakeVm(host.socket("a"), num_queues=2) as vm:  # as soon as QEMU is restarted: it waits at the same socket
            vm.frontend.wait_health(Health.READY)
            space = schema.CONFIG.construct.parse(vm.frontend.config_read())
            assert (space.num_queues, space.quota_pes) == (2, 7)
            assert space.quota_memory_bytes == 3 * MEMORY_MIB << 20


def test_vm_may_move_to_another_socket(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        host.write({"a": {"socket": str(host.socket("other"))}})
        assert host.reload()["waiting"] == ["a"]
        assert not host.socket("a").exists()
        vm.frontend.close()
        with FakeVm(host.socket("other")) as again:
            again.frontend.wait_health(Health.READY)


def test_vm_that_was_to_leave_may_stay_after_all(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}, "b": {}}) as host:
        with FakeVm(host.socket("b")) as vm:
            vm.frontend.wait_health(Health.READY)
            host.write({"a": {}})
            host.reload()
            host.write({"a": {}, "b": {}})
            assert host.reload()["changed"] == ["b"]
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        with FakeVm(host.socket("b")) as again:
            again.frontend.wait_health(Health.READY)


def test_vm_that_is_to_leave_can_be_cut_off_later(tmp_path: Path) -> None:
    control = control_of(tmp_path)
    with serving(tmp_path, {"a": {}, "b": {}, "c": {}}, control=control) as host, contextlib.ExitStack() as stack:
        until(lambda: is_reached(tmp_path / "control.sock"))
        caller = stack.enter_context(ApiCaller(tmp_path / "control.sock"))
        vms = [stack.enter_context(FakeVm(host.socket(name))) for name in "ab"]
        for vm in vms:
            vm.frontend.wait_health(Health.READY)
        for name in "ab":
            caller.ask("remove_vm", vm=name)
        assert caller.ask("remove_vm", vm="a")["waiting"] == ["a"]
        assert caller.ask("remove_vm", vm="a", now=True)["removed"] == ["a"]
        assert wait_for(host.process, "vm_left")["vm"] == "a"
        host.write({"c": {}}, control=control)
        caller.ask("reload_vms", now=True)
        assert wait_for(host.process, "vm_left")["vm"] == "b"


def test_waiting_connection_is_not_served_by_a_vm_that_leaves(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}, "b": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(str(host.socket("a")))
            host.write({"b": {}})
            host.reload()
            vm.frontend.close()
            assert waiting.recv(1) == b""  # hung up
        assert wait_for(host.process, "vm_left")["vm"] == "a"


def test_same_configuration_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        assert not host.reload().keys() & {"added", "removed", "changed", "waiting"}
        assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK


def test_mistakes_change_nothing_and_are_named(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)

        host.write({"a": {}, "b": {"num_queues": 0, "region": 3}})
        assert len(host.refused()) == 2
        host.write({"a": {}, "b": {"socket": str(host.socket("a"))}})
        assert "allowed: a path that vms.a does not use" in host.refused()[0]
        host.write({"a": {}, "b": {}, "c": {"socket": "/nowhere/s"}})
        assert "cannot listen at /nowhere/s: there is no folder /nowhere" in host.refused()[0]
        host.write({"b": {}}, cache="/elsewhere", cgroups="off")
        assert host.refused() == [
            f"{key} has changed; allowed while vgcd runs: changes of vms, defaults, log and overcommit"
            for key in ("cache", "cgroups")
        ]
        host.write({"b": {"quota": {"pes": 4000}, "engine": "cpu"}}, overcommit=False)
        assert "the VM b may use 4000 processing elements" in host.refused()[0]
        host.file.unlink()
        assert "cannot be read" in host.refused()[0]

        assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        assert list(tmp_path.glob("*.sock")) == [host.socket("a")]


def test_status_names_a_mistake_until_it_is_mended(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}}) as (running, caller, _vm):
        control = control_of(tmp_path)
        running.write({"a": {}, "b": {"num_queues": 0}}, control=control)
        running.refused()
        assert "vms.b.num_queues" in caller.ask("status")["reload_refused"]
        running.write({"a": {}}, control=control)
        caller.ask("reload_vms")
        assert "reload_refused" not in caller.ask("status")
        running.write({"a": {"num_queues": 0}}, control=control)
        with pytest.raises(ApiRefusedError):
            caller.ask("reload_vms")
        assert "vms.a" in caller.ask("status")["reload_refused"]


def test_socket_that_somebody_else_listens_at_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "taken"))
        other.listen()
        host.write({"a": {}, "b": {}, "c": {"socket": str(tmp_path / "taken")}})
        assert "another program listens there" in host.refused()[0]
        host.write({"a": {}, "b": {}})
        assert host.reload()["added"] == ["b"]


def test_vm_without_a_socket_cannot_be_added(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host:
        host.write({"a": {}, "b": {"socket": None}})
        assert "vms.b.socket is" in host.refused()[0]


def test_last_vm_may_be_exchanged(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host:
        host.write({"b": {}})
        told = host.reload()
        assert (told["added"], told["removed"]) == (["b"], ["a"])
        with FakeVm(host.socket("b")) as vm:
            vm.frontend.wait_health(Health.READY)


def test_reloads_one_after_the_other_leave_what_the_last_says(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": {}}) as host, FakeVm(host.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        for round_number in range(10):
            names = ["a", *(f"v{number}" for number in range(round_number % 4))]
            host.write({name: {} for name in names})
            host.reload()
            host.settle(names)
        assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK


class Computing(threading.Thread):
    """A guest that doubles numbers again and again, until the block ends; then every result was right."""

    def __init__(self, vm: FakeVm) -> None:
        super().__init__()
        self.results = 0
        self._program = Program(vm)
        self._stop_wanted = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_wanted.is_set():
                self._double()
                self.results += 1
        except BaseException as error:  # noqa: BLE001  raised at the end of the block
            self._error = error

    def _double(self) -> None:
        program, size = self._program, 16
        numbers = [self.results, 1, 2, 3]
        data = struct.pack("<4i", *numbers)
        done = [
            program.request(Opcode.COPY_IN, {"dst": program.buffer, "size": size}, b"", data),
            program.launch("twice", struct.pack("<Qi", program.buffer, 4), threads=4),
            program.vm.driver.request(
                Opcode.COPY_OUT, {"src": program.buffer, "size": size}, writable_len=size, context=program.context
            ),
        ]
        assert [reply.status for reply in done] == [Status.OK] * 3
        assert struct.unpack("<4i", done[-1].payload) == tuple(2 * number for number in numbers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_wanted.set()
        self.join(ANSWERS_WITHIN_S)
        if self._error is not None:
            raise self._error

    def go_on(self) -> None:
        """Waits for further results."""
        before = self.results
        until(lambda: self.results > before + 1 or self._error is not None)


def test_other_vms_compute_meanwhile(tmp_path: Path) -> None:
    own = {"engine": "cpu"}
    names = ("a", "b", "c")
    with contextlib.ExitStack() as stack:
        host = stack.enter_context(serving(tmp_path, dict.fromkeys(names, own)))
        vms = [stack.enter_context(FakeVm(host.socket(name))) for name in names]
        for vm in vms:
            vm.frontend.wait_health(Health.READY)
        guests = [stack.enter_context(Computing(vm)) for vm in vms]
        for round_number in range(6):
            extra = {f"v{number}": own for number in range(round_number % 3)}
            host.write(dict.fromkeys(names, own) | extra)
            host.reload()
            for guest in guests:
                guest.go_on()


def test_limits_of_vms_that_compute_change_under_them(tmp_path: Path) -> None:
    names = ("a", "b", "c")

    def settings(round_number: int) -> dict[str, Any]:
        quota = {"memory": f"{16 + 16 * (round_number % 3)}M", "queue_depth": 8 + round_number, "contexts": 1, "pes": 1}
        return {"engine": "cpu", "quota": quota, "deadline": f"{10 + round_number % 2}s"}

    with contextlib.ExitStack() as stack:
        host = stack.enter_context(serving(tmp_path, dict.fromkeys(names, settings(0))))
        vms = [stack.enter_context(FakeVm(host.socket(name))) for name in names]
        for vm in vms:
            vm.frontend.wait_health(Health.READY)
        guests = [stack.enter_context(Computing(vm)) for vm in vms]
        for round_number in range(1, 7):
            host.write({"a": settings(round_number), "b": settings(0), "c": settings(round_number // 2)})
            assert host.reload().get("live", []) == (["a"] if round_number % 2 else ["a", "c"])
            for guest in guests:
                guest.go_on()


def test_control_system_sees_vms_come_and_go(tmp_path: Path) -> None:
    own = {"engine": "cpu"}
    control = control_of(tmp_path)
    with serving(tmp_path, {"a": own}, control=control) as host, contextlib.ExitStack() as stack:
        until(lambda: is_reached(tmp_path / "control.sock"))
        caller = stack.enter_context(ApiCaller(tmp_path / "control.sock"))
        old = stack.enter_context(FakeVm(host.socket("a")))

        def names() -> list[str]:
            return [vm["vm"] for vm in caller.ask("topology")["vms"]]

        def instances() -> list[int]:
            return [item["instance"] for item in caller.ask("ls")["instances"]]

        old.frontend.wait_health(Health.READY)
        on_all = caller.open("fn=log")
        host.write({"a": own, "b": own}, control=control)
        host.reload()
        assert names() == ["a", "b"]
        with FakeVm(host.socket("b")) as new:
            new.frontend.wait_health(Health.READY)
            on_new = caller.open("vm=b,fn=log")
            caller.ask("self")
            host.write({"a": own}, control=control)
            host.reload()
            assert names() == ["a", "b"]  # it has a guest
        until(lambda: names() == ["a"])
        until(lambda: on_new not in instances())
        assert on_all in instances()
        host.write({"a": own, "b": own}, control=control)
        host.reload()
        assert names() == ["a", "b"]
        assert caller.ask("snapshot")


def test_latencies_of_a_guests_work_reach_the_control_system(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {"engine": "cpu"}}) as (_host, caller, vm):

        def counted() -> int:
            (row,) = caller.ask("topology")["vms"]
            return sum(row["latency"])

        assert counted() == 0
        with Computing(vm) as guest:
            guest.go_on()
        until(lambda: counted() == guest.results)  # the launches: the copies are done at once


def test_verbs_reload_and_remove_vms(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}, "b": {}}) as (host, caller, vm):
        assert caller.ask("remove_vm", vm="a")["waiting"] == ["a"]
        assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        assert caller.ask("reload_vms")["changed"] == ["a"]  # it stays after all
        host.write({"a": {}, "b": {}, "c": {}, "d": {"num_queues": 0}}, control=control_of(tmp_path))
        with pytest.raises(ApiRefusedError, match=r"vms.d.num_queues is 0"):
            caller.ask("reload_vms")
        host.write({"a": {}, "c": {}}, control=control_of(tmp_path))
        done = caller.ask("reload_vms")
        assert (done["added"], done["removed"]) == (["c"], ["b"])
        done = caller.ask("remove_vm", vm="a", now=True)
        assert (done["removed"], done["waiting"]) == (["a"], [])
        host.settle(["control", "c"])


def handed_over(folder: Path) -> tuple[DaemonConfig, socket.socket, DaemonThread]:
    """A daemon that is to serve VM a on a connected socket, and VM b; with the frontend's end."""
    vms = (
        VmConfig(
            name,
            vm_uuid(name),
            folder / f"{name}.sock",
            REGION_BYTES,
            engine=EngineConfig("null"),
            num_queues=1,
            sandbox=SANDBOX,
        )
        for name in "ab"
    )
    config = DaemonConfig(tuple(vms), cache=folder / "cache", overcommit=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return config, ours, DaemonThread(config, sandboxed_worker, handed_over={"a": theirs})


def is_served(daemon: DaemonThread, name: str) -> bool:
    return daemon.ask(lambda served: name in served.vms)


def test_connection_that_was_handed_over_can_be_cut_off(tmp_path: Path) -> None:
    _, ours, thread = handed_over(tmp_path)
    with thread as daemon, FakeFrontend(ours, 1) as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        assert daemon.begin(lambda served: served.remove("a")).result(ANSWERS_WITHIN_S).waiting == ("a",)
        assert frontend.config_read()  # it is served on
        daemon.begin(lambda served: served.remove("a", now=True)).result(ANSWERS_WITHIN_S)
        until(lambda: not is_served(daemon, "a"))
        with FakeVm(tmp_path / "b.sock") as other:
            other.frontend.wait_health(Health.READY)


def test_vm_whose_connection_has_ended_can_be_removed_and_added(tmp_path: Path) -> None:
    config, ours, thread = handed_over(tmp_path)
    with thread as daemon:
        with FakeFrontend(ours, 1) as frontend:
            frontend.negotiate()
        until(lambda: not daemon.ask(lambda served: served.vms["a"].is_connected))
        daemon.begin(lambda served: served.remove("a")).result(ANSWERS_WITHIN_S)
        until(lambda: not is_served(daemon, "a"))
        assert daemon.begin(lambda served: served.reload(config)).result(ANSWERS_WITHIN_S).added == ("a",)
        with FakeVm(tmp_path / "a.sock") as vm:
            vm.frontend.wait_health(Health.READY)


def test_limits_are_changed_without_the_file(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}}) as (host, caller, vm):
        context = vm.driver.request(Opcode.CONTEXT_CREATE).value
        big = {"size": (MEMORY_MIB - 1) << 20}
        assert vm.driver.request(Opcode.ALLOC, big, context=context).status == Status.OK
        until(lambda: caller.ask("show_limits", vm="a")["used"]["contexts"] == 1)

        changed = caller.ask("set_limits", vm="a", memory_bytes=8 << 20, contexts=4, pes=64)
        assert (changed["later"], changed["allotment_state"]) == (["pes"], "never acknowledged")
        assert set(changed["pending"]) == {"memory_bytes", "contexts"}
        until(lambda: caller.ask("show_limits", vm="a")["pending"] == [])  # though the guest says nothing
        shown = caller.ask("show_limits", vm="a")
        assert (shown["enforced"]["memory_bytes"], shown["exceeded"]) == (8 << 20, ["memory_bytes"])
        assert memory_of(vm) == 8 << 20
        (info,) = caller.ask("topology")["vms"]
        assert (info["allotment"], info["acknowledged"], info["exceeded"]) == (2, None, ["memory_bytes"])

        assert caller.ask("set_limits", vm="a", contexts=9)["later"] == ["pes"], "what is raised counts soon"
        host.write({"a": {}}, control=control_of(tmp_path))  # the file as it was
        assert caller.ask("reload_vms")["live"] == ["a"]
        assert caller.ask("show_limits", vm="a")["configured"]["memory_bytes"] == MEMORY_MIB << 20
        until(lambda: caller.ask("show_limits", vm="a")["exceeded"] == [])  # the worker has to enforce it first


def test_weight_of_a_vm_without_a_guest_holds_at_once(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}, "b": {}}) as (_host, caller, _vm):
        for vm in "ab":
            assert caller.ask("set_limits", vm=vm, weight=44)["enforced"]["weight"] == 44
            assert caller.ask("show_limits", vm=vm)["enforced"]["weight"] == 44


def test_vm_that_stays_after_all_has_nothing_that_waits(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}, "b": {}}) as (_host, caller, _vm):
        caller.ask("remove_vm", vm="a")
        assert not caller.ask("reload_vms").get("later")


def test_limits_beyond_the_host_are_refused(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {"engine": "cpu"}, "b": {}}, overcommit=False) as (_host, caller, vm):
        with pytest.raises(ApiRefusedError, match=r"of memory, and this host has .*; allowed: .* or overcommit: true"):
            caller.ask("set_limits", vm="a", memory_bytes=1 << 45)
        assert memory_of(vm) == MEMORY_MIB << 20


def test_limits_of_a_vm_that_leaves_stay(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {}, "b": {}}) as (_host, caller, _vm):
        caller.ask("remove_vm", vm="a")
        with pytest.raises(ApiRefusedError, match="a is to leave; allowed: a VM that stays"):
            caller.ask("set_limits", vm="a", contexts=3)
        assert caller.ask("show_limits", vm="a")["configured"]["contexts"] == 256
