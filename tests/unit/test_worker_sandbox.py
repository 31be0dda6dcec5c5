"""The worker's sandbox: every way out is refused, and everything that the worker needs is present.

Each test starts a process as the daemon starts a worker (`spawn.worker_command`), which enters the sandbox and
tries one thing, most by a raw system call (walled_in.py).
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from vhost_backend.sandbox import build
from vhost_backend.sandbox.policy import worker_policy
from vhost_backend.sandbox.spawn import WORKER_ENVIRONMENT, worker_command
from vhost_backend.sandbox.terms import SandboxMode

PROGRAM = Path(__file__).with_name("walled_in.py")
NEEDS = "[0, 0] 1 b'__global__' [10] 42"


@dataclass
class Walled:
    """A running walled_in.py: its launcher process and its output."""

    process: subprocess.Popen[str]
    result_fd: int

    def result(self) -> str:
        """The program's whole output; returns when it has ended."""
        with open(self.result_fd, closefd=False) as stream:
            return stream.read().strip()

    @property
    def pid(self) -> int:
        """The program's own process id, seen from outside: the younger of the launcher's children."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[-1])


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


@contextmanager
def walled_in(
    attempt: str, mode: SandboxMode = "strict", spawn_mode: SandboxMode = "strict", *, gpu: bool = False
) -> Iterator[Walled]:
    """Starts walled_in.py. With `gpu`, it sees a device and itself in /proc; /dev/zero stands for the device."""
    result_fd, their_fd = os.pipe()
    command = worker_command(
        (sys.executable, str(PROGRAM), str(their_fd), attempt, mode),
        kept_fds=(their_fd,),
        mode=spawn_mode,
        readonly_paths=(PROGRAM, *((Path("/sys/devices/system"),) if gpu else ())),
        devices=(Path("/dev/zero"),) if gpu else (),
        proc=gpu,
    )
    process = subprocess.Popen(
        command,
        pass_fds=(their_fd,),
        env=WORKER_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(their_fd)
    try:
        yield Walled(process, result_fd)
    finally:
        process.terminate()
        process.communicate()
        os.close(result_fd)


def attempt(name: str, *, gpu: bool = False) -> str:
    with walled_in(name, gpu=gpu) as walled:
        result = walled.result()
        assert walled.process.wait() == 0
        return result


def killed_by(name: str) -> int:
    with walled_in(name) as walled:
        assert walled.result() == ""
        return -walled.process.wait()


@pytest.mark.parametrize("name", ["open", "openat", "openat2", "stat", "mkdir", "chdir"])
def test_no_path_can_be_used(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize("name", ["socket", "socketpair", "connect"])
def test_no_socket_can_be_made_or_connected(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize("name", ["execve", "execveat"])
def test_no_program_can_be_executed(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize("name", ["fork", "vfork", "clone_process", "clone_sharing_memory"])
def test_no_process_can_be_made(name: str) -> None:
    assert attempt(name) == "EPERM"


def test_clone3_does_not_exist() -> None:
    """clone3 has its flags in memory, which the filter cannot read; the C library falls back to clone."""
    assert attempt("clone3") == "ENOSYS"


@pytest.mark.parametrize(
    "name", ["kill_init", "kill_all", "kill_group", "tgkill_other", "tkill_other", "sigqueue", "signal_owner"]
)
def test_no_other_process_can_be_signalled(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize(
    "name",
    ["ptrace", "process_vm_readv", "process_vm_writev", "unshare", "mount", "bpf", "io_uring", "userfaultfd"],
)
def test_hostile_call_ends_the_worker(name: str) -> None:
    assert killed_by(name) == signal.SIGSYS


@pytest.mark.parametrize("name", ["call_32_bit", "call_x32"])
def test_other_calling_conventions_end_the_worker(name: str) -> None:
    assert killed_by(name) == signal.SIGSYS


@pytest.mark.parametrize("name", ["shmget", "msgget", "semget", "mq_open", "inotify", "pipe"])
def test_no_kernel_object_outlives_or_escapes_the_limits(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize("name", ["setpriority", "nicer", "affinity", "policy", "attributes"])
def test_share_of_the_processors_cannot_be_changed(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize("name", ["setrlimit", "prlimit", "dumpable"])
def test_limits_cannot_be_lifted(name: str) -> None:
    assert attempt(name) == "EPERM"


@pytest.mark.parametrize(
    "name", ["mlock", "shared_memory", "growing_stack", "huge_pages", "new_file", "merge_pages", "punch_hole"]
)
def test_memory_that_no_limit_counts_is_refused(name: str) -> None:
    assert attempt(name) == "EPERM"


def test_memory_ends_at_the_quota() -> None:
    result = attempt("memory")
    chunks = int(result.split()[0])
    assert "then MemoryError" in result
    assert 4 <= chunks <= (64 + 10 * 8 + 256) / 16


def test_address_space_is_bounded() -> None:
    assert attempt("address_space") == "ENOMEM"


def test_threads_are_bounded() -> None:
    assert attempt("threads") == "9 then RuntimeError can't start new thread"


def test_files_are_bounded_in_size() -> None:
    assert attempt("file_size") == "OSError [Errno 27] File too large"


def test_descriptors_are_bounded_in_number() -> None:
    result = attempt("files")
    assert "then OSError [Errno 24] Too many open files" in result
    assert int(result.split()[0]) < 32


def test_stdio_goes_nowhere() -> None:
    null = Path(os.devnull).stat().st_rdev
    assert attempt("stdio") == str([null] * 3)


def test_root_is_empty_behind_the_filter() -> None:
    assert attempt("root") == "[]"


def test_directory_opened_before_is_closed() -> None:
    assert attempt("old_root") == "EBADF"


def test_everything_that_the_worker_needs_is_present() -> None:
    assert attempt("needs") == NEEDS


def test_daemon_whose_files_are_its_own_by_default_has_workers() -> None:
    """The shipped unit sets such a umask; workers have users of their own."""
    before = os.umask(0o077)
    try:
        assert attempt("needs") == NEEDS
    finally:
        os.umask(before)


# ---- exceptions for an engine with a driver -------------------------------------------------------


def test_shown_device_can_be_opened_in_the_sandbox() -> None:
    assert attempt("see_device", gpu=True) == repr(bytes(3))


def test_no_other_device_is_visible() -> None:
    assert attempt("see_dev", gpu=True) == "null zero"


def test_kept_root_shows_only_its_parts() -> None:
    """Folders of the interpreter and of the tests come in addition."""
    shown = set(attempt("see_root", gpu=True).split())
    assert {"dev", "proc", "sys", "usr"} <= shown
    assert shown.isdisjoint({"etc", "home", "run", "var", "boot", "vgc-work"})


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("see_host", "ENOENT"),
        ("see_processes", "1 me"),
        ("see_init", "EACCES"),
        ("name_init", "EACCES"),
        ("see_writable", "/dev/null /dev/zero /proc"),
        ("write_root", "EROFS"),
        ("hidden_call", "EPERM"),
    ],
)
def test_kept_root_is_no_way_out(name: str, outcome: str) -> None:
    assert attempt(name, gpu=True) == outcome


def test_threads_can_be_named_through_proc() -> None:
    """NVIDIA's driver does so from 570 on, and does not start otherwise."""
    assert attempt("name_itself", gpu=True) == "named"


