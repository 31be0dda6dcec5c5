"""The daemon is killed, replaced and upgraded while frontends are connected and guests compute: neither notices."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import guest_driver as vgc
from tests.built_keeper import built
from tests.fakes import cgroup_home
from tests.fakes.api_client import Client
from tests.fakes.attached import AttachedLink
from tests.fakes.frontend import BackendGone, FakeFrontend, SharedFile
from tests.fakes.guest import REPOSITORY, open_device
from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.processes import launchers
from tests.protocol.firmware_rig import BUILT_IN, UNHEALTHY, Factory
from tests.protocol.kept_vgcd import VGCD, KeptVgcd, gone, kept_vgcd, wait_gone
from tests.protocol.worker_rig import needs_walls
from tests.repeating import repeating
from tests.waiting import until
from vhost_backend.daemon.process import worker_of
from vhost_backend.daemon.worker_clock import CpuAlarms, WorkerClock
from vhost_backend.fds import Fd
from vhost_backend.keeper.client import RECORD_VERSION
from vhost_backend.vhost_user.messages import Request
from virtio_proto.control.api import API_VERSION
from virtio_proto.schema import Health

TAKEOVERS: Final = int(os.environ.get("VGC_TAKEOVERS", "8"))
"""How often the daemon is killed; 100 in the nightly run."""
SOURCE: Final = """
extern "C" __global__ void add(int *to, int what) { atomicAdd(to, what); }
"""

pytestmark = needs_walls


@pytest.fixture
def host(tmp_path: Path) -> Iterator[KeptVgcd]:
    with kept_vgcd(tmp_path, more=f"control: {{socket: {tmp_path}/control}}\n") as vgcd:
        yield vgcd
    for one in vgcd.events:
        print(one)  # noqa: T201  pytest shows it when the test fails


@pytest.fixture
def link(host: KeptVgcd, tmp_path: Path) -> Iterator[AttachedLink]:
    assert not gone(host.daemon)
    with AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        yield link


@pytest.fixture
def device(link: AttachedLink, tmp_path: Path) -> Iterator[vgc.Device]:
    with open_device(link, tmp_path / "guest") as device:
        yield device


@asynccontextmanager
async def client_of(folder: Path) -> AsyncIterator[Client]:
    """A client of the control API of the daemon that serves."""
    client = await Client.connect(folder / "control")
    try:
        await client.ask("hello", version=API_VERSION)
        yield client
    finally:
        client.writer.close()


def ask(folder: Path, verb: str, **fields: Any) -> Any:
    """Asks the daemon that serves, as a client that has just connected."""

    async def asked() -> Any:
        async with client_of(folder) as client:
            return await client.ask(verb, **fields)

    return asyncio.run(asked())


def blocks_of(folder: Path, launch: Callable[[], object], count: int) -> dict[int, int]:
    """Blocks that each element of the VM "a" has run, once `launch` has run `count` of them."""

    async def counted() -> dict[int, int]:
        async with client_of(folder) as client:
            await client.ask("open", selector="vm=a,fn=perf")
            await asyncio.to_thread(launch)
            while True:
                stats = (await client.ask("stat", selector="vm=a"))["pes"]
                if sum(one["blocks"] for one in stats) == count:  # they come by themselves
                    return {one["pe"]: one["blocks"] for one in stats}

    return asyncio.run(asyncio.wait_for(counted(), ANSWERS_WITHIN_S))


def test_guest_that_computes_loses_nothing_however_often_the_daemon_is_killed(
    host: KeptVgcd, link: AttachedLink, device: vgc.Device
) -> None:
    add, total = device.compile(SOURCE)["add"], device.zeros(1, "int32")
    done = 0

    def compute() -> None:
        nonlocal done
        add[1, 1](total, 1)
        done += 1

    with repeating(compute) as failed, repeating(link.refresh) as unanswered:
        for number in range(1, TAKEOVERS + 1):
            before = done
            host.kill_daemon()
            host.wait_for_takeovers(number)
            until(lambda before=before: done > before or failed)  # type: ignore[misc]
    assert not failed
    assert not unanswered
    assert list(total.get()) == [done]
    assert link._space.generation == 1  # its worker has never been replaced
    assert host.count("worker_started") == 1


def test_program_is_compiled_although_the_daemon_dies_meanwhile(host: KeptVgcd, device: vgc.Device) -> None:
    number = 0

    def compile_another() -> None:
        nonlocal number
        number += 1
        out = device.zeros(1, "int32")
        device.compile(f'extern "C" __global__ void set(int *out) {{ *out = {number}; }}')["set"][1, 1](out)
        assert list(out.get()) == [number]

    with repeating(compile_another) as failed:
        for count in range(1, 4):
            before = number
            host.kill_daemon()
            host.wait_for_takeovers(count)
            until(lambda before=before: number > before + 1 or failed)  # type: ignore[misc]
    assert not failed


def test_messages_of_the_frontend_are_answered_once_whenever_the_daemon_dies(host: KeptVgcd, tmp_path: Path) -> None:
    """Rings are started and stopped all the while; a message that is answered twice makes the next answer a wrong one."""
    with AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        setups = link._setups()

        def start_anew() -> None:
            with link._speaking:
                bases = [link.frontend.get_base(setup.index) for setup in setups]
                assert bases == [0] * len(setups)
                for setup in setups:
                    link.frontend.set_up(setup)
                for setup in setups:
                    link.frontend.enable(setup.index, False)
                    link.frontend.enable(setup.index)
                link.frontend.config_read()

        with repeating(start_anew) as failed:
            for number in range(1, TAKEOVERS + 1):
                host.kill_daemon()
                host.wait_for_takeovers(number)
        assert not failed
        with open_device(link, tmp_path / "guest") as device:
            assert list(device.to_device([3, 4]).get()) == [3, 4]


def test_worker_that_dies_while_there_is_no_daemon_is_replaced(host: KeptVgcd, device: vgc.Device) -> None:
    worker = launchers(host.daemon)
    host.wait_for("spare_ready")
    os.kill(host.keeper.pid, signal.SIGSTOP)  # nobody takes over meanwhile
    os.kill(host.daemon, signal.SIGKILL)
    for pid in worker:
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
    os.kill(host.keeper.pid, signal.SIGCONT)
    host.wait_for("worker_ready", count=2)
    with pytest.raises(vgc.DeviceLost):
        device.zeros(1)
    device.reset()
    assert list(device.to_device([5]).get()) == [5]


def test_worker_that_dies_later_is_told_of_and_replaced_with_its_registered_functions(
    host: KeptVgcd, device: vgc.Device
) -> None:
    device.register(SOURCE)
    (worker,) = launchers(host.daemon)
    host.kill_daemon()
    host.wait_for_takeovers(1)
    os.kill(worker, signal.SIGKILL)
    assert host.wait_for("worker_died")["how"] == "was killed by SIGKILL"
    host.wait_for("programs_restored")
    host.wait_for("worker_ready", count=2)
    device.reset()
    total = device.zeros(1, "int32")
    device.function("add")[1, 1](total, 7)
    assert list(total.get()) == [7]


def test_worker_that_is_busy_when_its_rings_change_is_waited_for(
    host: KeptVgcd, link: AttachedLink, device: vgc.Device
) -> None:
    """Meanwhile the frontend has its answers, and the guest sees that its worker does not answer."""
    worker = worker_of(host.wait_for("worker_started")["pid"])
    host.wait_for("spare_ready")
    for pid in (host.daemon, worker):  # in this order: the next daemon is the one that notices
        os.kill(pid, signal.SIGSTOP)
    host.kill_daemon()
    host.wait_for_takeovers(1)
    with link._speaking:
        for setup in link._setups():
            link.frontend.enable(setup.index, False)
            link.frontend.enable(setup.index)
    host.wait_for("worker_unresponsive")
    until(lambda: link._space.health == Health.RECOVERING)
    os.kill(worker, signal.SIGCONT)
    host.wait_for("worker_answers_again")
    assert list(device.to_device([7]).get()) == [7]
    assert link._space.generation == 1
    assert host.count("worker_started") == 1


def test_frontend_that_leaves_while_there_is_no_daemon_is_let_go(host: KeptVgcd, tmp_path: Path) -> None:
    with FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        host.wait_for("spare_ready")
        os.kill(host.keeper.pid, signal.SIGSTOP)
        os.kill(host.daemon, signal.SIGKILL)
    os.kill(host.keeper.pid, signal.SIGCONT)
    host.wait_for("frontend_disconnected")
    with FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)


def test_frontend_that_connects_while_there_is_no_daemon_is_served(host: KeptVgcd, tmp_path: Path) -> None:
    host.wait_for("spare_ready")
    os.kill(host.keeper.pid, signal.SIGSTOP)
    os.kill(host.daemon, signal.SIGKILL)
    with FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.send(Request.GET_FEATURES)
        os.kill(host.keeper.pid, signal.SIGCONT)
        assert frontend.receive().u64 != 0


def test_limits_that_were_set_hold_on(host: KeptVgcd, link: AttachedLink, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "control_center.cli", "vm", "limits", "a", "--memory", "32M"]
    address = ("--daemon", f"unix:{tmp_path}/control")
    subprocess.run([*command, *address], check=True, cwd=REPOSITORY, timeout=HANGS_AFTER_S)
    until(lambda: link._space.quota_memory_bytes == 32 << 20)
    host.kill_daemon()
    host.wait_for_takeovers(1)
    link.refresh()
    assert link._space.quota_memory_bytes == 32 << 20


def test_what_clients_have_set_holds_on(host: KeptVgcd, device: vgc.Device, tmp_path: Path) -> None:
    """Policies in place of the configuration's, the elements that a VM is confined to, and that it takes no requests."""
    policy = {"name": "p", "selector": "vm=a", "kinds": ["trap"], "trigger": "sustained", "count": 3, "window_s": 9.0}
    ask(tmp_path, "set_policies", policies=[{**policy, "name": "first"}])
    set_now = ask(tmp_path, "set_policies", policies=[{**policy, "action": "reset"}, {**policy, "name": "q"}])
    ask(tmp_path, "confine", vm="a", pes="1")
    ask(tmp_path, "quiesce", vm="a")
    for number in (1, 2):
        host.kill_daemon()
        host.wait_for_takeovers(number)
        assert ask(tmp_path, "policies") == set_now
        (vm,) = ask(tmp_path, "topology")["vms"]
        assert (vm["confined_to"], vm["quiesced"]) == ([1], True)
    ask(tmp_path, "resume", vm="a")
    add, total = device.compile(SOURCE)["add"], device.zeros(1, "int32")
    assert blocks_of(tmp_path, lambda: add[64, 1](total, 1), 64) == {0: 0, 1: 64}
    assert list(total.get()) == [64]


