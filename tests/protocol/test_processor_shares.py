"""Shares of the host's processors: what the daemon has set on the processes of VMs, as the kernel tells it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes import cgroup_home
from tests.fakes.api_client import ApiRefusedError
from tests.fakes.daemon import DaemonThread
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.processes import children
from tests.protocol.hostile_guest import PES, Guest, Guests, both_guests, vgcd, vgcd_sockets
from tests.protocol.test_reload import Host, control_of, controlled, serving
from tests.protocol.test_vgcd import wait_for
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.cgroups import host
from vhost_backend.cgroups.weights import highest, least_nice, nice_of, sharing
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.cores import lists, slices
from vhost_backend.cores import threads as core_threads
from vhost_backend.cores.pool import CorePool
from vhost_backend.cores.threads import Times
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.process import sandboxed_worker, worker_of
from vhost_backend.daemon.server import Daemon
from vhost_backend.quarters import NOWHERE, Quarters
from virtio_proto import schema
from virtio_proto.schema import Health, Status
from virtio_proto.yaml_values import NS_PER_S

pytestmark = needs_walls

_CPU: Final = {"engine": "cpu", "sandbox": "strict"}


def threads(pid: int) -> list[Path]:
    """Folders of a process's threads, the main thread first."""
    return sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))


def name(task: Path) -> str:
    return (task / "comm").read_text().strip()