def test_no_engine_gets_a_hostile_call() -> None:
    with pytest.raises(ValueError, match="no engine may have the system calls ptrace"):
        worker_policy(2, ("ioctl", "ptrace"))


@pytest.mark.parametrize(("mode", "outcome"), [("strict", "EPERM"), ("best-effort", "ENOENT")])
def test_filter_is_left_out_for_an_unknown_driver_unless_strict(mode: SandboxMode, outcome: str) -> None:
    """Without the filter, the attempt reaches the kernel, and the path does not exist."""
    with walled_in("unfiltered", mode=mode, gpu=True) as walled:
        assert walled.result() == outcome


# ---- the process ----------------------------------------------------------------------------------


def test_worker_has_no_privilege() -> None:
    with walled_in("wait") as walled:
        assert os.read(walled.result_fd, 100) == b"waiting\n"
        status = Path(f"/proc/{walled.pid}/status").read_text()
        fields = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
        assert {fields[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert "0" not in fields["Uid"].split() + fields["Gid"].split()
        assert fields["NSpid"].split()[-1] == "2"


@pytest.mark.parametrize("kind", ["user", "mnt", "pid", "net", "ipc", "uts"])
def test_worker_has_namespaces_of_its_own(kind: str) -> None:
    with walled_in("wait") as walled:
        assert os.read(walled.result_fd, 100) == b"waiting\n"
        assert Path(f"/proc/{walled.pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()


def test_terminating_the_launcher_kills_the_worker() -> None:
    with walled_in("wait") as walled:
        assert os.read(walled.result_fd, 100) == b"waiting\n"
        pid = walled.pid
        walled.process.terminate()
        assert walled.process.wait() == -signal.SIGKILL
        assert not Path(f"/proc/{pid}").exists()


def test_killing_the_launcher_kills_the_worker() -> None:
    with walled_in("wait") as walled:
        assert os.read(walled.result_fd, 100) == b"waiting\n"
        pidfd = os.pidfd_open(walled.pid)
        walled.process.kill()
        select.select([pidfd], [], [])
        os.close(pidfd)


def test_worker_dies_with_the_daemon() -> None:
    result_fd, their_fd = os.pipe()
    command = worker_command(
        (sys.executable, str(PROGRAM), str(their_fd), "wait"),
        kept_fds=(their_fd,),
        mode="strict",
        readonly_paths=(PROGRAM,),
    )
    daemon = "import subprocess, sys; subprocess.Popen(sys.argv[2:], pass_fds=[int(sys.argv[1])]); sys.stdin.read()"
    process = subprocess.Popen(
        (sys.executable, "-c", daemon, str(their_fd), *command),
        pass_fds=(their_fd,),
        env=WORKER_ENVIRONMENT,
        stdin=subprocess.PIPE,
    )
    os.close(their_fd)
    assert os.read(result_fd, 100) == b"waiting\n"
    process.kill()
    assert os.read(result_fd, 100) == b""  # the worker holds the other end
    process.communicate()
    os.close(result_fd)


def test_crash_of_the_worker_is_reported_by_the_launcher() -> None:
    command = worker_command((sys.executable, "-c", "import ctypes; ctypes.string_at(0)"), kept_fds=(), mode="strict")
    assert subprocess.run(command, env=WORKER_ENVIRONMENT, check=False).returncode == -signal.SIGSEGV


def test_strict_refuses_a_worker_without_namespaces() -> None:
    with walled_in("open", mode="strict", spawn_mode="off") as walled:
        assert walled.process.stderr is not None
        assert "SandboxError: cannot build the sandbox: pid namespace" in walled.process.stderr.read()
        assert walled.process.wait() == 1


def test_best_effort_reports_missing_features_and_builds_the_rest() -> None:
    with walled_in("report", mode="best-effort", spawn_mode="off") as walled:
        result = walled.result()
        assert "'pid namespace': 'the worker was not started by the launcher'" in result
        assert "'system call filter'" in result.partition("missing=")[0]


def test_best_effort_still_filters() -> None:
    with walled_in("openat", mode="best-effort", spawn_mode="off") as walled:
        assert walled.result() == "EPERM"
