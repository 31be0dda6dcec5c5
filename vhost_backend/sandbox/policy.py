"""System call policies of compilers and workers; calls that a policy does not allow are denied.

A denied call returns EPERM, so that a library that only tries its luck carries on. Calls that have no innocent use in
a sandbox (`HOSTILE`) kill the process: for a worker that is one VM's DEVICE_LOST, for a compiler a failed compilation.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterable
from typing import Final

from vhost_backend.sandbox.seccomp import Action, Check, Clauses, Policy


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


HOSTILE: Final = frozenset(
    _names("""
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd pidfd_open pidfd_send_signal kcmp
    mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
    setns unshare bpf keyctl add_key request_key userfaultfd perf_event_open
    io_uring_setup io_uring_enter io_uring_register
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl
    iopl ioperm modify_ldt open_by_handle_at name_to_handle_at fanotify_init
    settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup
    """)
)

_THREADS_AND_TIME: Final = _names("""
    futex set_robust_list get_robust_list rseq membarrier sched_yield sched_getaffinity getcpu
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
    getpid getppid gettid getuid geteuid getgid getegid getgroups uname sysinfo getrandom
    restart_syscall exit exit_group
""")

_MEMORY: Final = _names("munmap mprotect mremap brk msync mincore")

_OPEN_FILES: Final = _names("""
    read write readv writev pread64 pwrite64 preadv pwritev lseek fstat close close_range dup dup2 dup3
    poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2
    timerfd_create timerfd_settime timerfd_gettime ftruncate
""")

_PATHS: Final = _names("""
    open openat creat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
    chmod fchmod fchmodat umask utime utimes utimensat truncate fallocate fsync fdatasync flock fadvise64
    statfs fstatfs
""")

_PROCESS: Final = _names("""
    execve tgkill getpriority set_tid_address arch_prctl getrlimit setrlimit prlimit64 alarm setitimer getitimer
    sched_getparam sched_getscheduler madvise mmap
""")

_CHILDREN: Final = _names("""
    fork vfork wait4 waitid kill tkill getpgid getpgrp setpgid getsid setsid capget sched_setaffinity
    sendfile copy_file_range pipe pipe2
""")

# From the kernel: linux/sched.h
_CLONE_VM: Final = 0x00000100
_CLONE_SIGHAND: Final = 0x00000800
_CLONE_THREAD: Final = 0x00010000
_CLONE_NEW: Final = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_CLONE_UNTRACED_OR_PTRACE: Final = 0x00800000 | 0x00002000
_CLONE_PARENT: Final = 0x00008000
_THREAD: Final = _CLONE_VM | _CLONE_SIGHAND | _CLONE_THREAD
_FORK: Final = 0x01200000 | signal.SIGCHLD
"""The C library's fork(): CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID."""

# From the kernel: linux/prctl.h
_PR_SET_NAME: Final = 15
_PR_GET_NAME: Final = 16
_PR_SET_VMA: Final = 0x53564D41
_PR_CAPBSET_READ: Final = 23

# From the kernel: linux/fcntl.h
_F_DUPFD: Final = 0
_F_GETFD: Final = 1
_F_SETFD: Final = 2
_F_GETFL: Final = 3
_F_SETFL: Final = 4
_F_DUPFD_CLOEXEC: Final = 1030
_F_ADD_SEALS: Final = 1033
_F_GET_SEALS: Final = 1034
_FCNTL: Final = (
    _F_DUPFD,
    _F_GETFD,
    _F_SETFD,
    _F_GETFL,
    _F_DUPFD_CLOEXEC,
    _F_ADD_SEALS,
    _F_GET_SEALS,
)
_F_LOCKS: Final = (5, 6, 7, 36, 37, 38)

# From the kernel: asm-generic/ioctls.h
_TCGETS: Final = 0x5401
_TIOCGWINSZ: Final = 0x5413
_FIONREAD: Final = 0x541B
_FIONBIO: Final = 0x5421
_FIONCLEX: Final = 0x5450
_FIOCLEX: Final = 0x5451
_IOCTL: Final = (_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX)

# From the kernel: asm-generic/mman-common.h
_MAP_SHARED: Final = 0x01
_MAP_ANONYMOUS: Final = 0x20
_MAP_GROWSDOWN: Final = 0x100
_MAP_HUGETLB: Final = 0x40000
_MADV_ALLOWED: Final = (0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25)
"""Values of madvise except those that share pages between processes (MERGEABLE), poison hardware or touch files
(REMOVE, which punches a hole into the file behind a mapping)."""

_AT_EMPTY_PATH: Final = 0x1000
_WORD: Final = 0xFFFFFFFF


def _one_of(argument: int, values: tuple[int, ...]) -> Clauses:
    return Clauses(tuple(((Check(argument, value),), Action.ALLOW) for value in values), Action.EPERM)


def _only_if(*checks: Check) -> Clauses:
    return Clauses(((checks, Action.ALLOW),), Action.EPERM)


def _allow(*names: str) -> dict[str, Action]:
    return dict.fromkeys(names, Action.ALLOW)


def _kill_hostile() -> dict[str, Action]:
    return dict.fromkeys(sorted(HOSTILE), Action.KILL)


