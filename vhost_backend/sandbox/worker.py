"""Privileges that a worker gives up before it serves the first guest byte.

`enter` is called inside the worker process, after modules were imported and the engine opened, and before threads are
started. Afterwards the worker has its open descriptors, bounded memory and threads, time, and the system calls of
`policy.worker_policy`. It cannot go back, and cannot reach a file, a socket, another process or more memory, except
through the `Exemptions` that its engine needs.

=====================  ============================================================================
wall                   what it prevents
=====================  ============================================================================
pid namespace          seeing or signalling any other process (built by `spawn`)
empty root             every path: the root is an empty read-only file system, the host's is detached
read-only root         in its place where an engine's driver opens files later: every path but what `spawn` shows
descriptors            use of anything the worker held only to start up
resource limits        memory, threads, descriptors, file sizes, core dumps, locked memory
no capabilities        privileged calls, also within its own user namespace
no_new_privs           privileges by executing a set-uid program
system call filter     everything but what the data plane, CPython and threads need
=====================  ============================================================================
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from vhost_backend.errors import HostError
from vhost_backend.sandbox import seccomp
from vhost_backend.sandbox.policy import permissive, worker_policy
from vhost_backend.sandbox.syscalls import X86_64
from vhost_backend.sandbox.terms import STRICT_MODES, SandboxError, SandboxMode

_MIB: Final = 1 << 20
_FILTER: Final = "system call filter"
_MEMORY_LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
"""Limits that the daemon may raise when the VM's quota rises. The filter keeps the worker itself from it."""
_EMPTY: Final = b"/vgc-empty"
_MAX_FD: Final = (1 << 31) - 1

# From the kernel: linux/mount.h, linux/prctl.h, linux/capability.h
_MS_RDONLY: Final = 1
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MNT_DETACH: Final = 2
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAPBSET_READ: Final = 23
_PR_CAPBSET_DROP: Final = 24
_CAPABILITY_VERSION_3: Final = 0x20080522

_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits on what a worker may use in all. A thread's stack counts as private memory, touched or not."""

    private_bytes: int
    """Writable private memory [RLIMIT_DATA]."""
    address_space_bytes: int | None
    """Mapped or reserved address space, the VM's region included [RLIMIT_AS]; None: unbounded."""
    threads: int
    """Number of threads, including those that run already [RLIMIT_NPROC]."""
    files: int
    """Bound on descriptor numbers, one more than the highest [RLIMIT_NOFILE]."""
    file_bytes: int
    """Largest size that a file may get by its writes: the sources that it passes on [RLIMIT_FSIZE]."""

    @classmethod
    def for_quota(
        cls,
        *,
        memory_bytes: int,
        pes: int,
        mapped_bytes: int,
        files: int,
        source_bytes: int,
        stack_bytes: int = 8 * _MIB,
    ) -> WorkerLimits:
        """Limits for a VM's worker: the VM's quota, plus what Python and the data plane need.

        `mapped_bytes` is the region's size plus the address space that the engine has reserved.
        """
        threads = pes + 8
        private = memory_bytes + threads * stack_bytes + 256 * _MIB
        return cls(
            private_bytes=private,
            address_space_bytes=private + memory_bytes + mapped_bytes + 1024 * _MIB,
            threads=threads,
            files=files,
            file_bytes=source_bytes,
        )


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """Walls that stand, and walls that could not be built, each with the reason."""

    mode: SandboxMode
    walls: tuple[str, ...]
    missing: Mapping[str, str]
    listener_fd: int | None = None
    """Listener of the filter in permissive mode. The caller owns it, and must give it away before guest code runs."""


@dataclass(frozen=True, slots=True)
class Exemptions:
    """Exceptions from the walls, for an engine that needs them (`engines.base.WorkerNeeds`)."""

    system_calls: tuple[str, ...] = ()
    """System calls that are allowed with any arguments."""
    root: bool = False
    """True: the root that the launcher built stays, in place of an empty one."""
    unfiltered: bool = False
    """True: no system call filter in best-effort mode."""


