"""Changes of a daemon's VMs, step by step: what is under way meanwhile, and what the host has no room for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.fakes.daemon import SANDBOX, DaemonThread, FakeCompiler
from tests.fakes.frontend import FakeFrontend
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.test_reload import is_reached, memory_of
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend import entry
from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import CompileResult
from vhost_backend.config.control import ControlConfig
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.daemon.server import Daemon, House
from vhost_backend.errors import ConfigError, HostError
from virtio_proto.schema import Health, Opcode, ProgramKind, Status

pytestmark = needs_walls


class Rooms:
    """Rooms of a host, of which a test says how many there are."""

    def __init__(self, free: int = 1000) -> None:
        self.free = free
        self.asked: list[str] = []
        self.seen: Callable[[str], None] = lambda _name: None

    def house(self, vm: VmConfig, lease: contextlib.ExitStack) -> VmConfig:
        self.asked.append(vm.name)
        self.seen(vm.name)
        if self.free == 0:
            raise HostError("all rooms are taken")
        self.free -= 1
        lease.callback(self._give_back)
        return vm

    def _give_back(self) -> None:
        self.free += 1


def vm(folder: Path, name: str, memory_mib: int = 16, *, at: str = "") -> VmConfig:
    return VmConfig(
        name,
        vm_uuid(name),
        folder / f"{at or name}.sock",
        REGION_BYTES,
        engine=EngineConfig("null"),
        quota=QuotaConfig(memory_bytes=memory_mib * MIB),
        num_queues=1,
        sandbox=SANDBOX,
    )


def config(folder: Path, *vms: VmConfig) -> DaemonConfig:
    control = ControlConfig(socket=folder / "control", host="h1")
    return DaemonConfig(vms, cache=folder / "cache", overcommit=True, control=control)


def serving(first: DaemonConfig, house: House, retry_s: float = ANSWERS_WITHIN_S) -> DaemonThread:
    return DaemonThread(first, sandboxed_worker, house=house, retry_s=retry_s)


def change(thread: DaemonThread, new: DaemonConfig, *, now: bool = False) -> tuple[str, ...]:
    """Serves another configuration; returns the VMs whose changes wait for their frontends."""
    return thread.begin(lambda daemon: daemon.reload(new, now=now)).result(ANSWERS_WITHIN_S).waiting


@pytest.mark.parametrize("turns", range(6))
def test_connection_that_arrives_with_a_change_is_served(tmp_path: Path, turns: int) -> None:
    client = socket.socket(socket.AF_UNIX)

    async def at_once(daemon: Daemon) -> None:
        client.connect(str(tmp_path / "a.sock"))
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, in which the connection gets further
        await daemon.reload(config(tmp_path, vm(tmp_path, "a", 32)))

    with serving(config(tmp_path, vm(tmp_path, "a")), Rooms().house) as thread, FakeFrontend(client, 1) as frontend:
        thread.begin(at_once).result(ANSWERS_WITHIN_S)
        frontend.negotiate()
        frontend.wait_health(Health.READY)


def test_waiting_connection_is_passed_on_to_the_changed_vm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhost_backend.daemon.vm.HANDOVER_S", ANSWERS_WITHIN_S)

    async def connect_and_change(daemon: Daemon, client: socket.socket) -> None:
        client.connect(str(tmp_path / "a.sock"))
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251  it is accepted now, and waits for the end of the first
        await daemon.reload(config(tmp_path, vm(tmp_path, "a", 32)))

    with serving(config(tmp_path, vm(tmp_path, "a")), Rooms().house) as thread:
        first = FakeVm(tmp_path / "a.sock")
        first.frontend.wait_health(Health.READY)
        client = socket.socket(socket.AF_UNIX)
        thread.begin(lambda daemon: connect_and_change(daemon, client)).result(ANSWERS_WITHIN_S)
        first.close()
        with FakeFrontend(client, 1) as second:
            second.negotiate()
            second.wait_health(Health.READY)


def test_vms_exchange_their_sockets_in_one_reload(tmp_path: Path) -> None:
    before = config(tmp_path, vm(tmp_path, "a", 16), vm(tmp_path, "b", 32), vm(tmp_path, "c", 48))
    after = config(
        tmp_path, vm(tmp_path, "a", 16, at="b"), vm(tmp_path, "b", 32, at="a"), vm(tmp_path, "d", 64, at="c")
    )
    with serving(before, Rooms().house) as thread:
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)
            assert change(thread, after) == ("a",)
            for name, memory_mib in (("a", 32), ("c", 64)):
                with FakeVm(tmp_path / f"{name}.sock") as other:
                    other.frontend.wait_health(Health.READY)
                    assert memory_of(other) == memory_mib * MIB
        with FakeVm(tmp_path / "b.sock") as again:
            again.frontend.wait_health(Health.READY)
            assert memory_of(again) == 16 * MIB


def test_socket_that_another_vm_keeps_is_refused_by_any_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path)
    with serving(config(tmp_path, vm(tmp_path, "a")), Rooms().house) as thread:
        other = vm(tmp_path / "alias", "b", at="a")
        with pytest.raises(ConfigError, match=r"allowed: a path that vms\.a does not use"):
            change(thread, config(tmp_path, vm(tmp_path, "a"), other))
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)


def test_socket_cannot_be_passed_on_to_two_vms_by_two_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path)
    with serving(config(tmp_path, vm(tmp_path, "a")), Rooms().house) as thread:
        both = vm(tmp_path, "b", at="a"), vm(tmp_path / "alias", "c", at="a")
        with pytest.raises(ConfigError, match=r"vms\.c\.socket is .*; allowed: a path that vms\.b does not use"):
            change(thread, config(tmp_path, *both))
        change(thread, config(tmp_path, both[1]))
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)
        until(lambda: thread.ask(lambda daemon: list(daemon.vms)) == ["c"])


def test_failed_change_gives_everything_back(tmp_path: Path) -> None:
    rooms = Rooms(free=3)
    before = config(tmp_path, vm(tmp_path, "a"))
    with serving(before, rooms.house) as thread:
        more = (vm(tmp_path, name) for name in "bcde")
        with pytest.raises(HostError, match="all rooms are taken"):
            change(thread, config(tmp_path, vm(tmp_path, "a", 32), *more))
        assert rooms.free == 2
        assert [path.name for path in tmp_path.glob("*.sock")] == ["a.sock"]
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)
            assert memory_of(guest) == 16 * MIB


def test_other_work_goes_on_between_the_vms_of_a_change(tmp_path: Path) -> None:
    rooms, turn, turns = Rooms(), 0, []

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)  # noqa: TID251  counts the turns of the loop

    async def change_meanwhile(daemon: Daemon) -> None:
        counting = asyncio.create_task(count())
        await daemon.reload(config(tmp_path, vm(tmp_path, "a"), *(vm(tmp_path, f"v{n}") for n in range(20))))
        counting.cancel()

    with serving(config(tmp_path, vm(tmp_path, "a")), rooms.house) as thread:
        rooms.seen = lambda _name: turns.append(turn)
        thread.begin(change_meanwhile).result(ANSWERS_WITHIN_S)
    assert len(set(turns)) == len(turns) == 20


def test_changes_at_the_same_time_take_turns(tmp_path: Path) -> None:
    many = [vm(tmp_path, f"v{n}") for n in range(10)]
    first, second = config(tmp_path, vm(tmp_path, "a"), *many), config(tmp_path, vm(tmp_path, "a"), many[3])

    async def both(daemon: Daemon) -> None:
        done = await asyncio.gather(daemon.reload(first), daemon.reload(second), daemon.remove("a"))
        assert [len(change.added) for change in done] == [10, 0, 0]
        assert [len(change.removed) for change in done] == [0, 9, 1]

    with serving(config(tmp_path, vm(tmp_path, "a")), Rooms().house) as thread:
        thread.begin(both).result(ANSWERS_WITHIN_S)
        until(lambda: thread.ask(lambda daemon: list(daemon.vms)) == ["v3"])


def test_daemon_may_end_in_the_midst_of_a_change(tmp_path: Path) -> None:
    rooms = Rooms()
    with serving(config(tmp_path, vm(tmp_path, "a")), rooms.house) as thread:
        more = config(tmp_path, *(vm(tmp_path, f"v{n}") for n in range(50)))
        thread.begin(lambda daemon: daemon.reload(more))
        until(lambda: len(rooms.asked) > 1)
    assert not list(tmp_path.glob("*.sock"))
    assert rooms.free == 1000


def problem_of(caller: ApiCaller, name: str) -> str | None:
    (row,) = [row for row in caller.ask("topology")["vms"] if row["vm"] == name]
    problem: str | None = row.get("problem")
    return problem


def test_only_vm_without_room_is_served_as_soon_as_there_is_room(tmp_path: Path) -> None:
    rooms = Rooms()
    with serving(config(tmp_path, vm(tmp_path, "a")), rooms.house, 0.01) as thread, contextlib.ExitStack() as stack:
        until(lambda: is_reached(tmp_path / "control"))
        caller = stack.enter_context(ApiCaller(tmp_path / "control"))
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)
            change(thread, config(tmp_path, replace(vm(tmp_path, "a", 32), num_queues=2)))  # from the next guest on
            rooms.free = -1
            rooms.seen = lambda _name: setattr(rooms, "free", 0)
        until(lambda: problem_of(caller, "a") == "all rooms are taken")
        rooms.seen = lambda _name: setattr(rooms, "free", 1)
        until(lambda: problem_of(caller, "a") is None)
        with FakeVm(tmp_path / "a.sock") as guest:
            guest.frontend.wait_health(Health.READY)
            assert memory_of(guest) == 32 * MIB


def test_vms_exchange_what_one_of_them_can_have_alone(tmp_path: Path) -> None:
    """Such as cores of the host. Each is tried again as soon as the other one has left."""
    taken: set[int] = set()

    def house(vm: VmConfig, lease: contextlib.ExitStack) -> VmConfig:
        if vm.quota.memory_bytes in taken:
            raise HostError("another VM has that")
        taken.add(vm.quota.memory_bytes)
        lease.callback(taken.remove, vm.quota.memory_bytes)
        return vm

    def memory(daemon: Daemon) -> dict[str, int]:
        return {name: vm.config.quota.memory_bytes // MIB for name, vm in daemon.vms.items()}

    before = config(tmp_path, vm(tmp_path, "a", 16), vm(tmp_path, "b", 32))
    after = config(tmp_path, vm(tmp_path, "a", 32), vm(tmp_path, "b", 16))
    with serving(before, house, retry_s=2 * ANSWERS_WITHIN_S) as thread:
        change(thread, after)
        until(lambda: thread.ask(memory) == {"a": 32, "b": 16})


@pytest.mark.parametrize("then", ["is served", "is removed"])
def test_vm_without_room_takes_part_in_the_next_reload(tmp_path: Path, then: str) -> None:
    rooms = Rooms()
    both = config(tmp_path, vm(tmp_path, "a"), vm(tmp_path, "b"))
    with serving(both, rooms.house) as thread, contextlib.ExitStack() as stack:
        until(lambda: is_reached(tmp_path / "control"))
        caller = stack.enter_context(ApiCaller(tmp_path / "control"))
        rooms.seen = lambda _name: setattr(rooms, "free", 0)
        changed = config(tmp_path, vm(tmp_path, "a", 32), vm(tmp_path, "b"))
        change(thread, changed)
        until(lambda: problem_of(caller, "a") is not None)
        rooms.seen = lambda _name: setattr(rooms, "free", 1)
        if then == "is served":
            change(thread, changed)
            with FakeVm(tmp_path / "a.sock") as guest:
                guest.frontend.wait_health(Health.READY)
                assert memory_of(guest) == 32 * MIB
        else:
            change(thread, config(tmp_path, vm(tmp_path, "b")))
            assert thread.ask(lambda daemon: list(daemon.vms)) == ["b"]
            assert not (tmp_path / "a.sock").exists()


@pytest.mark.parametrize(
    ("arguments", "ignored"),
    [(["run", "--config", "f"], True), (["--socket-path=s"], True), (["--fd", "3"], True), (["doctor"], False)],
)
def test_hangups_are_ignored_before_the_daemons_modules_are_imported(
    arguments: list[str], ignored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGHUP)
    cli = SimpleNamespace(main=lambda: int(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN))
    monkeypatch.setattr("vhost_backend.cli", cli, raising=False)
    monkeypatch.setitem(sys.modules, "vhost_backend.cli", cli)
    monkeypatch.setattr(sys, "argv", ["vgcd", *arguments])
    monkeypatch.setenv("VGC_KEEPER_FD", "3")  # else it would become the keeper
    try:
        assert entry.main() == ignored
    finally:
        signal.signal(signal.SIGHUP, before)


class HeldCompiler(FakeCompiler):
    """Compiles nothing before the test lets it."""

    def __init__(self) -> None:
        self.held: list[asyncio.Future[CompileResult]] = []

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        assert (vm, kind, options, target.engine) == ("a", ProgramKind.CUDA_SOURCE, (), "null")
        os.close(source_fd)
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]


def test_programs_that_wait_for_a_compiler_are_counted(tmp_path: Path) -> None:
    compiler = HeldCompiler()
    thread = DaemonThread(config(tmp_path, vm(tmp_path, "a")), sandboxed_worker, compiler=compiler)
    with thread, FakeVm(tmp_path / "a.sock") as guest, ThreadPoolExecutor(1) as pool:
        guest.frontend.wait_health(Health.READY)
        until(lambda: is_reached(tmp_path / "control"))
        with ApiCaller(tmp_path / "control") as caller:

            def compiling() -> int:
                (row,) = caller.ask("topology")["vms"]
                return int(row["compiling"])

            assert compiling() == 0
            context = guest.driver.request(Opcode.CONTEXT_CREATE).value
            body = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": 4}
            loading = pool.submit(guest.driver.request, Opcode.PROGRAM_LOAD, body, b"text", context=context)
            until(lambda: compiling() == 1)
            failed = CompileResult(ok=False, image_fd=None, log="no", from_cache=False, duration_seconds=0)
            thread.ask(lambda _daemon: compiler.held[0].set_result(failed))
            assert loading.result(ANSWERS_WITHIN_S).status == Status.COMPILE_FAILED
            assert compiling() == 0
