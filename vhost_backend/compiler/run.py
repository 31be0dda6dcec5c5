"""Sandboxed compiler run: source in, image and log out.

The compiler is a short-lived process in its own namespaces. It sees the job's files and their libraries read-only, under
neutral names (`view`), and an empty work directory in memory, but no network, no other process and no other file of the
host; its time, memory, output and number of processes are bounded; it yields the processors to others; system calls that no
compiler needs are denied (`policy.compile_policy`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.cgroups.limits import USUAL_WEIGHT, Limits
from vhost_backend.cgroups.weights import MOST_NICE
from vhost_backend.compiler import view
from vhost_backend.compiler.diagnostics import errors_first
from vhost_backend.compiler.job import CompileJob
from vhost_backend.cores import lists, threads
from vhost_backend.cores.pool import CorePool
from vhost_backend.fds import Fd, pipe
from vhost_backend.log import get_logger
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox import memfd, seccomp
from vhost_backend.sandbox.launch import LaunchReport, LaunchSpec, WorkFiles, choose_isolation, command, inherited_fds
from vhost_backend.sandbox.policy import compile_policy
from vhost_backend.sandbox.terms import Bind, SandboxMode

_MIB: Final = 1 << 20
_MAX_REPORT_BYTES: Final = 4096
_WORK_DIRECTORY: Final = "/vgc-work"
_OOM_SCORE: Final = 1000
_NICE: Final = 5
"""Nice value of compilers beside the VM's own: a third of the share of a worker. Not the idle class, in which a compiler beside workers
that poll would not end within its limits."""


_WEIGHT: Final = USUAL_WEIGHT // 4
"""Weight of compilers in control groups, beside the worker of the VM."""
_CPUS: Final = 2
"""Processors that one run may keep busy: some compilers run their parts side by side."""


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """Limits of one compiler run. `memory_bytes` bounds the address space of each of its processes."""

    wall_seconds: float = 180.0
    """Longer than `cpu_seconds`, as a busy host gives a compiler a part of its time."""
    cpu_seconds: int = 60
    memory_bytes: int = 2048 * _MIB
    work_bytes: int = 256 * _MIB
    image_bytes: int = 64 * _MIB
    log_bytes: int = 256 << 10
    processes: int = 16
    files: int = 4096


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """Outcome of a run. `image_fd` is a sealed memfd that the receiver owns, None unless `ok`."""

    ok: bool
    image_fd: int | None
    log: str


async def run_compile(
    job: CompileJob, source: bytes, limits: CompileLimits, mode: SandboxMode, quarters: Quarters = NOWHERE
) -> CompileOutcome:
    """Runs `job` over `source`, in a room of `quarters`. Cancelling kills all its processes before it returns.

    :raise OSError: the host lacks memory, descriptors or control groups.
    :raise SandboxError: the mode is strict or permissive, and the host cannot isolate the compiler.
    :raise HostError: the launcher, or a library of the compiler, is missing.
    """
    binds = await asyncio.to_thread(_binds, job, mode)
    with contextlib.ExitStack() as stack:
        source_fd = stack.enter_context(Fd(await asyncio.to_thread(memfd.create, "vgc-source", source)))
        image_fd = stack.enter_context(Fd(memfd.create("vgc-image")))
        log_fd = stack.enter_context(Fd(memfd.create("vgc-compile-log")))
        fds = (source_fd.fileno(), image_fd.fileno(), log_fd.fileno())
        room = quarters.room("compile", _group_limits(limits))
        stack.callback(quarters.vacate, room)
        stack.enter_context(quarters.accompanied())
        spec = _launch_spec(job, binds, limits, mode, fds=fds, quarters=room)
        directory = None if binds is not None else stack.enter_context(tempfile.TemporaryDirectory(prefix="vgc-"))
        report = await _launch(spec, directory)
        if report.error is not None:
            raise report.error
        failure = _too_large(room, limits) or _failure(report, limits)
        log = _read_log(log_fd.fileno(), limits.log_bytes) + failure
        if failure:
            return CompileOutcome(ok=False, image_fd=None, log=await asyncio.to_thread(errors_first, log))
        memfd.seal(image_fd.fileno())
        return CompileOutcome(ok=True, image_fd=image_fd.release(), log=log)


def _binds(job: CompileJob, mode: SandboxMode) -> tuple[Bind, ...] | None:
    """Files that an isolated compiler sees; None: this host cannot isolate the compiler, and need not by `mode`."""
    return view.binds(job.visible) if choose_isolation(mode) else None


def _launch_spec(
    job: CompileJob,
    binds: tuple[Bind, ...] | None,
    limits: CompileLimits,
    mode: SandboxMode,
    *,
    fds: tuple[int, int, int],
    quarters: Quarters,
) -> LaunchSpec:
    source_fd, image_fd, log_fd = fds
    return LaunchSpec(
        argv=job.command(isolated=binds is not None),
        binds=binds or (),
        system_libraries=False,
        limits=_resource_limits(limits),
        timeout_ms=int(limits.wall_seconds * 1000),
        work=WorkFiles(limits.work_bytes, source_fd, job.input_name, image_fd, job.output_name, limits.image_bytes),
        filter_fd=None if mode == "off" else _filter_fd(job.is_alone),
        log_fd=log_fd,
        oom_score=_OOM_SCORE,
        quarters=quarters,
        nice=min(MOST_NICE, quarters.nice + _NICE),
    )


def _resource_limits(limits: CompileLimits) -> dict[str, int]:
    return {
        "as": limits.memory_bytes,
        "core": 0,
        "cpu": limits.cpu_seconds,
        "fsize": max(limits.image_bytes, limits.log_bytes),
        "memlock": 0,
        "nofile": limits.files,
        "nproc": limits.processes,
    }


def _group_limits(limits: CompileLimits) -> Limits:
    """Limits of all processes of a run together, and of what they write into memory."""
    files = limits.work_bytes + limits.image_bytes + limits.log_bytes
    return Limits(limits.memory_bytes + files, processes=limits.processes, cpus=_CPUS, weight=_WEIGHT)


async def _launch(spec: LaunchSpec, directory: str | None) -> LaunchReport:
    """Runs the launcher to its end, which is also the end of every process that it started."""
    with contextlib.ExitStack() as stack:
        report, launcher_report = (stack.enter_context(end) for end in pipe())
        launcher_lifeline, lifeline = (stack.enter_context(end) for end in pipe())
        argv = await asyncio.to_thread(  # as it looks at each visible file
            command,
            spec,
            isolate=directory is None,
            report_fd=launcher_report.fileno(),
            lifeline_fd=launcher_lifeline.fileno(),
            work_path=None if directory is None else Path(directory),
        )
        place = spec.quarters.place
        cores = None if place is None else place.pool.shared
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            env=_environment(directory),
            pass_fds=(launcher_report.fileno(), launcher_lifeline.fileno(), *inherited_fds(spec)),
            start_new_session=True,
        )
        launcher_report.close()
        if place is not None:
            stack.enter_context(place.pool.watched(functools.partial(_move, process, place.pool)))
            if place.pool.shared != cores:  # they have changed meanwhile
                _move(process, place.pool)
        try:
            await process.wait()
        except asyncio.CancelledError:
            lifeline.close()
            await asyncio.shield(process.wait())
            raise
        return LaunchReport.parse(os.read(report.fileno(), _MAX_REPORT_BYTES).decode(errors="replace"))


def _move(process: asyncio.subprocess.Process, pool: CorePool) -> None:
    """Keeps a compiler off the processors that VMs have for their own now."""
    if process.returncode is not None:
        return
    try:
        threads.settle_family(process.pid, pool.shared)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has just ended
    except OSError as error:
        get_logger().warning("compiler_not_moved", pid=process.pid, cores=lists.shown(pool.shared), why=str(error))


def _environment(directory: str | None) -> dict[str, str]:
    """Environment of a compiler that works in `directory`; None: of an isolated one."""
    work = directory or _WORK_DIRECTORY
    libraries = {} if directory is not None else {"LD_LIBRARY_PATH": str(view.LIBRARIES)}
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": work, "TMPDIR": work, **libraries}


@functools.cache
def _filter_fd(is_alone: bool) -> int:
    """System call filter of compilers, made once: every launcher reads the same file."""
    return memfd.sealed("vgc-compile-filter", seccomp.assemble(compile_policy(is_alone=is_alone)))


def _read_log(fd: int, max_bytes: int) -> str:
    size = os.fstat(fd).st_size
    text = memfd.read(fd, max_bytes).decode(errors="replace")
    return f"{text}\n[{size - max_bytes} more bytes of output dropped]\n" if size > max_bytes else text


def _too_large(room: Quarters, limits: CompileLimits) -> str:
    """Line that says that the processes used too much memory together; empty if they did not."""
    if not room.oom_kills():
        return ""
    return f"[the compiler was stopped: it used more than {limits.memory_bytes >> 20} MiB of memory]\n"


def _failure(report: LaunchReport, limits: CompileLimits) -> str:
    """Line that says why there is no image; empty if there is an image."""
    match report.ended:
        case ("exit", "0") if report.output_bytes is not None:
            return ""
        case ("exit", "0"):
            return f"[the compiler left no usable image: {report.no_output}]\n"
        case ("exit", code):
            return f"[the compiler failed with exit code {code}]\n"
        case ("timeout", _):
            return f"[the compiler was stopped after {limits.wall_seconds:g} s]\n"
        case ("signal", number):
            return f"[{_killed_by(int(number), limits)}]\n"
        case _:
            return "[the compiler was stopped from outside]\n"


def _killed_by(number: int, limits: CompileLimits) -> str:
    match number:
        case signal.SIGSYS:
            return "the compiler was stopped: it made a system call that no compiler needs"
        case signal.SIGXFSZ:
            return f"the compiler was stopped: it wrote a file of more than {limits.image_bytes} bytes"
        case signal.SIGKILL | signal.SIGXCPU:
            return (
                f"the compiler was stopped: more than {limits.cpu_seconds} s of CPU time, or the host's memory ran out"
            )
        case _:
            return f"the compiler crashed with signal {number}"
