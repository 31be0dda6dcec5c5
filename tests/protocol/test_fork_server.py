"""Workers that start as copies of the fork server: the walls of workers that are programs, and shared memory."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import REPOSITORY
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon import fork_server
from vhost_backend.daemon.fork_server import ForkServer
from vhost_backend.daemon.process import sandboxed_worker, walled, worker_of
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

COPY = "vgc-worker"


@dataclass
class Host:
    """A daemon with VMs `a` and `b`."""

    daemon: DaemonThread
    folder: Path
    forks: ForkServer | None
    guests: ExitStack = field(default_factory=ExitStack)

    def guest(self, name: str) -> FakeVm:
        guest = self.guests.enter_context(FakeVm(self.folder / name))
        assert guest.driver.request(Opcode.NOP).status == Status.OK
        return guest

    def worker(self, name: str) -> Path:
        """Folder in /proc of the VM's worker."""
        pid = self.daemon.ask(lambda daemon: daemon.vms[name].worker_pid)
        assert pid is not None
        return Path(f"/proc/{worker_of(pid)}")

    def server_pid(self) -> int:
        assert self.forks is not None
        assert self.forks.pid is not None
        return self.forks.pid


@contextmanager
def running(folder: Path, forks: ForkServer | None) -> Iterator[Host]:
    engine = EngineConfig("cpu")
    vms = [
        VmConfig(name, vm_uuid(name), folder / name, REGION_BYTES, engine=engine, num_queues=1, sandbox=SANDBOX)
        for name in ("a", "b")
    ]
    config = DaemonConfig(tuple(vms), cache=folder / "cache")
    command = sandboxed_worker if forks is None else forks.worker
    with DaemonThread(config, command, forks=forks) as daemon:
        host = Host(daemon, folder, forks)
        with host.guests:
            yield host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with running(tmp_path, ForkServer(["vhost_backend.engines.cpu.engine"])) as host:
        yield host


def rows(path: Path, *names: str) -> dict[str, str]:
    """Lines `NAME: VALUE` of a file, those of `names` or all."""
    found = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return {name: value.split("kB")[0].strip() for name, value in found.items() if not names or name in names}


WALLS = (
    *("Uid", "Gid", "Groups", "NStgid", "NoNewPrivs", "Seccomp", "Seccomp_filters"),
    *("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk", "SigIgn"),
)


def walls(process: Path) -> dict[str, object]:
    """Bounds of a process, as the kernel shows them."""
    status = rows(process / "status", *WALLS)
    status["NStgid"] = status["NStgid"].split()[-1]  # its number in its own namespace
    limits = (process / "limits").read_text()
    limits = re.sub(r"(Max (address space|data size)) .*", r"\1", limits)  # they follow from what is mapped
    descriptors = sorted(re.sub(r"\d+", "N", str(fd.readlink())) for fd in (process / "fd").iterdir())
    return {**status, "limits": limits, "fd": descriptors, "root": list((process / "root").iterdir())}


@needs_walls
def test_copy_has_the_walls_of_a_worker_that_is_a_program(tmp_path: Path, host: Host) -> None:
    host.guest("a")
    copied = host.worker("a")
    assert (copied / "comm").read_text() == f"{COPY}\n"
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", None) as other:
        other.guest("a")
        program = other.worker("a")
        assert walls(copied) == walls(program)
        for name in ("pid", "mnt", "net", "ipc", "uts", "user"):
            spaces = {(one / "ns" / name).readlink() for one in (copied, program, Path("/proc/self"))}
            assert len(spaces) == 3, name


def test_workers_share_what_they_have_loaded(host: Host) -> None:
    host.guest("a")
    host.guest("b")
    for name in ("a", "b"):
        memory = rows(host.worker(name) / "smaps_rollup", "Shared_Dirty", "Private_Dirty")
        assert int(memory["Shared_Dirty"]) > int(memory["Private_Dirty"])


def test_workers_go_on_without_the_server(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    forks = host.forks
    assert forks is not None
    guest = host.guest("a")
    first = host.server_pid()
    monkeypatch.setattr(fork_server, "RESTART_S", 3600.0)
    os.kill(first, signal.SIGKILL)
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    until(lambda: not forks.is_ready)
    host.guest("b")
    assert (host.worker("b") / "comm").read_text() != f"{COPY}\n"
    host.daemon.ask(lambda _daemon: forks.start_soon())
    until(lambda: forks.is_ready)
    assert host.server_pid() != first
    os.kill(int(host.worker("a").name), signal.SIGKILL)
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    assert (host.worker("a") / "comm").read_text() == f"{COPY}\n"


def test_server_ends_silently_with_a_daemon_that_has_not_read_its_words() -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        argv = (sys.executable, "-m", "vhost_backend.worker.fork_server", "--fd", str(its.fileno()))
        server = subprocess.Popen(argv, cwd=REPOSITORY, pass_fds=[its.fileno()], stderr=subprocess.PIPE)
    with server, ours:
        assert select.select([ours], [], [], ANSWERS_WITHIN_S)[0]
        ours.close()
        _, errors = server.communicate()
        assert (server.returncode, errors) == (0, b"")


def test_workers_do_not_wait_for_a_server_that_a_signal_has_stopped(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = host.forks
    assert forks is not None
    until(lambda: forks.is_ready)
    monkeypatch.setattr(fork_server, "ANSWER_TIMEOUT_S", 3600.0)
    os.kill(host.server_pid(), signal.SIGSTOP)
    until(lambda: rows(Path(f"/proc/{host.server_pid()}/status"), "State")["State"].startswith("T"))
    guest = host.guest("a")
    assert (host.worker("a") / "comm").read_text() != f"{COPY}\n"
    os.kill(host.server_pid(), signal.SIGCONT)
    os.kill(int(host.worker("a").name), signal.SIGKILL)
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    assert (host.worker("a") / "comm").read_text() == f"{COPY}\n"


def test_server_that_is_stopped_while_it_is_asked_is_given_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    forks = host.forks
    assert forks is not None
    monkeypatch.setattr(fork_server, "ANSWER_TIMEOUT_S", 3600.0)
    monkeypatch.setattr(fork_server, "RESTART_S", 3600.0)
    until(lambda: forks.is_ready)

    def stopped_now(config: VmConfig, argv: Sequence[str], fd: int) -> Sequence[str]:
        os.kill(host.server_pid(), signal.SIGSTOP)
        return walled(config, argv, fd)

    monkeypatch.setattr(fork_server, "walled", stopped_now)
    host.guest("a")
    assert (host.worker("a") / "comm").read_text() != f"{COPY}\n"
    assert not forks.is_ready


def test_a_worker_of_which_no_copy_can_be_made_is_a_program(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError("no copy")

    monkeypatch.setattr(host.forks, "_copy", fails)
    guest = host.guest("a")
    assert (host.worker("a") / "comm").read_text() != f"{COPY}\n"
    assert schema.CONFIG.construct.parse(guest.frontend.config_read()).generation == 1, "no start has failed"


def test_a_server_that_does_not_start_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "RESTART_S", 3600.0)
    with running(tmp_path, ForkServer(["vhost_backend.no_such_module"])) as host:
        host.guest("a")
        assert (host.worker("a") / "comm").read_text() != f"{COPY}\n"