def cpu_group(task: Path) -> Path:
    """Folder of the control group in which a thread's processor time counts."""
    paths: dict[str, str] = {}
    for line in (task / "cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    mounts = list(host._mounts())
    own: list[Path] = [mount.point for mount in mounts if mount.type == "cgroup" and "cpu" in mount.controllers]
    shared: list[Path] = [mount.point for mount in mounts if mount.type == "cgroup2"]
    return own[0] / paths["cpu"].lstrip("/") if own else shared[0] / paths[""].lstrip("/")


def limits(group: Path) -> tuple[float | None, float]:
    """Processors that a group may use (None: any number), and its weight."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
        return (None if quota == "max" else int(quota) / int(period)), int((group / "cpu.weight").read_text())
    quota_us, period_us = (int((group / f"cpu.cfs_{kind}_us").read_text()) for kind in ("quota", "period"))
    return (None if quota_us < 0 else quota_us / period_us), int((group / "cpu.shares").read_text()) * 100 / 1024


def settings(pes: int, weight: int) -> dict[str, Any]:
    return {**_CPU, "quota": {"memory": "16M", "pes": pes, "weight": weight}}


def worker_pid(running: Host) -> int:
    """The worker that was started last, which is ready."""
    pid = wait_for(running.process, "worker_started")["pid"]
    assert isinstance(pid, int)
    return worker_of(pid)


def serves(vm: FakeVm, generation: int) -> bool:
    """True if the worker of this generation serves."""
    space = schema.CONFIG.construct.parse(vm.frontend.config_read())
    return bool(space.generation == generation and space.health == Health.READY)


@pytest.fixture
def has_groups() -> None:
    """Skips a test where a daemon has no control groups."""
    with cgroup_home.home():
        pass


@pytest.mark.usefixtures("has_groups")
def test_weight_and_cores_of_a_vm_are_those_of_its_groups(tmp_path: Path) -> None:
    with serving(tmp_path, {"a": settings(1, 300)}) as running, FakeVm(running.socket("a")) as vm:
        vm.frontend.wait_health(Health.READY)
        tasks = threads(worker_pid(running))
        elements = [task for task in tasks if name(task).startswith("vgc-pe")]
        others = {cpu_group(task) for task in tasks if task not in elements}
        (group,) = {cpu_group(task) for task in elements}
        assert (len(elements), others) == (1, {group.parent})
        assert group.parents[1].name == "vm-a"
        expected = 1.0 if (os.cpu_count() or 1) > 1 else None
        assert limits(group) == (expected, 100)
        assert limits(group.parents[1])[1] == 300


@pytest.mark.usefixtures("has_groups")
def test_elements_of_a_worker_that_takes_the_place_of_another_are_bounded(tmp_path: Path) -> None:
    """Their group is used again, too."""
    with controlled(tmp_path, {"a": settings(1, 100)}) as (running, caller, vm):
        first = worker_pid(running)
        group = cpu_group(threads(first)[0])
        for generation in (2, 3):
            until(lambda: caller.ask("topology")["vms"][0]["state"] == "ready")
            caller.ask("reset_worker", vm="a")
            until(lambda: serves(vm, generation))  # noqa: B023  called at once

        def lone() -> int | None:
            """The process in the group, once what came before it has gone."""
            found = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
            return found[0] if len(found) == 1 else None

        last = until(lone)
        assert last != first
        elements = {cpu_group(task).name for task in threads(last) if name(task).startswith("vgc-pe")}
        assert elements == {"elements"}


@pytest.mark.usefixtures("has_groups")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a host of one core has nothing to take away")
def test_bounds_follow_the_elements_that_a_vm_has(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": settings(2, 100)}) as (running, caller, _vm):
        tasks = threads(worker_pid(running))
        elements = next(cpu_group(task) for task in tasks if name(task).startswith("vgc-pe"))
        bounds = [2.0 if (os.cpu_count() or 1) > 2 else None, 1.0]
        for pes in (1, 2, 1):
            caller.ask("set_limits", vm="a", pes=pes)
            until(lambda: limits(elements)[0] == bounds[pes == 1])  # noqa: B023  called at once


def test_vm_that_had_all_elements_may_have_them_again(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": {**_CPU, "quota": {"memory": "16M"}}}) as (_running, caller, vm):
        every = os.cpu_count() or 1
        assert caller.ask("show_limits", vm="a")["configured"]["pes"] is None
        for pes in (1, 0):
            assert caller.ask("set_limits", vm="a", pes=pes)["configured"]["pes"] == (pes or None)
            vm.frontend.wait_for_config(lambda space: space.quota_pes == (pes or every))  # noqa: B023  called at once
            usable = 1 if pes == 1 < every else None
            until(lambda: caller.ask("topology")["vms"][0].get("usable_pes") == usable)  # noqa: B023  called at once


@pytest.mark.parametrize("weight", [25, 100, 300])
def test_without_control_groups_the_weight_is_a_nice_value(tmp_path: Path, weight: int) -> None:
    with controlled(tmp_path, {"a": settings(2, weight)}, cgroups="off") as (running, caller, _vm):
        pid = worker_pid(running)
        nice = nice_of(weight, least_nice())
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in threads(pid)} == {own + nice}
        session = Path(f"/proc/{pid}/autogroup")
        if session.exists():
            assert session.read_text().rpartition("nice ")[2].strip() == str(nice)
        (info,) = caller.ask("topology")["vms"]
        assert (info["weight"], info["weight_of"]) == (weight, sharing())


@pytest.mark.usefixtures("has_groups")
def test_a_weight_in_a_group_changes_while_the_vm_computes(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": settings(2, 300)}) as (running, caller, vm):
        group = cpu_group(threads(worker_pid(running))[0]).parent
        assert caller.ask("set_limits", vm="a", weight=50)["enforced"]["weight"] == 50
        assert limits(group)[1] == pytest.approx(50, abs=0.1)
        assert caller.ask("show_limits", vm="a")["pending"] == caller.ask("show_limits", vm="a")["later"] == []
        assert serves(vm, 1)
        running.write({"a": settings(2, 70)}, control=control_of(tmp_path))
        assert caller.ask("reload_vms")["live"] == ["a"]
        assert limits(group)[1] == pytest.approx(70, abs=1)


def test_a_weight_without_groups_changes_while_the_vm_computes(tmp_path: Path) -> None:
    with controlled(tmp_path, {"a": settings(2, 100)}, cgroups="off") as (running, caller, vm):
        pid, own = worker_pid(running), os.getpriority(os.PRIO_PROCESS, 0)
        for weight in (25, 300):
            caller.ask("set_limits", vm="a", weight=weight)
            nice = nice_of(weight, least_nice())
            assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in threads(pid)} == {own + nice}
            session = Path(f"/proc/{pid}/autogroup")
            if session.exists():
                assert session.read_text().rpartition("nice ")[2].strip() == str(nice)
        assert caller.ask("set_limits", vm="a", weight=10_000)["enforced"]["weight"] == highest(least_nice())
        nice = nice_of(10_000, least_nice())
        caller.ask("reset_worker", vm="a")
        until(lambda: serves(vm, 2))
        again = worker_pid(running)
        assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in threads(again)} == {own + nice}


def test_a_weight_that_changes_while_a_worker_starts_is_that_of_the_worker(tmp_path: Path) -> None:
    """Such as the second worker of a migration."""

    def command(config: VmConfig, fd: int) -> Sequence[str]:
        argv = sandboxed_worker(config, fd)
        config.quarters.weigh(25, None)
        return argv

    quarters, engine = Quarters(), EngineConfig("null")
    config = VmConfig("a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=engine, num_queues=1, quarters=quarters)
    with (
        DaemonThread(DaemonConfig((config,), cache=tmp_path / "cache"), command) as daemon,
        FakeVm(tmp_path / "a") as vm,
    ):
        vm.frontend.wait_health(Health.READY)
        pid = daemon.ask(lambda daemon: daemon.vms["a"].worker_pid)
        assert pid is not None
        nice = os.getpriority(os.PRIO_PROCESS, 0) + nice_of(25, least_nice())
        assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in threads(worker_of(pid))} == {nice}


# ---- cores of a VM's own -------------------------------------------------------------------------

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


def with_cores(cores: str | int, pes: int = 1) -> dict[str, Any]:
    return {**_CPU, "quota": {"memory": "16M", "pes": pes, "cores": cores}}


def cores_of(pid: int, *, elements: bool) -> set[frozenset[int]]:
    """Processors of a process's elements, or of its other threads."""
    chosen = [task for task in threads(pid) if name(task).startswith("vgc-pe") == elements]
    return {frozenset(os.sched_getaffinity(int(task.name))) for task in chosen}


@needs_two_cores
@pytest.mark.parametrize("cgroups", ["auto", "off"])
def test_nobody_else_runs_on_the_cores_that_a_vm_has_for_its_own(tmp_path: Path, cgroups: str) -> None:
    every = frozenset(os.sched_getaffinity(0))
    own = frozenset({max(every)})
    with controlled(tmp_path, {"a": settings(2, 100)}, cgroups=cgroups) as (running, caller, _vm):
        neighbour, daemon = worker_pid(running), running.process.pid
        assert cores_of(neighbour, elements=True) == cores_of(daemon, elements=False) == {every}
        socket = str(running.socket("b"))
        caller.ask("add_vm", vm="b", socket=socket, engine="cpu", memory="16M", pes=1, cores=str(max(own)))
        for pid in (neighbour, daemon):
            assert cores_of(pid, elements=False) == {every - own}
        assert cores_of(neighbour, elements=True) == {every - own}
        with FakeVm(Path(socket)) as vm:
            vm.frontend.wait_health(Health.READY)
            for generation in (2, 3):
                pid = worker_pid(running)
                assert cores_of(pid, elements=True) == {own}
                assert cores_of(pid, elements=False) <= {every, own}, "the latter where others crowd the shared ones"
                caller.ask("reset_worker", vm="b")
                until(lambda: serves(vm, generation))  # noqa: B023  called at once
            shown = {info["vm"]: (info["cores"], info["own_cores"]) for info in caller.ask("topology")["vms"]}
            assert shown == {"a": (lists.shown(every - own), False), "b": (str(max(own)), True)}
            caller.ask("remove_vm", vm="b", now=True)
        until(lambda: cores_of(neighbour, elements=True) == {every})
        assert cores_of(daemon, elements=False) == {every}


@needs_two_cores
def test_cores_of_a_vm_that_has_left_are_those_of_workers_that_start(tmp_path: Path) -> None:
    """The fork server, of which workers are copies, had started when they were that VM's."""
    every = frozenset(os.sched_getaffinity(0))
    last = max(every)
    with controlled(tmp_path, {"a": settings(2, 100), "b": with_cores(last)}) as (running, caller, vm):
        daemon = running.process.pid
        (server,) = (pid for pid in children(daemon) if name(Path(f"/proc/{pid}")) == "vgc-forkserver")
        first = worker_pid(running)
        assert cores_of(first, elements=True) == cores_of(server, elements=False) == {every - {last}}
        caller.ask("remove_vm", vm="b")
        until(lambda: cores_of(first, elements=True) == cores_of(server, elements=False) == {every})
        caller.ask("reset_worker", vm="a")
        until(lambda: serves(vm, 2))
        again = worker_pid(running)
        assert cores_of(again, elements=True) == cores_of(again, elements=False) == {every}
        socket = str(running.socket("c"))
        caller.ask("add_vm", vm="c", socket=socket, engine="cpu", memory="16M", pes=1, cores=str(last))
        assert cores_of(server, elements=False) == {every - {last}}


@needs_two_cores
def test_cores_that_another_vm_has_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    every = frozenset(os.sched_getaffinity(0))
    last = max(every)
    with controlled(tmp_path, {"a": with_cores(last)}) as (running, caller, _vm):
        pid = worker_pid(running)
        with pytest.raises(ApiRefusedError, match=rf"vms.b.quota.cores is {last}, and {last} is for vms.a"):
            caller.ask("add_vm", vm="b", socket=str(running.socket("b")), engine="cpu", cores=str(last))
        with pytest.raises(ApiRefusedError, match=r"allowed with quota.pes of 2: as many, or own"):
            caller.ask("set_limits", vm="a", pes=2)
        assert cores_of(pid, elements=True) == {frozenset({last})}
        assert cores_of(running.process.pid, elements=False) == {every - {last}}


@needs_two_cores
def test_cores_of_its_own_count_from_a_vm_s_next_frontend_on(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    with controlled(tmp_path, {"a": settings(1, 100)}) as (running, caller, vm):
        pid = worker_pid(running)
        running.write({"a": with_cores(last)}, control=control_of(tmp_path))
        assert caller.ask("reload_vms")["later"] == {"a": ["quota.cores"]}
        assert len(cores_of(pid, elements=True).pop()) > 1
        vm.close()
        with FakeVm(running.socket("a")) as again:
            again.frontend.wait_health(Health.READY)
            assert cores_of(worker_pid(running), elements=True) == {frozenset({last})}


def worker_pids() -> list[int]:
    """Workers that this process has started, each below its launcher."""
    return [worker_of(child) for child in children(os.getpid())]


# ---- hostile guests ------------------------------------------------------------------------------

SOURCE: Final = r"""
/* Computes until the first word is not 0 any more. */
extern "C" __global__ void compute_until(volatile long *stop) {
    while (*stop == 0) {
    }
}

/* Starts a thread that waits for ever. */
extern "C" __global__ void start_a_thread(long *out) {
    long result;
    asm volatile("syscall; test %%rax, %%rax; jnz 2f; 1: movl $34, %%eax; syscall; jmp 1b; 2:"
                 : "=a"(result)
                 : "a"(56L), "D"(0x10f00L), "S"((char *)out + 1024), "d"(0L)
                 : "rcx", "r8", "r9", "r10", "r11", "memory");
    *out = result;
}

/* Interrupts the worker's main thread, which starts a thread then that waits for ever. */
extern "C" __global__ void start_a_thread_in_main(long *out) {
    long handler, restorer;
    asm volatile("lea 3f(%%rip), %0; lea 4f(%%rip), %1; jmp 5f;"
                 "3: movl $56, %%eax; movl $0x10f00, %%edi; lea -4096(%%rsp), %%rsi; xorl %%edx, %%edx; xorl %%r10d, %%r10d;"
                 "xorl %%r8d, %%r8d; syscall; test %%rax, %%rax; jz 6f; ret; 6: movl $34, %%eax; syscall; jmp 6b;"
                 "4: movl $15, %%eax; syscall; 5:"
                 : "=r"(handler), "=r"(restorer));
    long *action = out + 64;
    action[0] = handler;
    action[1] = 0x14000000; /* SA_RESTORER, SA_RESTART */
    action[2] = restorer;
    action[3] = 0;
    long result = call(13, 10, (long)action, 0, 8, 0, 0); /* rt_sigaction of SIGUSR1 */
    long pid = call(39, 0, 0, 0, 0, 0, 0);
    *out = result == 0 ? call(234, pid, pid, 10, 0, 0, 0) : result; /* tgkill */
}
"""


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[tuple[Guests, Path]]:
    """Guests whose VMs have control groups, and the group of the attacker's VM."""
    with cgroup_home.home() as own:
        vms = {vm: own.group.child(f"vm-{vm}") for vm in ("attacker", "neighbour")}
        folder = next(door.parent for door in vms["attacker"].doors if list(door.parent.glob("cpu.*")))
        with (
            vgcd_sockets(tmp_path, quarters=lambda vm: Quarters(cgroup=vms[vm])) as sockets,
            both_guests(sockets, SOURCE) as made,
        ):
            yield made, folder


@needs_two_cores
def test_threads_that_guest_code_starts_stay_on_its_own_cores(tmp_path: Path) -> None:
    """They stay there when others move, too."""
    every = frozenset(os.sched_getaffinity(0))
    pool, own = CorePool(every), frozenset({max(every)})
    with contextlib.ExitStack() as stack:
        places = {"attacker": stack.enter_context(pool.place("attacker", own, 1))}
        places["neighbour"] = stack.enter_context(pool.place("neighbour", None, 1))
        sockets = stack.enter_context(vgcd_sockets(tmp_path, quarters=lambda vm: Quarters(place=places[vm])))
        made = stack.enter_context(both_guests(sockets, SOURCE))
        assert made.attacker.result(made.attacker.launch("start_a_thread")) > 0
        pid = next(pid for pid in worker_pids() if own in cores_of(pid, elements=True))
        with pool.place("third", None, 1):
            pool._tell()
            found = [task for task in threads(pid) if name(task).startswith("vgc-pe")]
            assert len(found) == 3
            assert cores_of(pid, elements=True) == {own}


@needs_two_cores
def test_threads_that_guest_code_starts_in_serving_ones_come_to_its_own_cores(tmp_path: Path) -> None:
    """They have no short time slices, either."""
    own = frozenset({max(os.sched_getaffinity(0))})
    with controlled(tmp_path, {"a": {**with_cores("own"), "deadline": "60s"}}) as (running, _caller, vm):
        pid = worker_pid(running)
        guest = Guest(vm, SOURCE)
        before = set(threads(pid))
        assert guest.result(guest.launch("start_a_thread_in_main")) == 0
        guest.put(0, bytes(8))
        launch = guest.start_launch("compute_until")
        until(lambda: set(threads(pid)) > before)
        (stranger,) = (int(task.name) for task in set(threads(pid)) - before)
        until(lambda: os.sched_getaffinity(stranger) == own)
        until(lambda: slices.slice_of(stranger) == slices.slice_of(os.getpid()))
        guest.put(0, b"\1" * 8, stream=1)
        assert vm.driver.wait(launch).status == Status.OK


@needs_two_cores
@pytest.mark.parametrize("has_own", [False, True])
def test_busy_elements_have_a_core_each_until_their_work_ends(tmp_path: Path, has_own: bool) -> None:
    """A VM with cores of its own has them all, but for one that is left to others; a VM without shares all there are."""
    every = sorted(os.sched_getaffinity(0))
    if has_own and len(every) < PES + 1:
        pytest.skip("needs a processor more than the VM has elements")
    pool = CorePool(every if has_own else every[:PES])
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(pool.place("attacker", frozenset(every[:PES]) if has_own else None, PES))
        stack.enter_context(vgcd(tmp_path, Pace(), 60 * NS_PER_S, lambda _vm: Quarters(place=place)))
        guest = Guest(stack.enter_context(FakeVm(tmp_path / "attacker")), SOURCE)
        (pid,) = worker_pids()
        assert cores_of(pid, elements=True) == {frozenset(every[:PES])}
        guest.put(0, bytes(8))
        launches = [guest.start_launch("compute_until", stream=number) for number in range(PES)]
        until(lambda: cores_of(pid, elements=True) == {frozenset({core}) for core in every[:PES]})
        guest.put(0, b"\1" * 8, stream=PES)
        assert [guest.vm.driver.wait(launch).status for launch in launches] == [Status.OK] * PES
        until(lambda: cores_of(pid, elements=True) == {frozenset(every[:PES])})


@needs_two_cores
def test_vm_of_great_weight_has_a_core_to_itself_while_it_has_work(tmp_path: Path) -> None:
    every = frozenset(os.sched_getaffinity(0))
    vms = {"a": {**settings(1, 100 * len(every)), "deadline": "120s"}, "b": settings(2, 100)}
    with controlled(tmp_path, vms) as (running, _caller, vm), FakeVm(running.socket("b")) as other:
        quiet = worker_pid(running)
        other.frontend.wait_health(Health.READY)
        neighbour = worker_pid(running)
        guest = Guest(vm, SOURCE)
        guest.put(0, bytes(8))
        launch = guest.start_launch("compute_until")

        def is_alone() -> bool:
            (own,) = cores_of(quiet, elements=True)
            return len(own) == 1 and cores_of(neighbour, elements=True) == {every - own}

        until(is_alone)
        guest.put(0, b"\1" * 8, stream=1)
        assert vm.driver.wait(launch).status == Status.OK
        until(lambda: cores_of(quiet, elements=True) == cores_of(neighbour, elements=True) == {every})


@needs_two_cores
def test_threads_that_serve_a_vm_keep_to_its_own_cores_where_others_crowd_the_shared_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the kernel puts them among others, and for how long they wait then, is told by this test instead."""
    every = frozenset(os.sched_getaffinity(0))
    own, pool = frozenset({max(every)}), CorePool(every)
    turns = itertools.count()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(pool.place("attacker", own, 1))
        stack.enter_context(vgcd(tmp_path, Pace(), 60 * NS_PER_S, lambda _vm: Quarters(place=place)))
        guest = Guest(stack.enter_context(FakeVm(tmp_path / "attacker")), SOURCE)
        (pid,) = worker_pids()
        guest.put(0, bytes(8))
        launch = guest.start_launch("compute_until")  # a worker that does nothing is not looked at
        monkeypatch.setattr(core_threads, "times", lambda *_: Times(0, NS_PER_S * (turn := next(turns)), turn))
        until(lambda: cores_of(pid, elements=False) == {own})
        pool._tell()
        assert cores_of(pid, elements=False) == {own}
        guest.put(0, b"\1" * 8, stream=1)
        assert guest.vm.driver.wait(launch).status == Status.OK
        assert cores_of(pid, elements=True) == {own}


def test_threads_that_serve_a_vm_have_short_time_slices_and_its_elements_have_not(tmp_path: Path) -> None:
    usual_ns = slices.slice_of(os.getpid())
    if usual_ns == 0:
        pytest.skip("this kernel gives no thread slices of its own: Linux 6.12 does")
    with controlled(tmp_path, {"a": settings(2, 100)}) as (running, _caller, _vm):
        found = [(name(task), slices.slice_of(int(task.name))) for task in threads(worker_pid(running))]
    assert [slice_ns for thread, slice_ns in found if thread.startswith("vgc-pe")] == [usual_ns] * 2
    served = [slice_ns for thread, slice_ns in found if not thread.startswith("vgc-pe")]
    assert served.count(slices.SHORT_NS) >= 2, "main thread and data plane; one that these start later has usual ones"


@needs_two_cores
def test_worker_whose_threads_cannot_be_moved_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts threads faster than the daemon moves them: some would stay on cores that another VM has now."""
    pool = CorePool(os.sched_getaffinity(0))

    def move(_daemon: Daemon) -> None:
        with monkeypatch.context() as patch, pool.place("third", "own", 1):
            patch.setattr(core_threads, "_PASSES", 0)
            pool._tell()

    with (
        pool.place("attacker", None, 1) as place,
        vgcd(tmp_path, quarters=lambda vm: Quarters(place=place) if vm == "attacker" else NOWHERE) as daemon,
        FakeVm(tmp_path / "attacker") as vm,
    ):
        vm.frontend.wait_health(Health.READY)
        daemon.ask(move)
        until(lambda: serves(vm, 2))


def test_threads_that_guest_code_starts_share_the_cores_of_its_elements(guests: tuple[Guests, Path]) -> None:
    attacker, vm = guests[0].attacker, guests[1]
    assert attacker.result(attacker.launch("start_a_thread")) > 0
    (worker,) = vm.glob("worker-*")
    (pid,) = map(int, (worker / "cgroup.procs").read_text().split())
    elements = [task for task in threads(pid) if name(task).startswith("vgc-pe")]
    assert len(elements) == 2 + 1, "two elements, and a thread with the name of the one that has started it"
    assert {cpu_group(task) for task in elements} == {worker / "elements"}