def test_firmware_of_a_running_vm_is_known_and_can_be_rolled_back(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    factory = Factory(tmp_path / "keys")
    keys = f"firmware_keys: [{factory.public_key}]"
    good, bad = factory.image(), factory.image("2.1.0", UNHEALTHY)

    def rows() -> list[tuple[str, str | None, str, str]]:
        return [(pe["active"], pe["other"], pe["state"], pe["text"]) for pe in ask(tmp_path, "firmware")["pes"]]

    with (
        kept_vgcd(tmp_path, more=f"control: {{socket: {tmp_path}/control, {keys}}}\n") as host,
        AttachedLink(tmp_path / "a", num_queues=4) as link,
    ):
        link.wait_ready()
        ask(tmp_path, "stage_firmware", image=good.read_bytes(), selector="vm=a")
        assert ask(tmp_path, "activate_firmware", version="2.0.0", selector="vm=a")["state"] == "active"
        ask(tmp_path, "stage_firmware", image=bad.read_bytes(), selector="vm=a")
        assert ask(tmp_path, "activate_firmware", version="2.1.0", selector="vm=a")["state"] == "rolled back"
        before = ask(tmp_path, "firmware")
        assert rows() == [
            ("2.0.0", "2.1.0", "rolled back", "2.1.0 failed its self test with code 99"),
            ("2.0.0", "2.1.0", "active", ""),
        ]
        for number in (1, 2):
            host.kill_daemon()
            host.wait_for_takeovers(number)
            assert ask(tmp_path, "firmware") == before
        ask(tmp_path, "stage_firmware", image=factory.image("2.2.0").read_bytes(), selector="vm=a")
        assert ask(tmp_path, "activate_firmware", version="2.2.0", selector="vm=a")["state"] == "active"
        host.kill_daemon()
        host.wait_for_takeovers(3)
        assert ask(tmp_path, "rollback_firmware", selector="vm=a")["versions"] == {"a": "2.0.0"}
        assert rows() == [("2.0.0", "2.2.0", "active", "")] * 2
        os.kill(host.wait_for("worker_started")["pid"], signal.SIGKILL)
        host.wait_for("worker_ready", count=2)
        until(lambda: rows() == [("2.0.0", BUILT_IN, "active", "")] * 2)


def test_what_was_set_for_a_vm_without_a_frontend_holds_on(host: KeptVgcd, tmp_path: Path) -> None:
    host.wait_for("spare_ready")  # and the daemon serves the control API
    ask(tmp_path, "quiesce", vm="a")
    ask(tmp_path, "set_limits", vm="a", memory_bytes=32 << 20, weight=300)
    host.kill_daemon()
    host.wait_for("spare_ready", count=2)
    with FakeFrontend.connect(tmp_path / "a", num_queues=4) as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        (vm,) = ask(tmp_path, "topology")["vms"]
        assert (vm["quiesced"], vm["memory_quota_bytes"], vm["weight"]) == (True, 32 << 20, 300)


def test_cpu_time_of_a_worker_is_counted_once(host: KeptVgcd, device: vgc.Device, tmp_path: Path) -> None:
    def cpu_ns() -> int:
        return int(ask(tmp_path, "topology")["vms"][0]["cpu_ns"])

    clock = WorkerClock(host.wait_for("worker_started")["pid"], CpuAlarms())
    for number in (1, 2, 3):
        assert list(device.to_device([number]).get()) == [number]
        before = clock.cpu_ns()
        assert before is not None
        host.kill_daemon()
        host.wait_for_takeovers(number)
        until(lambda before=before: cpu_ns() >= before)  # type: ignore[misc]
        counted, now = cpu_ns(), clock.cpu_ns()
        assert now is not None
        assert counted <= now


def test_faults_are_counted_on_in_the_same_book(host: KeptVgcd, link: AttachedLink, tmp_path: Path) -> None:
    def kill_worker(times: int) -> None:
        os.kill(host.wait_for("worker_started", times)["pid"], signal.SIGKILL)
        host.wait_for("worker_ready", times + 1)

    kill_worker(1)
    (before,) = ask(tmp_path, "faults")["faults"]
    assert (before["kind"], before["count"], before["cleared"]) == ("death", 1, False)
    host.kill_daemon()
    host.wait_for_takeovers(1)
    assert ask(tmp_path, "faults")["faults"] == [before]
    kill_worker(2)
    (after,) = ask(tmp_path, "faults")["faults"]
    assert (after["fault"], after["text"], after["count"]) == (before["fault"], before["text"], 2)
    assert ask(tmp_path, "clear_faults") == {"cleared": 1}
    host.kill_daemon()
    host.wait_for_takeovers(2)
    assert ask(tmp_path, "faults") == {"faults": [], "totals": [{"vm": "a", "kind": "death", "count": 2}]}
    kill_worker(3)
    (new,) = ask(tmp_path, "faults")["faults"]
    assert (new["fault"], new["count"]) == (before["fault"] + 1, 1)
    link.refresh()


def test_limits_that_change_later_reach_the_workers_control_group(
    host: KeptVgcd, link: AttachedLink, device: vgc.Device, tmp_path: Path
) -> None:
    """It is the same one as before, in the VM's, whose processors move along; a later worker gets one beside or after it."""
    with cgroup_home.home():
        pass  # skips the test on a host without groups
    vm_group, version = host.wait_for("housed")["group"].removesuffix(")").split(" (version ")
    bound = "memory.max" if version == "2" else "memory.limit_in_bytes"

    def rooms() -> dict[str, int]:
        return {path.parent.name: int(path.read_text()) for path in Path(vm_group).glob(f"worker-*/{bound}")}

    ((room, before),) = rooms().items()
    for number in (1, 2):
        host.kill_daemon()
        host.wait_for_takeovers(number)
        assert host.wait_for("housed", count=number + 1)["group"].startswith(vm_group)
        assert rooms() == {room: before}
    ask(tmp_path, "set_limits", vm="a", memory_bytes=96 << 20)
    host.wait_for("allotment_enforced")
    assert rooms() == {room: before + (32 << 20) + (32 << 20) // 4}

    def takes_them() -> bool:
        device.nop()
        return link.acknowledged == 2

    until(takes_them)
    assert list(device.zeros(80 << 20, "uint8").get()[-1:]) == [0]
    ask(tmp_path, "set_limits", vm="a", pes=1)
    host.wait_for("allotment_enforced", count=2)
    now = rooms()[room]
    os.kill(host.wait_for("worker_started")["pid"], signal.SIGKILL)
    host.wait_for("worker_ready", count=2)
    assert set(rooms().values()) == {now}
    assert host.count("bounds_not_moved") == host.count("elements_not_bounded") == 0


def test_vm_whose_settings_have_changed_keeps_those_of_its_frontend(tmp_path: Path) -> None:
    """And one that is not in the configuration any more is served until its frontend leaves."""
    second = f"  b: {{socket: {tmp_path}/b, engine: 'null', num_queues: 4}}\n"
    with kept_vgcd(tmp_path, second) as host:
        config = tmp_path / "vgcd.yaml"
        with FakeFrontend.connect(tmp_path / "a") as one, FakeFrontend.connect(tmp_path / "b") as other:
            for frontend in (one, other):
                frontend.negotiate()
                frontend.wait_health(Health.READY)
            config.write_text(config.read_text().replace(second, "").replace("num_queues: 4", "num_queues: 2"))
            host.keeper.send_signal(signal.SIGHUP)
            host.wait_for("reloaded")
            host.kill_daemon()
            host.wait_for_takeovers(2)
            for frontend in (one, other):
                assert frontend.wait_for_config(lambda space: space.health == Health.READY).num_queues == 4
        host.wait_for("vm_left", vm="b")
        host.wait_for("vm_changed", vm="a")
        with FakeFrontend.connect(tmp_path / "a", num_queues=2) as frontend:
            frontend.negotiate()
            assert frontend.wait_for_config(lambda space: space.health == Health.READY).num_queues == 2
        assert not (tmp_path / "b").exists()


# ---- replacing it on purpose -----------------------------------------------------------------------


def test_signal_has_the_program_on_disk_take_over(host: KeptVgcd, device: vgc.Device) -> None:
    before = host.daemon
    host.wait_for("spare_ready")
    host.keeper.send_signal(signal.SIGUSR2)
    host.wait_for_takeovers(1)
    assert host.daemon != before
    assert list(device.to_device([6]).get()) == [6]


def faulty_program(folder: Path, *lines: str) -> tuple[str, ...]:
    """Command of a keeper that runs a vgcd in which `lines` have changed something beforehand."""
    faulty = folder / "faulty.py"
    faulty.write_text("\n".join(("from vhost_backend import entry", *lines, "entry.main()", "")))
    return str(REPOSITORY / "vhost_backend/keeper/vgc-keeper"), sys.executable, str(faulty)


def test_error_that_nobody_handles_ends_the_daemon_alone(tmp_path: Path) -> None:
    program = faulty_program(
        tmp_path,
        "from vhost_backend.daemon.server import Daemon",
        "async def fail():",
        "    raise RuntimeError('a bug')",
        "Daemon.reload_soon = lambda daemon: daemon._tasks.create_task(fail())",
    )
    with kept_vgcd(tmp_path, program=program) as host, AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        host.wait_for("spare_ready")
        host.keeper.send_signal(signal.SIGHUP)
        assert "a bug" in host.wait_for("crashed")["exception"]
        host.wait_for_takeovers(1)
        with open_device(link, tmp_path / "guest") as device:
            assert list(device.to_device([9]).get()) == [9]
        assert link._space.generation == 1


def test_daemon_that_hangs_is_killed_and_the_spare_takes_over(tmp_path: Path) -> None:
    keeper = (str(built(tmp_path, "-DSERVE_PATIENCE_MS=12000")), *VGCD)
    with kept_vgcd(tmp_path, program=keeper) as vgcd, AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        hung = vgcd.daemon
        os.kill(hung, signal.SIGSTOP)
        with open_device(link, tmp_path / "guest") as device:
            assert list(device.to_device([7]).get()) == [7]
        vgcd.wait_for_takeovers(1)
        vgcd.wait_for("keeper", text=f"vgc-keeper: vgcd hangs, and is killed (pid {hung})")
        link.refresh()
        assert vgcd.count("worker_started") == 1


def test_daemon_that_cannot_start_leaves_all_to_the_next(tmp_path: Path) -> None:
    serves = tmp_path / "serves"
    program = faulty_program(
        tmp_path,
        "import os",
        "from vhost_backend.daemon.housing import Housing",
        "from vhost_backend.errors import HostError",
        "house = Housing.house",
        "def fail_once(self, vm, lease):",
        "    housed = house(self, vm, lease)",
        f"    times = os.open({str(serves)!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)",
        "    os.write(times, b'.')",
        "    if os.fstat(times).st_size == 2:",
        "        raise HostError('no room', 'make some')",
        "    return housed",
        "Housing.house = fail_once",
    )
    with kept_vgcd(tmp_path, program=program) as host, AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        host.kill_daemon()
        assert "no room" in host.wait_for("crashed")["exception"]
        host.wait_for_takeovers(1)
        with open_device(link, tmp_path / "guest") as device:
            assert list(device.to_device([9]).get()) == [9]
        assert link._space.generation == 1
    assert serves.read_bytes() == b"..."


def test_group_that_a_daemon_was_making_when_it_died_is_made_by_the_next(host: KeptVgcd, tmp_path: Path) -> None:
    with cgroup_home.home():
        pass  # skips the test on a host without groups
    group = Path(host.wait_for("housed")["group"].rpartition(" (version ")[0])
    host.wait_for("spare_ready")
    group.rmdir()
    host.kill_daemon()
    host.wait_for("spare_ready", count=2)
    assert group.is_dir()
    with AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()


def test_daemon_that_dies_while_it_takes_over_leaves_the_worker_to_the_next(tmp_path: Path) -> None:
    """The worker has been told to resume by both, and answers both."""
    program = faulty_program(
        tmp_path,
        "import os, pathlib",
        "from vhost_backend.daemon.worker_takeover import WorkerTakeover",
        "begin = WorkerTakeover.begin",
        "def begin_and_die(*arguments):",
        "    begin(*arguments)",
        f"    died = pathlib.Path({str(tmp_path / 'died')!r})",
        "    if not died.exists():",
        "        died.touch()",
        "        os._exit(1)",
        "WorkerTakeover.begin = begin_and_die",
    )
    with kept_vgcd(tmp_path, program=program) as host, AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        with open_device(link, tmp_path / "guest") as device:
            host.kill_daemon()
            host.wait_for_takeovers(2)

            def is_settled() -> bool:
                names = [one["event"] for one in host.events]
                return (
                    "spare_ready" in names[names.index("frontend_taken_over", names.index("frontend_taken_over") + 1) :]
                )

            until(is_settled)
            assert list(device.to_device([9]).get()) == [9]
        assert link._space.generation == 1
        assert host.count("worker_started") == 1


def test_frontend_that_has_shortened_its_memory_is_taken_over_with_the_others(host: KeptVgcd, tmp_path: Path) -> None:
    """A frontend can shorten a file that it has shared at any time: no daemon may end for it."""
    with FakeFrontend.connect(tmp_path / "a") as frontend, Fd(os.memfd_create("memory")) as memory:
        os.truncate(memory.fileno(), 1 << 20)
        frontend.negotiate()
        frontend.set_memory([SharedFile(memory.fileno(), 1 << 20, 0, 1 << 40)])
        frontend.wait_health(Health.READY)
        os.truncate(memory.fileno(), 0)
        host.kill_daemon()
        host.wait_for_takeovers(1)
        frontend.synchronise()
        assert host.count("serving") == 2


@pytest.mark.parametrize(("fails", "event"), [("os._exit(1)", "frontend_given_up"), ("1 / 0", "frontend_not_served")])
def test_frontend_that_cannot_be_taken_over_loses_its_device_and_no_other_vm(
    tmp_path: Path, fails: str, event: str
) -> None:
    program = faulty_program(
        tmp_path,
        "import os",
        "from vhost_backend.daemon.frontend_side import FrontendSide",
        "restore = FrontendSide.restore",
        "def die_for_a(side, *arguments, **more):",
        "    if side._vm.config.name == 'a':",
        f"        {fails}",
        "    restore(side, *arguments, **more)",
        "FrontendSide.restore = die_for_a",
    )
    other = f"  b: {{socket: {tmp_path}/b, engine: cpu, num_queues: 4, quota: {{pes: 1, memory: 64M}}}}\n"
    with (
        kept_vgcd(tmp_path, other, more="overcommit: true\n", program=program) as host,
        FakeFrontend.connect(tmp_path / "a") as frontend,
        AttachedLink(tmp_path / "b", num_queues=4) as link,
    ):
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        worker = host.wait_for("worker_started", vm="a")["pid"]
        link.wait_ready()
        host.kill_daemon()
        assert host.wait_for(event)["vm"] == "a"
        with pytest.raises(BackendGone):
            frontend.synchronise()
        wait_gone(worker)
        with open_device(link, tmp_path / "guest") as device:
            assert list(device.to_device([9]).get()) == [9]
        assert link._space.generation == 1
        with FakeFrontend.connect(tmp_path / "a") as again:  # a device of its own, from the beginning
            again.negotiate()
            again.wait_health(Health.READY)


def test_program_that_cannot_take_over_says_why_and_the_present_one_goes_on(tmp_path: Path) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text(
        "import os, pathlib, runpy\n"
        f"if pathlib.Path({str(tmp_path / 'upgraded')!r}).exists():\n"
        "    os.environ['VGC_KEEPER_VERSION'] = '99'\n"
        "runpy.run_module('vhost_backend.entry', run_name='__main__')\n"
    )
    keeper = REPOSITORY / "vhost_backend/keeper/vgc-keeper"
    program = (str(keeper), sys.executable, str(newer))
    with kept_vgcd(tmp_path, program=program) as host, AttachedLink(tmp_path / "a", num_queues=4) as link:
        link.wait_ready()
        host.wait_for("spare_ready")
        before = host.daemon
        (tmp_path / "upgraded").touch()
        host.keeper.send_signal(signal.SIGUSR2)
        until(lambda: any("the present one goes on" in one.get("text", "") for one in host.events))
        why = f"this vgcd cannot take the running one's place: it knows records of version {RECORD_VERSION}, and those have version 99"
        assert any(why in one.get("text", "") for one in host.events)
        link.refresh()
        assert host.daemon == before


# ---- as a service ------------------------------------------------------------------------------------


class Manager:
    """A service manager as systemd is with `KillMode=process`: it knows the main process that it was told of."""

    def __init__(self, folder: Path) -> None:
        self.runtime = folder / "run"
        self.runtime.mkdir()
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notices.bind(str(folder / "notices"))
        self._notices.settimeout(ANSWERS_WITHIN_S)
        self.environment = {"NOTIFY_SOCKET": str(folder / "notices"), "RUNTIME_DIRECTORY": str(self.runtime)}
        self.main = 0

    def hear(self) -> dict[str, str]:
        """The next notice, of which the main process counts."""
        words = dict(line.split("=", 1) for line in self._notices.recv(1000).decode().splitlines())
        self.main = int(words["MAINPID"])
        return words

    def stop(self) -> None:
        os.kill(self.main, signal.SIGTERM)
        wait_gone(self.main)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs the service's program; it ends at once where a keeper runs already."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            [*VGCD, *map(str, arguments)],
            check=False,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
        )

    def close(self) -> None:
        self._notices.close()


def test_service_is_restarted_under_a_guest_that_computes_and_ended_for_good(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    with kept_vgcd(tmp_path, environment=manager.environment) as host:
        assert manager.hear()["READY"] == "1"
        assert manager.main == host.daemon
        with AttachedLink(tmp_path / "a", num_queues=4) as link:
            link.wait_ready()
            with open_device(link, tmp_path / "guest") as device:
                add, total = device.compile(SOURCE)["add"], device.zeros(1, "int32")
                done = 0

                def compute() -> None:
                    nonlocal done
                    add[1, 1](total, 1)
                    done += 1

                with repeating(compute) as failed:
                    for _ in range(3):
                        host.wait_for("spare_ready", host.count("serving"))
                        manager.stop()
                        assert "READY" not in manager.hear(), "the spare has taken over; the start goes on"
                        ran = manager.run("run", "--config", tmp_path / "vgcd.yaml")
                        assert (ran.returncode, ran.stderr) == (0, "")
                        assert "READY" not in manager.hear(), "the program on disk has"
                        assert manager.hear()["READY"] == "1", "the one that was run says so"
                        until(lambda: manager.main == host.daemon)  # its log is read by a thread
                assert not failed
                assert list(total.get()) == [done]
            ran = manager.run("replace")
            assert (ran.returncode, ran.stdout.startswith("vgcd ")) == (0, True)
            link.refresh()
        ran = manager.run("end")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert host.keeper.wait(ANSWERS_WITHIN_S) == 0
    ran = manager.run("replace")
    assert ran.returncode == 3
    assert f"no vgcd with a keeper has its socket in {manager.runtime}" in ran.stderr
    manager.close()


def test_signal_to_the_daemon_itself_has_the_spare_take_over(host: KeptVgcd, device: vgc.Device) -> None:
    host.kill_daemon(signal.SIGTERM)
    host.wait_for_takeovers(1)
    assert list(device.to_device([8]).get()) == [8]


# ---- ends --------------------------------------------------------------------------------------------


def test_end_on_purpose_ends_all_of_it(host: KeptVgcd, tmp_path: Path) -> None:
    with FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        (worker,) = launchers(host.daemon)
        daemon = host.daemon
        assert host.end() == 0
    wait_gone(worker)
    wait_gone(daemon)
    assert not (tmp_path / "a").exists()


def test_end_of_the_keeper_ends_daemon_and_workers(host: KeptVgcd, tmp_path: Path) -> None:
    with FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.READY)
        (worker,) = launchers(host.daemon)
        daemon = host.daemon
        host.keeper.kill()
    wait_gone(daemon)
    wait_gone(worker)


def test_configuration_that_is_wrong_ends_the_program_with_its_exit_code(tmp_path: Path) -> None:
    config = tmp_path / "vgcd.yaml"
    config.write_text("vms: 3\n")
    vgcd = KeptVgcd(config, VGCD)
    assert vgcd.keeper.wait(ANSWERS_WITHIN_S) == 2
    vgcd.close()