def enter(
    mode: SandboxMode, limits: WorkerLimits, *, kept_fds: Iterable[int], exemptions: Exemptions | None = None
) -> SandboxReport:
    """Gives up all privileges that `limits`, `kept_fds`, `exemptions` and the policy do not grant.

    stdin, stdout and stderr become /dev/null; every other descriptor not in `kept_fds` is closed.

    Mode permissive differs from strict only in system calls that the filter would refuse: each waits until the owner of
    the report's listener lets it through.

    :raise SandboxError: a wall cannot be built, in strict or permissive mode; the process then has some of the walls
        and must exit.
    """
    if mode == "off":
        return SandboxReport(mode, (), {})
    exemptions = exemptions or Exemptions()
    steps: tuple[tuple[str, Callable[[], int | None]], ...] = (
        ("pid namespace", _require_pid_namespace),
        ("descriptors", lambda: _close_other_fds(kept_fds)),
        ("read-only root", _require_pid_namespace) if exemptions.root else ("empty root", _empty_root),
        ("no capabilities", _drop_capabilities),
        ("resource limits", lambda: _set_limits(limits)),
        ("no_new_privs", _no_new_privileges),
        (_FILTER, lambda: _filter_calls(mode, exemptions)),
    )
    walls: list[str] = []
    missing: dict[str, str] = {}
    listener_fd: int | None = None
    for name, build in steps:
        try:
            made = build()
            listener_fd = made if made is not None else listener_fd
            walls.append(name)
        except (OSError, HostError) as error:
            if mode in STRICT_MODES:
                raise SandboxError(name, str(error)) from error
            missing[name] = str(error)
    if _FILTER in missing:
        _fix_memory_limits()
    return SandboxReport(mode, tuple(walls), missing, listener_fd)


def _filter_calls(mode: SandboxMode, exemptions: Exemptions) -> int | None:
    """Installs the filter; returns its listener in permissive mode."""
    if exemptions.unfiltered and mode not in STRICT_MODES:
        raise HostError("left out: the system calls of the engine's driver are not known; 'sandbox: strict' has it")
    if mode == "permissive":  # the filter lets calls through that it would refuse
        _fix_memory_limits()
    policy = worker_policy(os.getpid(), exemptions.system_calls)
    return seccomp.install(permissive(policy) if mode == "permissive" else policy)


def _require_pid_namespace() -> None:
    """Checks that the launcher has started the worker: it builds all namespaces and the root, or none."""
    if os.getppid() != 0:  # the launcher is outside and has no number in here
        raise HostError("the worker was not started by the launcher")


def _close_other_fds(kept_fds: Iterable[int]) -> None:
    null_fd = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null_fd, fd)
    kept = sorted({0, 1, 2, *kept_fds})
    for fd, following in zip(kept, [*kept[1:], _MAX_FD + 1], strict=True):
        if fd + 1 < following:
            _call("close_range", fd + 1, following - 1, 0)


def _empty_root() -> None:
    """Replaces the root by an empty read-only file system, for all threads, and detaches the old root."""
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _call("mount", b"tmpfs", _EMPTY, b"tmpfs", flags, b"size=4k,nr_inodes=2,mode=0555")
    os.chdir(_EMPTY)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def _drop_capabilities() -> None:
    capability = 0
    while _libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails only where there is nothing to drop
        capability += 1
    header = ctypes.create_string_buffer(struct.pack("=II", _CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(bytes(24))
    _call("capset", header, nothing)


def _set_limits(limits: WorkerLimits) -> None:
    address_space = limits.address_space_bytes
    for kind, value in (
        (resource.RLIMIT_AS, resource.RLIM_INFINITY if address_space is None else address_space),
        (resource.RLIMIT_DATA, limits.private_bytes),
        (resource.RLIMIT_NPROC, limits.threads),
        (resource.RLIMIT_NOFILE, limits.files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 64),
    ):
        _, hard = resource.getrlimit(kind)
        bound = min((one for one in (value, hard) if one != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)
        resource.setrlimit(kind, (bound, hard if kind in _MEMORY_LIMITS else bound))


def _fix_memory_limits() -> None:
    """Makes the limits of memory final: no filter keeps this process from raising them."""
    for kind in _MEMORY_LIMITS:
        soft, _ = resource.getrlimit(kind)
        resource.setrlimit(kind, (soft, soft))


def _no_new_privileges() -> None:
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def _call(name: str, *arguments: object) -> None:
    words = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
    if _libc.syscall(ctypes.c_long(X86_64[name]), *words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
