"""A program that enters the worker's sandbox and then makes the named attempt, as guest code would.

    walled_in.py RESULT_FD ATTEMPT [MODE]

Writes one line to RESULT_FD: the attempt's result. A system call's result is ``0`` or the name of its error.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from vhost_backend.sandbox import worker
from vhost_backend.sandbox.syscalls import X86_64
from vhost_backend.sandbox.terms import SandboxMode

MIB: Final = 1 << 20
PES: Final = 2
FILES: Final = 32
SOURCE_BYTES: Final = MIB
LIMITS: Final = worker.WorkerLimits.for_quota(
    memory_bytes=64 * MIB, pes=PES, mapped_bytes=0, files=FILES, source_bytes=SOURCE_BYTES
)
AT_FDCWD: Final = -100
SIGCHLD: Final = 17
CLONE_VM_VFORK: Final = 0x00004100

result_fd: Final = int(sys.argv[1])
attempt: Final = sys.argv[2]
mode: Final = cast(SandboxMode, sys.argv[3] if len(sys.argv) > 3 else "strict")
held_directory: Final = os.open("/", os.O_RDONLY)
source_fd: Final = os.memfd_create("source")
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours.settimeout(1)
socket.send_fds(ours, [b"x"], [source_fd])  # for `what_the_worker_needs`, which may receive descriptors and send none

libc: Final = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> str:
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    if libc.syscall(ctypes.c_long(X86_64[name]), *words) >= 0:
        return "0"
    return errno.errorcode[ctypes.get_errno()]


def machine_code(code: bytes) -> str:
    """Runs machine code, a function without arguments, and returns its result, as a kernel can."""
    memory = mmap.mmap(-1, len(code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | 4)
    memory.write(code)
    view = (ctypes.c_char * len(code)).from_buffer(memory)
    return str(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(view))())


def outcome_of(action: Callable[[], object]) -> str:
    try:
        return f"done {action()}"
    except (OSError, MemoryError, RuntimeError) as error:
        return f"{type(error).__name__} {error}"


def count_until_refused(action: Callable[[], object]) -> str:
    kept: list[object] = []
    while True:
        try:
            kept.append(action())
        except (OSError, MemoryError, RuntimeError) as error:
            return f"{len(kept)} then {type(error).__name__} {error}"


def start_thread() -> threading.Thread:
    thread = threading.Thread(target=lambda: threading.Event().wait(), daemon=True)
    thread.start()
    return thread


def what_the_worker_needs() -> str:
    """Uses everything that the data plane and its Python need."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(sum(bytearray(MIB)))) for _ in range(PES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wake = os.eventfd(0, os.EFD_NONBLOCK)
    poll = select.epoll()
    poll.register(wake, select.EPOLLIN)
    os.eventfd_write(wake, 1)
    events = poll.poll(0)
    os.write(source_fd, b"__global__ void f() {}")
    _, control, _, _ = theirs.recvmsg(16, 64)
    theirs.send(b"answer")
    assert ours.recv(16) == b"answer"
    received = array.array("i", control[0][2])[0]
    mapped = mmap.mmap(received, 22, mmap.MAP_PRIVATE, mmap.PROT_READ | 4)
    faults: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: faults.append(number))
    signal.raise_signal(signal.SIGUSR1)
    time.sleep(0.001)  # noqa: TID251  the call is what is tried
    return f"{results} {len(events)} {mapped[:10]!r} {faults} {machine_code(bytes.fromhex('b82a000000c3'))}"


def wait_for_parent() -> str:
    """Reports its start, and waits until it is killed."""
    os.write(result_fd, b"waiting\n")
    signal.pause()
    return "woken"


def names_in(folder: str) -> str:
    return " ".join(sorted(path.name for path in Path(folder).iterdir()))


def processes_in_sight() -> str:
    """Process numbers, with "me" for this one."""
    numbers = (path.name for path in Path("/proc").iterdir() if path.name.isdecimal())
    return " ".join("me" if number == str(os.getpid()) else number for number in numbers)


def name_itself() -> str:
    """Names its thread through /proc, as NVIDIA's driver does."""
    path = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    path.write_text("named")
    return path.read_text().strip()