def compile_policy(*, is_alone: bool) -> Policy:
    """Policy of compilers: files, memory, threads. No sockets.

    One that `is_alone` may fork, to divide its work; others run linkers, and scripts around them. ``execve`` starts the
    compiler.
    """
    new = _CLONE_NEW | _CLONE_UNTRACED_OR_PTRACE | _CLONE_PARENT
    clones = (Check(0, _THREAD, _THREAD | new), Check(0, _FORK)) if is_alone else (Check(0, 0, new),)
    rules: dict[str, Action | Clauses] = {
        **_allow(*_OPEN_FILES, *_MEMORY, *_THREADS_AND_TIME, *_PATHS, *_PROCESS),
        **_allow(*(("wait4",) if is_alone else _CHILDREN)),
        "clone": Clauses(tuple(((check,), Action.ALLOW) for check in clones), Action.EPERM),
        "clone3": Action.ENOSYS,
        "fcntl": _one_of(1, (*_FCNTL, _F_SETFL, *_F_LOCKS)),
        "ioctl": _one_of(1, _IOCTL),
        "prctl": _one_of(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA, _PR_CAPBSET_READ)),
        **_kill_hostile(),
    }
    return Policy(rules, Action.EPERM)


def worker_policy(pid: int, extra: Iterable[str] = ()) -> Policy:
    """Policy of a worker that runs guest code: its open files, memory within limits, threads, time.

    No path, no socket, no process: a worker can only make threads, and signal only itself (`pid`, as it sees itself).
    It cannot send descriptors: the kernel counts those in flight for all processes of a user.
    It cannot change the status flags of a descriptor: they belong to the open file, and QEMU would block on an eventfd
    that it shares with a worker. Memory that RLIMIT_DATA does not count is denied: new anonymous files, shared
    anonymous mappings, growing stacks; also huge pages, which the host keeps for its VMs. `extra` calls, which an
    engine needs, are allowed with any arguments.

    :raise ValueError: one of `extra` is hostile.
    """
    extra = tuple(extra)
    if hostile := HOSTILE.intersection(extra):
        raise ValueError(f"no engine may have the system calls {', '.join(sorted(hostile))}")
    rules: dict[str, Action | Clauses] = {
        **_allow(*_OPEN_FILES, *_MEMORY, *_THREADS_AND_TIME, "recvmsg", "sendto", "recvfrom"),
        "mmap": Clauses(
            (
                ((Check(3, _MAP_SHARED | _MAP_ANONYMOUS, _MAP_SHARED | _MAP_ANONYMOUS),), Action.EPERM),
                ((Check(3, _MAP_HUGETLB, _MAP_HUGETLB),), Action.EPERM),
                ((Check(3, _MAP_GROWSDOWN, _MAP_GROWSDOWN),), Action.EPERM),
            ),
            Action.ALLOW,
        ),
        "madvise": _one_of(2, _MADV_ALLOWED),
        "clone": _only_if(
            Check(0, _THREAD, _THREAD | _CLONE_NEW | _CLONE_UNTRACED_OR_PTRACE),
        ),
        "clone3": Action.ENOSYS,
        "tgkill": _only_if(Check(0, pid)),
        "fcntl": _one_of(1, _FCNTL),
        "ioctl": _one_of(1, (_FIONREAD, _FIONCLEX, _FIOCLEX)),
        "prctl": _one_of(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),
        "prlimit64": _only_if(Check(0, 0), Check(2, 0, 0xFFFFFFFF_FFFFFFFF)),
        "newfstatat": _only_if(Check(3, _AT_EMPTY_PATH, _AT_EMPTY_PATH)),
        **_kill_hostile(),
        **_allow(*extra),
    }
    return Policy(rules, Action.EPERM)


def permissive(policy: Policy) -> Policy:
    """Policy that reports every call which `policy` refuses, to find out which calls a process needs.

    Hostile calls are reported too; the listener denies them. Calls that fail with ENOSYS still do, because the C
    library relies on that. ``sendmsg`` is let through without a report: the process sends the listener by it.
    """
    rules = {name: _notifying(rule) for name, rule in policy.rules.items()} | _allow("sendmsg")
    return Policy(rules, _notify(policy.default))


def is_hostile(name: str, arguments: tuple[int, ...]) -> bool:
    """True if a call has no innocent use in a sandbox. New namespaces are as bad by ``clone`` as by ``unshare``."""
    return name in HOSTILE or (name == "clone" and bool(arguments[0] & _CLONE_NEW))


def deciding_arguments(name: str) -> tuple[int, ...]:
    """Indices of the arguments that `worker_policy` looks at, except pointers, whose values say nothing."""
    return _deciding_arguments().get(name, ())


@functools.cache
def _deciding_arguments() -> dict[str, tuple[int, ...]]:
    found = {}
    for name, rule in worker_policy(0).rules.items():
        clauses = rule.clauses if isinstance(rule, Clauses) else ()
        checks = (check for clause, _ in clauses for check in clause)
        found[name] = tuple(sorted({check.argument for check in checks if check.mask <= _WORD}))
    return found


def _notifying(rule: Action | Clauses) -> Action | Clauses:
    if isinstance(rule, Clauses):
        clauses = tuple((checks, _notify(action)) for checks, action in rule.clauses)
        return Clauses(clauses, _notify(rule.otherwise))
    return _notify(rule)


def _notify(action: Action) -> Action:
    return Action.NOTIFY if action in (Action.EPERM, Action.KILL) else action
