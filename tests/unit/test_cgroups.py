"""Control groups on this host, whichever version it has; `vm/test_cgroups.py` has version 2 for certain."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.fakes.cgroup_home import home
from tests.waiting import until
from vhost_backend import users
from vhost_backend.cgroups import host
from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.host import Home
from vhost_backend.cgroups.limits import Limits
from vhost_backend.cgroups.versions import V1
from vhost_backend.config.daemon import parse
from vhost_backend.daemon import housing
from vhost_backend.daemon.housing import Housing
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox import launch, spawn
from vhost_backend.sandbox.launch import LaunchSpec

MIB = 1 << 20
TAKE = "data = [bytes([1]) * (1 << 20) for _ in range({mib})]"
"""Program that uses memory."""
FORK = "import os\nwhile os.fork(): pass\nos.kill(os.getpid(), 19)"
"""Program that makes processes, each of which stops, until it must not."""


@pytest.fixture
def own() -> Iterator[Home]:
    with home() as made:
        yield made


def run_in(room: Quarters, program: str) -> int:
    """Exit status of a Python program in `room`, started by the launcher; negative: a signal."""
    spec = LaunchSpec((sys.executable, "-I", "-S", "-c", program), quarters=room)
    argv = launch.command(spec, isolate=False)
    status = subprocess.run(argv, capture_output=True, check=False).returncode
    doors = () if room.cgroup is None else room.cgroup.doors
    until(lambda: not any(door.read_text() for door in doors))
    return status


def test_a_group_holds_its_processes_to_their_memory_and_no_other_group(own: Home) -> None:
    vm = Quarters(cgroup=own.group.child("vm-a"))
    small, large = vm.room("worker", Limits(memory_bytes=64 * MIB)), vm.room("worker", Limits(memory_bytes=512 * MIB))
    assert run_in(small, TAKE.format(mib=128)) == -9
    assert run_in(large, TAKE.format(mib=128)) == 0
    assert (small.oom_kills() > 0, large.oom_kills()) == (True, 0)
    vm.vacate(small)
    vm.vacate(large)


def test_a_group_bounds_its_processes(own: Home) -> None:
    vm = Quarters(cgroup=own.group.child("vm-a"))
    room = vm.room("compile", Limits(processes=8))
    assert run_in(room, FORK) == 1, "BlockingIOError"


def test_workers_take_turns_in_one_group(own: Home) -> None:
    """The kernel remembers a group that is removed while pages of files that it has touched first are in use."""
    vm = Quarters(cgroup=own.group.child("vm-a"))
    first = vm.used_room("worker", Limits(memory_bytes=64 * MIB))
    assert run_in(first, TAKE.format(mib=128)) == -9
    vm.keep(first)
    second = vm.used_room("worker", Limits(memory_bytes=64 * MIB))
    assert (str(second.cgroup), second.oom_kills()) == (str(first.cgroup), 0)
    assert run_in(second, TAKE.format(mib=128)) == -9
    assert second.oom_kills() > 0


def test_a_group_is_not_used_again_before_its_processes_have_ended(own: Home) -> None:
    vm = own.group.child("vm-a")
    first = vm.child("first")
    with subprocess.Popen(("/bin/sleep", "1000")) as process:
        for door in first.doors:
            door.write_text(str(process.pid))
        vm.keep(first)
        assert vm.reuse(Limits()) is None
        process.kill()
    assert vm.reuse(Limits()) is first
    assert vm.reuse(Limits()) is None


def test_a_group_that_cannot_be_used_again_is_given_up(own: Home) -> None:
    vm = own.group.child("vm-a")
    gone = vm.child("gone")
    gone.remove()
    vm.keep(gone)
    assert vm.reuse(Limits(memory_bytes=64 * MIB)) is None


def test_processor_time_and_shares_are_set(own: Home) -> None:
    cgroup = own.group.child("vm-a").child("worker", Limits(cpus=0.25, weight=25))
    folders = [door.parent for door in cgroup.doors]
    values = {path.name: path.read_text().strip() for folder in folders for path in folder.glob("cpu.*")}
    if "cpu.max" in values:
        assert (values["cpu.max"], values["cpu.weight"]) == ("25000 100000", "25")
    else:
        assert (values["cpu.cfs_quota_us"], values["cpu.cfs_period_us"], values["cpu.shares"]) == (
            "25000",
            "100000",
            "256",
        )


def test_a_group_whose_processes_are_still_ending_is_removed_with_the_next(own: Home) -> None:
    vm = own.group.child("vm-a")
    first = vm.child("first")
    with subprocess.Popen(("/bin/sleep", "1000")) as process:
        for door in first.doors:
            door.write_text(str(process.pid))
        vm.leave(first)
        assert first.doors[0].exists()
        process.kill()
    vm.child("second")
    assert not first.doors[0].exists()


def test_groups_of_daemons_that_were_killed_are_removed_and_those_of_others_are_not(own: Home) -> None:
    script = "import os, time; from vhost_backend.cgroups import host; h = host.find(); h.group.child('vm-a');"
    report = "print(*h.group.doors, flush=True); time.sleep(1000)"
    with subprocess.Popen((sys.executable, "-c", script + report), stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        doors = [Path(word) for word in other.stdout.readline().split()]
        with_both = host.find()
        assert all(door.exists() for door in doors)
        with_both.close()
        other.kill()
    if not doors[0].parent.name.startswith("vgcd-"):
        pytest.skip("this group was delegated, and stays")

    def are_gone() -> bool:
        host.find().close()
        return not any(door.exists() for door in doors)

    until(are_gone)
    assert own.group.doors[0].exists()


def test_daemons_with_the_same_pid_have_groups_of_their_own(own: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers that share the host's groups."""
    group = own.group.doors[0].parent
    if not group.name.startswith("vgcd-"):
        pytest.skip("this group was delegated, and no other daemon is in it")
    number = int(group.name.rpartition(".")[2])
    monkeypatch.setattr(host, "_numbers", count(number))
    vm = own.group.child("vm-a")
    host.find().close()
    assert vm.child("worker").doors[0].exists()


