"""A daemon that is not root, and the users of its VMs.

It runs as "nobody", who has subordinate ids: in a mount namespace files of the test stand in the place of ``/etc/subuid``
and ``/etc/subgid``. The host's stay as they are.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.processes import children, launchers
from tests.protocol.hostile_guest import Guest
from tests.protocol.worker_rig import needs_walls
from vhost_backend import users
from vhost_backend.daemon.process import worker_of
from vhost_backend.errors import HostError
from vhost_backend.sandbox import launch
from vhost_backend.users import UserRange
from vhost_backend.worker.life import REGION_ROOM_BYTES

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
pytestmark = needs_walls
IDS = UserRange(4_100_000_000 + os.getpid() % 1000 * 10, 8)
"""Ids that nothing on this host uses."""
BECOME_NOBODY = f"""
mount --bind "$1/subuid" /etc/subuid && mount --bind "$1/subgid" /etc/subgid || exit 97
shift
exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"
"""


@functools.cache
def obstacle() -> str:
    """Reason why a daemon of another user cannot be had here, or ""."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if any(shutil.which(name) is None for name in users.MAP_TOOLS):
        return "there is no newuidmap (Debian: uidmap)"
    try:
        users.find_range(IDS)
    except HostError as error:
        return str(error)
    can_read = subprocess.run(
        [sys.executable, "-c", "import vhost_backend.cli"], user=NOBODY, group=NOBODY, cwd=REPOSITORY, check=False
    )
    missing = launch.missing_feature()
    return str(missing) if missing is not None else "" if can_read.returncode == 0 else "this checkout is private"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Folder of the user nobody, readable by every user of the host. That user has the subordinate ids `IDS`."""
    if reason := obstacle():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o755)
        os.chown(made, NOBODY, NOBODY)
        give(made, f"nobody:{IDS.first}:{IDS.count}")
        yield made


def give(folder: Path, uids: str, gids: str | None = None) -> None:
    """Writes the lines of the user nobody in ``/etc/subuid`` and ``/etc/subgid``."""
    (folder / "subuid").write_text(f"{uids}\n")
    (folder / "subgid").write_text(f"{uids if gids is None else gids}\n")


def as_nobody(folder: Path, *argv: str) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", BECOME_NOBODY, "sh", str(folder), *argv]


def vgcd(folder: Path, *, options: tuple[str, ...] = (), **keys: Any) -> list[str]:
    """Command line of a daemon of the user nobody with two VMs, whose sockets are `folder`/a and `folder`/b.

    `options` are those of setpriv, beside the ones that give it its user.
    """
    vm = {"region": REGION_BYTES, "engine": "cpu", "num_queues": 2, "sandbox": "strict"}
    vm |= {"quota": {"pes": 1, "memory": "16M"}}
    config = {"vms": {name: vm | {"socket": str(folder / name)} for name in ("a", "b")}, "log": {"format": "json"}}
    (folder / "vgcd.yaml").write_text(yaml.safe_dump(config | {"cache": str(folder / "cache")} | keys))
    program = (sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(folder / "vgcd.yaml"))
    return as_nobody(folder, *options, *program)


@contextmanager
def running(argv: list[str], directory: Path = REPOSITORY) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The daemon, which serves both VMs, and its events until then by their names."""
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=directory) as process:
        try:
            events: dict[str, Any] = {}
            assert process.stderr is not None
            while "serving" not in events:
                line = process.stderr.readline()
                assert line, f"the daemon ended; before that: {events}"
                event = json.loads(line)
                events[event["event"]] = event
            yield process, events
        finally:
            process.terminate()


def owners_of_workers(daemon: int) -> list[tuple[set[int], set[int]]]:
    """Real, effective, saved and file system uids and gids of the daemon's workers."""
    processes = [Path(f"/proc/{pid}") for launcher in launchers(daemon) for pid in children(launcher)]
    texts = [(path / "status").read_text() for path in processes if "vgc-init" not in (path / "comm").read_text()]
    rows = [dict(line.split(":", 1) for line in text.splitlines()) for text in texts]
    return [(set(map(int, row["Uid"].split())), set(map(int, row["Gid"].split()))) for row in rows]


def address_spaces(daemon: int) -> list[int]:
    """Limits of the workers' address space, which the daemon has lowered."""
    texts = [Path(f"/proc/{worker_of(launcher)}/limits").read_text() for launcher in launchers(daemon)]
    return [int(number) for text in texts for number in re.findall(r"Max address space +(\d+)", text)]