def writable_mounts() -> str:
    """Mounts that are not read-only."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return " ".join(sorted(mount[4] for mount in mounts if "rw" in mount[5].split(",")))


SEEING: Final[dict[str, Callable[[], str]]] = {
    "see_root": lambda: names_in("/"),
    "see_dev": lambda: names_in("/dev"),
    "see_device": lambda: repr(os.read(os.open("/dev/zero", os.O_RDWR), 3)),
    "see_host": lambda: call("open", b"/etc/passwd", 0),
    "see_processes": processes_in_sight,
    "see_init": lambda: call("readlink", b"/proc/1/cwd", bytes(64), 64),
    "name_itself": name_itself,
    "name_init": lambda: call("open", b"/proc/1/comm", os.O_WRONLY),
    "see_writable": writable_mounts,
    "write_root": lambda: call("mkdir", b"/x", 0o700),
    "hidden_call": lambda: call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
}
"""Attempts of a worker that keeps the root that the launcher built."""

ATTEMPTS: Final[dict[str, Callable[[], str]]] = {
    "open": lambda: call("open", b"/usr/lib", 0),
    "openat": lambda: call("openat", AT_FDCWD, b"/", 0, 0),
    "openat2": lambda: call("openat2", AT_FDCWD, b"/", bytes(24), 24),
    "stat": lambda: call("stat", b"/", bytes(256)),
    "mkdir": lambda: call("mkdir", b"/x", 0o700),
    "chdir": lambda: call("chdir", b"/"),
    "socket": lambda: call("socket", socket.AF_INET, socket.SOCK_STREAM, 0),
    "socketpair": lambda: call("socketpair", 1, 1, 0, bytes(8)),
    "connect": lambda: call("connect", ours.fileno(), b"\x01\x00/x", 4),
    "execve": lambda: call("execve", b"/bin/sh", None, None),
    "execveat": lambda: call("execveat", AT_FDCWD, b"/bin/sh", None, None, 0),
    "fork": lambda: call("fork"),
    "vfork": lambda: call("vfork"),
    "clone_process": lambda: call("clone", SIGCHLD, 0, 0, 0, 0),
    "clone_sharing_memory": lambda: call("clone", CLONE_VM_VFORK | SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda: call("clone3", bytes(64), 64),
    "kill_init": lambda: call("kill", 1, signal.SIGKILL),
    "kill_all": lambda: call("kill", -1, signal.SIGKILL),
    "kill_group": lambda: call("kill", 0, signal.SIGKILL),
    "tgkill_other": lambda: call("tgkill", 1, 1, signal.SIGKILL),
    "tkill_other": lambda: call("tkill", 1, signal.SIGKILL),
    "sigqueue": lambda: call("rt_sigqueueinfo", 1, signal.SIGKILL, bytes(128)),
    "signal_owner": lambda: call("fcntl", result_fd, fcntl.F_SETOWN, 1),
    "ptrace": lambda: call("ptrace", 16, 1, 0, 0),
    "process_vm_readv": lambda: call("process_vm_readv", 1, None, 0, None, 0, 0),
    "process_vm_writev": lambda: call("process_vm_writev", 1, None, 0, None, 0, 0),
    "unshare": lambda: call("unshare", 0x10000000),
    "mount": lambda: call("mount", b"x", b"/", b"tmpfs", 0, None),
    "bpf": lambda: call("bpf", 0, None, 0),
    "io_uring": lambda: call("io_uring_setup", 1, bytes(120)),
    "userfaultfd": lambda: call("userfaultfd", 0),
    "shmget": lambda: call("shmget", 0, MIB, 0o1600),
    "msgget": lambda: call("msgget", 0, 0o1600),
    "semget": lambda: call("semget", 0, 1, 0o1600),
    "mq_open": lambda: call("mq_open", b"x", 0o102, 0o600, None),
    "inotify": lambda: call("inotify_init1", 0),
    "pipe": lambda: call("pipe2", bytes(8), 0),
    "setrlimit": lambda: call("setrlimit", 9, b"\xff" * 16),
    "prlimit": lambda: call("prlimit64", 0, 9, b"\xff" * 16, None),
    "setpriority": lambda: call("setpriority", 0, 0, -20),
    "nicer": lambda: call("setpriority", 0, 0, 19),
    "affinity": lambda: call("sched_setaffinity", 0, 8, b"\xff" * 8),
    "policy": lambda: call("sched_setscheduler", 0, 0, bytes(4)),
    "attributes": lambda: call("sched_setattr", 0, (48).to_bytes(4, "little") + bytes(44), 0),
    "dumpable": lambda: call("prctl", 4, 1, 0, 0, 0),
    "mlock": lambda: call("mlockall", 1),
    "shared_memory": lambda: call("mmap", 0, MIB, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1, 0),
    "huge_pages": lambda: call("mmap", 0, 2 * MIB, 3, 0x40022, -1, 0),
    "new_file": lambda: call("memfd_create", b"x", 0),
    "growing_stack": lambda: call("mmap", 0, MIB, 3, 0x100 | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0),
    "merge_pages": lambda: call("madvise", 0, 4096, 12),
    "punch_hole": lambda: call("madvise", 0, 4096, 9),
    "call_32_bit": lambda: machine_code(bytes.fromhex("b814000000cd80c3")),  # mov $20, %eax; int $0x80; ret
    "call_x32": lambda: str(libc.syscall(ctypes.c_long(0x40000000 + X86_64["getpid"]))),
    "memory": lambda: count_until_refused(lambda: bytearray(16 * MIB)),
    "address_space": lambda: call("mmap", 0, 1 << 40, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0),
    "threads": lambda: count_until_refused(start_thread),
    "file_size": lambda: outcome_of(lambda: os.ftruncate(source_fd, SOURCE_BYTES + 1)),
    "files": lambda: count_until_refused(lambda: os.dup(result_fd)),
    "stdio": lambda: str([os.fstat(fd).st_rdev for fd in range(3)]),
    "root": lambda: str(list(Path("/").iterdir())),
    "old_root": lambda: call("getdents64", held_directory, bytes(256), 256),
    "unfiltered": lambda: call("openat", AT_FDCWD, b"/dev/null", 0, 0),
    "needs": what_the_worker_needs,
    "wait": wait_for_parent,
    **SEEING,
}

FILES_CALLS: Final = ("open", "openat", "getdents64", "newfstatat", "stat", "mkdir", "readlink")
EXEMPTIONS: Final = {
    "root": worker.Exemptions(("openat", "getdents64", "newfstatat")),
    "old_root": worker.Exemptions(("getdents64",)),
    "unfiltered": worker.Exemptions(unfiltered=True),
    **{name: worker.Exemptions(FILES_CALLS, root=True) for name in SEEING},
}
"""Attempts that look at what lies behind a wall, and what lets them."""


def main() -> None:
    kept = (result_fd, source_fd, ours.fileno(), theirs.fileno())
    report = worker.enter(mode, LIMITS, kept_fds=kept, exemptions=EXEMPTIONS.get(attempt))
    os.write(result_fd, (repr(report) if attempt == "report" else outcome_line()).encode())


def outcome_line() -> str:
    try:
        return ATTEMPTS[attempt]() + "\n"
    except OSError as error:
        return f"{type(error).__name__} {error}\n"


if __name__ == "__main__":
    main()