def test_what_is_left_of_a_daemon_does_not_count_for_the_next(own: Home) -> None:
    """In a group that is delegated to the next daemon as well."""
    left = Quarters(cgroup=own.group.child("vm-a").child("worker-1", Limits(memory_bytes=64 * MIB)))
    assert run_in(left, TAKE.format(mib=128)) == -9
    room = Quarters(cgroup=own.group.child("vm-a").child("worker-1", Limits(memory_bytes=64 * MIB)))
    assert room.oom_kills() == 0


def test_a_host_without_control_groups_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_mounts", lambda: iter(()))
    with pytest.raises(
        HostError, match="no control groups: version 2 is not mounted; version 1 has no cpu, memory, pids"
    ):
        host.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_privileges_is_told_so() -> None:
    script = "from vhost_backend.cgroups import host\nhost.find()"
    done = subprocess.run(
        (sys.executable, "-c", script),
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in done.stderr or "PermissionError" in done.stderr:
        pytest.skip("other users cannot read this checkout")
    assert "HostError: no control groups: " in done.stderr
    assert "Errno" not in done.stderr.splitlines()[-1]
    assert "run vgcd as the shipped unit" in done.stderr


def test_a_group_that_was_taken_away_is_an_error_of_the_host(tmp_path: Path) -> None:
    gone = Cgroup(V1(), dict.fromkeys(("memory", "pids", "cpu"), tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        gone.child("worker")
    assert gone.oom_kills() == 0


def test_processes_without_a_group_have_no_room_of_their_own() -> None:
    assert NOWHERE.room("worker", Limits(memory_bytes=MIB)) is NOWHERE
    NOWHERE.vacate(NOWHERE)
    assert NOWHERE.oom_kills() == 0


@pytest.fixture
def lease() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def test_each_vm_gets_a_group(monkeypatch: pytest.MonkeyPatch, own: Home, lease: contextlib.ExitStack) -> None:
    monkeypatch.setattr(spawn, "users_of_workers", missing)
    config = parse("vms: {a: {socket: /s/a}, b: {socket: /s/b}}")
    offered = Housing.open(config, lease)
    groups = [offered.house(vm, lease).quarters.cgroup for vm in config.vms]
    doors = [door for group in groups if group is not None for door in group.doors]
    assert {door.parent.name for door in doors} == {"vm-a", "vm-b"}
    assert all(door.exists() for door in doors)
    lease.close()
    assert not any(door.exists() for door in doors)
    assert own.group.doors[0].exists()


def test_groups_may_be_done_without_unless_they_are_required(
    monkeypatch: pytest.MonkeyPatch, lease: contextlib.ExitStack
) -> None:
    def lacking() -> Home:
        raise HostError("no reason", "a hint")

    monkeypatch.setattr(host, "find", lacking)
    for choice in ("auto", "off"):
        config = parse(f"cgroups: {choice}\nvms: {{a: {{socket: /s/a}}}}")
        found = Housing.open(config, lease)
        assert (found.home, found.no_home) == (None, "no reason" if choice == "auto" else "")
    with pytest.raises(HostError, match="no reason"):
        Housing.open(parse("cgroups: required\nvms: {a: {socket: /s/a}}"), lease)
    with pytest.raises(ConfigError, match=r"cgroups is 'yes'; allowed: auto or required or off"):
        parse("cgroups: 'yes'\nvms: {a: {socket: /s/a}}")


def test_check_of_a_configuration_tells_what_vms_would_be_given(monkeypatch: pytest.MonkeyPatch, own: Home) -> None:
    config = parse("cgroups: required\nvms: {a: {socket: /s/a}}")
    assert f"each VM gets a control group (version {own.group.version})" in housing.describe(config)
    monkeypatch.setattr(host, "_mounts", lambda: iter(()))
    (line,) = (line for line in housing.describe(config) if "group" in line)
    assert line.startswith("no VM gets a control group, and vgcd run will not start: no control groups: ")
    monkeypatch.setattr(spawn, "users_of_workers", missing)
    assert "all VMs share a user: no reason" in housing.describe(config)
    named = replace(config, users=users.UserRange(5, 2))
    assert "users 5-6 cannot be had, and vgcd run will not start: no reason" in housing.describe(named)


def missing(_wanted: users.UserRange | None) -> users.UserRange:
    raise HostError("no reason")


def test_group_that_could_not_be_removed_does_not_take_its_successor_along(own: Home) -> None:
    first = own.group.child("vm-a")
    inner = first.child("compile-1")
    with subprocess.Popen(("/bin/sleep", "1000")) as process:
        for door in inner.doors:
            door.write_text(f"{process.pid}\n")
        own.group.leave(first)  # while a process in it still ends
        process.kill()
    again = own.group.child("vm-a")
    own.group.child("vm-b")
    assert all(door.exists() for door in again.doors)
