"""Users of VMs: claimed on a host once, and only where they exist."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import until
from vhost_backend import users
from vhost_backend.config.daemon import parse
from vhost_backend.daemon.housing import Housing
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.quarters import Quarters
from vhost_backend.sandbox import launch, spawn
from vhost_backend.sandbox.launch import LaunchReport, LaunchSpec
from vhost_backend.users import UserRange

SMALL = UserRange(4_000_000_000 + os.getpid() % 1000 * 10, 3)
VM = uuid.UUID(int=SMALL.count * 1000)
TWO_VMS = "vms: {a: {socket: /run/a}, b: {socket: /run/b}}\n"


@pytest.fixture
def claims() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def test_a_user_is_claimed_once_until_it_is_given_back(claims: contextlib.ExitStack) -> None:
    first, second, third = (users.claim(VM, SMALL) for _ in range(3))
    for user in (second, third):
        claims.callback(user.close)
    assert [first.number, second.number, third.number] == [SMALL.first, SMALL.first + 1, SMALL.first + 2]
    with pytest.raises(HostError, match=f"all users of {SMALL} are taken"):
        users.claim(VM, SMALL)
    first.close()
    again = users.claim(VM, SMALL)
    claims.callback(again.close)
    assert again.number == SMALL.first


@pytest.mark.parametrize(
    ("mapped", "problem"),
    [
        ("0 0 4294967295", ""),
        ("1000 5 20\n1020 9000 12", ""),
        ("0 7 1000", "the uids 1005-1024 do not exist in this user namespace"),
        ("1000 5 20\n1021 9000 12", "uids"),
        ("", "uids"),
    ],
)
def test_users_must_exist_in_the_user_namespace(monkeypatch: pytest.MonkeyPatch, mapped: str, problem: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "read_text", lambda _path: mapped)
    wanted = UserRange(1005, 20)
    with pytest.raises(HostError, match=problem) if problem else contextlib.nullcontext():
        assert users.find_range(wanted) == wanted


@pytest.fixture
def subordinate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """Makes this process an ordinary user's, "daemon" (1), with the given lines of ``/etc/subuid`` and ``/etc/subgid``."""
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(users, "gives_any_ids", lambda: False)
    monkeypatch.setattr(users, "map_tools", lambda: ("/usr/bin/newuidmap", "/usr/bin/newgidmap"))
    files = (tmp_path / "subuid", tmp_path / "subgid")
    monkeypatch.setattr(users, "_SUBORDINATE", files)

    def give(uids: str, gids: str) -> None:
        for file, text in zip(files, (uids, gids), strict=True):
            file.write_text(text)

    return give


@pytest.mark.parametrize(
    ("uids", "gids", "ranges"),
    [
        ("daemon:1000:10\n", "daemon:1000:10\n", ["1000-1009"]),
        ("1:1000:10", "daemon:1005:10", ["1005-1009"]),
        ("daemon:10:5\n1:15:5\ndaemon:40:2", "x:1:100\ndaemon:1:50", ["10-19", "40-41"]),
        ("daemon:0:3", "daemon:0:3", ["1-2"]),
        ("daemon:4294967290:100", "daemon:4294967290:100", ["4294967290-4294967294"]),
        ("# daemon:1:5\ndaemon:x:5\ndaemon:7\n\n", "daemon:1:100", []),
        ("daemon:10:5", "daemon:15:5", []),
        ("bin:10:5", "bin:10:5", []),
    ],
)
def test_ordinary_user_has_ids_that_are_both_uids_and_gids(
    subordinate: Callable[[str, str], None], uids: str, gids: str, ranges: list[str]
) -> None:
    subordinate(uids, gids)
    assert list(map(str, users.subordinate_ranges()[1])) == ranges


def test_ordinary_user_gives_the_longest_range(subordinate: Callable[[str, str], None]) -> None:
    subordinate("daemon:10:5\ndaemon:100:20", "daemon:1:1000")
    assert users.find_range() == UserRange(100, 20)
    assert users.find_range(UserRange(11, 4)) == UserRange(11, 4)


def test_ordinary_user_is_told_how_to_get_ids(subordinate: Callable[[str, str], None]) -> None:
    subordinate("daemon:10:5\ndaemon:100:20", "daemon:1:1000")
    with pytest.raises(
        HostError, match=r"daemon, whose subordinate ids are 10-14, 100-119 \(usermod --add-subuids 11-15 "
    ):
        users.find_range(UserRange(11, 5))
    subordinate("", "")
    with pytest.raises(HostError, match=rf"give no ids in common \(usermod --add-subuids {users.DEFAULT_RANGE} "):
        users.find_range()


def test_ordinary_user_needs_the_package_uidmap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(users, "gives_any_ids", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match=r"no newuidmap and newgidmap \(apt-get install uidmap"):
        users.find_range()


def test_each_vm_gets_a_user(monkeypatch: pytest.MonkeyPatch, claims: contextlib.ExitStack) -> None:
    monkeypatch.setattr(spawn, "users_of_workers", lambda _wanted: SMALL)
    config = parse(f"users: {SMALL}\n{TWO_VMS}")
    offered = Housing.open(replace(config, cgroups="off"), claims)
    numbers = {offered.house(vm, claims).quarters.user for vm in config.vms}
    assert len(numbers) == 2
    assert all(number in range(SMALL.first, SMALL.first + SMALL.count) for number in numbers if number is not None)


def test_vms_share_a_user_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, claims: contextlib.ExitStack
) -> None:
    def lacking(_wanted: UserRange | None) -> UserRange:
        raise HostError("no reason", "get some")

    monkeypatch.setattr(spawn, "users_of_workers", lacking)
    config = replace(parse(TWO_VMS), cgroups="off")
    offered = Housing.open(config, claims)
    assert [offered.house(vm, claims).quarters.user for vm in config.vms] == [None, None]
    with pytest.raises(HostError, match=rf"users {SMALL} cannot be had: no reason \(get some; or leave 'users' out"):
        Housing.open(parse(f"users: {SMALL}\n{TWO_VMS}"), claims)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")
def test_a_job_runs_as_its_user() -> None:
    if launch.missing_feature() is not None:
        pytest.skip("this host cannot isolate")
    try:
        users.find_range(SMALL)
    except HostError as error:
        pytest.skip(str(error))
    read_end, write_end = os.pipe()
    spec = LaunchSpec(
        ("/usr/bin/sleep", "1000"), readonly_paths=[Path("/usr/bin")], own_root=True, quarters=Quarters(SMALL.first)
    )
    argv = launch.command(spec, isolate=True, report_fd=write_end)
    with subprocess.Popen(argv, pass_fds=(write_end,), env={}) as process:
        os.close(write_end)
        try:
            pid = LaunchReport.parse(os.read(read_end, 4096).decode()).pid
            assert pid is not None
            seen = Path(f"/proc/{pid}")
            until(lambda: (seen / "comm").read_text() == "sleep\n")
            assert {
                line.split()[1] for line in (seen / "status").read_text().splitlines() if line[:4] in ("Uid:", "Gid:")
            } == {str(SMALL.first)}
        finally:
            process.terminate()
            os.close(read_end)


@pytest.mark.parametrize("text", ["0-5", "7", "9-8", "1-4294967295", "a-b", "-5--1", "[1, 2]", "true"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"users is .*allowed: a range of uids that are also gids, such as"):
        parse(f"users: {text}\n{TWO_VMS}")