def owners_while_computing(daemon: int, folder: Path) -> list[tuple[set[int], set[int]]]:
    with ExitStack() as stack:
        guests = [Guest(stack.enter_context(FakeVm(folder / name))) for name in ("a", "b")]
        assert all(guest.computes() for guest in guests)
        assert [limit < REGION_ROOM_BYTES for limit in address_spaces(daemon)] == [True, True]
        return owners_of_workers(daemon)


def test_workers_have_users_of_their_own(folder: Path) -> None:
    with running(vgcd(folder)) as (process, events):
        assert "users_shared" not in events
        owners = owners_while_computing(process.pid, folder)
        process.terminate()
        assert process.wait(ANSWERS_WITHIN_S) == 0
    assert [len(uids | gids) for uids, gids in owners] == [1, 1]
    numbers = set.union(*(uids for uids, _gids in owners))
    assert len(numbers) == 2
    assert numbers <= set(range(IDS.first, IDS.first + IDS.count))


def test_capabilities_give_workers_any_users(folder: Path) -> None:
    """The shipped unit has them. No set-uid program could help: new privileges are excluded."""
    give(folder, "")
    options = ("--no-new-privs", *(f"--{kind}-caps=+setuid,+setgid" for kind in ("inh", "ambient")))
    with running(vgcd(folder, options=options)) as (process, events):
        assert "users_shared" not in events
        owners = owners_while_computing(process.pid, folder)
        process.terminate()
        assert process.wait(ANSWERS_WITHIN_S) == 0
    numbers = set.union(*(uids | gids for uids, gids in owners))
    assert len(numbers) == 2
    assert all(users.DEFAULT_RANGE.first <= number <= users.MAX_ID for number in numbers)


def test_workers_share_the_daemons_user_where_it_has_no_others(folder: Path) -> None:
    give(folder, "")
    with running(vgcd(folder)) as (process, events):
        assert "nobody, which /etc/subuid and /etc/subgid give no ids in common" in events["users_shared"]["why"]
        assert "usermod --add-subuids" in events["users_shared"]["why"]
        assert owners_while_computing(process.pid, folder) == [({NOBODY}, {NOBODY})] * 2


def test_workers_share_the_daemons_user_where_no_other_can_read_python(folder: Path) -> None:
    """A checkout that was made under a strict umask is readable by its owner only."""
    for package in ("vhost_backend", "virtio_proto", "kernels"):
        copy = folder / package
        shutil.copytree(REPOSITORY / package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chown", "--recursive", f"{NOBODY}:{NOBODY}", copy], check=True)
        copy.chmod(0o700)
    with running(vgcd(folder), directory=folder) as (process, events):
        assert f"workers do not start as user {IDS.first}" in events["users_shared"]["why"]
        assert f"all users must be able to read {sys.prefix}" in events["users_shared"]["why"]
        assert owners_while_computing(process.pid, folder) == [({NOBODY}, {NOBODY})] * 2


def test_users_that_the_daemon_does_not_have_are_refused(folder: Path) -> None:
    beyond = f"{IDS.first + 1}-{IDS.first + IDS.count}"
    argv = vgcd(folder, users=beyond)
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY, timeout=HANGS_AFTER_S)
    assert done.returncode == 3
    assert f"users {beyond} cannot be had: vgcd runs as nobody, whose subordinate ids are {IDS}" in done.stderr
    assert f"usermod --add-subuids {beyond} --add-subgids {beyond} nobody" in done.stderr


def test_users_that_newuidmap_refuses_are_told(folder: Path) -> None:
    """Set-user-ID programs get no privilege where the daemon has given up on it, as in a service of systemd."""
    argv = as_nobody(folder, "setpriv", "--no-new-privs", sys.executable, "-m", "vhost_backend.cli", "doctor")
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY, timeout=HANGS_AFTER_S)
    (line,) = re.findall(r"absent   users of workers: .*\n.*", done.stdout)
    assert f"/newuidmap does not give the job user {IDS.first}" in line
    assert "vgcd without NoNewPrivileges" in line


def test_users_that_the_daemon_has_are_shown_by_the_doctor(folder: Path) -> None:
    argv = as_nobody(folder, sys.executable, "-m", "vhost_backend.cli", "doctor")
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY, timeout=HANGS_AFTER_S)
    assert f"ok       users of workers: {IDS}, one for each VM" in done.stdout
