"""Python interface of ``vgc-launch``: the job and its walls as a command line, and the launcher's report."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vhost_backend import users
from vhost_backend.errors import HostError
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox import build
from vhost_backend.sandbox.terms import STRICT_MODES, Bind, SandboxError, SandboxMode

UNPRIVILEGED_ID: Final = 65534
"""Uid and gid of a job without a user of its own (see `vhost_backend.users`) when we are root."""

SYSTEM_PATHS: Final = tuple(Path(name) for name in ("/lib", "/lib64", "/usr/lib", "/usr/lib64"))
"""Folders of shared libraries and the dynamic linker."""

_FORBIDDEN: Final = tuple(Path(name) for name in ("/etc", "/proc", "/sys", "/dev", "/run", "/vgc-work", "/vgc-empty"))
_HARMLESS: Final = tuple(Path(name) for name in ("/sys/devices", "/sys/bus/pci", "/sys/module", "/etc/ld.so.cache"))
"""Exceptions from `_FORBIDDEN`: lists of the host's hardware, and the linker's list of libraries."""

_PROBE_TARGET: Final = "/vgc-launch"


@dataclass(frozen=True, slots=True)
class WorkFiles:
    """Work directory of a job, with the file that is copied into it and the one that is copied out of it."""

    size_bytes: int
    input_fd: int
    input_name: str
    output_fd: int
    output_name: str
    output_bytes: int


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Description of one job. File descriptors stay the caller's."""

    argv: Sequence[str]
    readonly_paths: Iterable[Path] = ()
    """Files and folders that the job sees under their own paths."""
    binds: Iterable[Bind] = ()
    """Files and folders that the job sees under other paths. No target lies within another."""
    system_libraries: bool = True
    """True: the job sees the system's folders of shared libraries, with all that is in them."""
    devices: Iterable[Path] = ()
    """Device nodes that the job can open, and folders of device nodes."""
    proc: bool = False
    """True: the job sees a /proc of its pid namespace, read-only except for files of its own processes."""
    limits: Mapping[str, int] = field(default_factory=dict)
    timeout_ms: int | None = None
    work: WorkFiles | None = None
    filter_fd: int | None = None
    log_fd: int | None = None
    kept_fds: Sequence[int] = ()
    own_root: bool = False
    oom_score: int = 0
    quarters: Quarters = NOWHERE
    """Control group that the job joins, and its user (None: when we are root, `UNPRIVILEGED_ID`, else our own)."""
    lifeline_pid: int | None = None
    """Process with which the job ends; None: the launcher's parent."""
    nice: int = 0
    """Added to the job's nice value, also to that of its session, where the kernel shares processors among sessions
    (autogroup). Below 0 only as `vhost_backend.cgroups.weights.least_nice` allows."""


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """Report of the launcher, see launcher.h. `ended` is ("exit", "0"), ("timeout", "") and so on."""

    pid: int | None = None
    ended: tuple[str, str] | None = None
    output_bytes: int | None = None
    no_output: str | None = None
    error: SandboxError | None = None

    @classmethod
    def parse(cls, text: str) -> LaunchReport:
        """Reads the lines of the report pipe; a torn or empty report leaves its fields unset."""
        pid: int | None = None
        ended: tuple[str, str] | None = None
        output_bytes: int | None = None
        no_output: str | None = None
        error: SandboxError | None = None
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "pid":
                    pid = int(rest)
                case "exit" | "signal" | "timeout" | "orphaned":
                    ended = (word, rest)
                case "output":
                    output_bytes = int(rest)
                case "no-output":
                    no_output = rest
                case "error":
                    feature, _, reason = rest.partition(": ")
                    error = SandboxError(feature, reason)
        return cls(pid, ended, output_bytes, no_output, error)


def launcher_path() -> Path:
    """Path of the launcher.

    :raise HostError: the launcher has not been built.
    """
    if not build.LAUNCHER.exists():
        raise HostError(f"{build.LAUNCHER} is missing", "build it with 'make'")
    return build.LAUNCHER


def command(
    spec: LaunchSpec,
    *,
    isolate: bool,
    report_fd: int | None = None,
    lifeline_fd: int | None = None,
    work_path: Path | None = None,
) -> tuple[str, ...]:
    """Builds the launcher's command line.

    With a `report_fd` the launcher reports there and exits with 0; without, it ends as the job did. The job is
    killed when `lifeline_fd` hangs up or, without that, when the launcher's parent or the spec's process ends. Without isolation
    `work_path` is the work directory, if the job needs one.

    :raise HostError: the launcher is missing, or a program that gives the job its user.
    """
    arguments: list[str] = [str(launcher_path())]
    arguments += _optional("report-fd", report_fd)
    arguments.append(_lifeline(spec, lifeline_fd))
    arguments += _root_arguments(spec) if isolate else ["--no-isolation"]
    arguments += _user_arguments(spec.quarters.user) if isolate else []
    if spec.quarters.cgroup is not None:
        arguments += [f"--cgroup={door}" for door in spec.quarters.cgroup.doors]
    if isolate and spec.own_root:
        arguments.append("--own-root")
    if spec.work is not None:
        arguments += _work_arguments(spec.work)
    if work_path is not None:
        arguments.append(f"--work-path={work_path}")
    arguments += [f"--limit={name}={value}" for name, value in spec.limits.items()]
    arguments += [f"--keep-fd={fd}" for fd in spec.kept_fds]
    arguments += _optional("timeout-ms", spec.timeout_ms)
    arguments += _optional("filter-fd", spec.filter_fd)
    arguments += _optional("log-fd", spec.log_fd)
    arguments += _optional("oom-score", spec.oom_score)
    arguments += _optional("nice", spec.nice)
    return (*arguments, "--", *spec.argv)


def _lifeline(spec: LaunchSpec, fd: int | None) -> str:
    """Argument that says with what the job ends."""
    if fd is not None:
        return f"--lifeline-fd={fd}"
    return "--with-parent" if spec.lifeline_pid is None else f"--with-pid={spec.lifeline_pid}"


def inherited_fds(spec: LaunchSpec) -> tuple[int, ...]:
    """Descriptors that the launcher must inherit, besides its report and its lifeline."""
    work = (spec.work.input_fd, spec.work.output_fd) if spec.work is not None else ()
    single = (fd for fd in (spec.filter_fd, spec.log_fd) if fd is not None)
    return (*work, *single, *spec.kept_fds)


def python_paths() -> tuple[Path, ...]:
    """Paths that a Python process of this project must see: the interpreter, its packages and our own."""
    root = project_root()
    packages = (root / name for name in ("vhost_backend", "virtio_proto", "kernels"))
    return (Path(sys.prefix), Path(sys.base_prefix), *_added_paths(), *(path for path in packages if path.exists()))


def python_path() -> str:
    """``PYTHONPATH`` for a Python process of this project: our packages, then the entries of our own ``PYTHONPATH``."""
    return os.pathsep.join(map(str, (project_root(), *_added_paths())))


def _added_paths() -> tuple[Path, ...]:
    """Folders in this process's ``PYTHONPATH``, except the project's."""
    named = (Path(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
    return tuple(path for path in named if path.is_absolute() and path.is_dir() and path.resolve() != project_root())


def project_root() -> Path:
    """Folder that contains our packages."""
    return Path(__file__).resolve().parents[2]


@functools.cache
def missing_feature(*, proc: bool = False) -> SandboxError | None:
    """Feature that this host lacks for a sandbox (with a /proc, if `proc`), found by building one; None: no feature."""
    read_end, write_end = os.pipe()
    try:
        _run_probe(write_end, proc=proc)
        os.close(write_end)
        write_end = -1
        report = LaunchReport.parse(os.read(read_end, 4096).decode(errors="replace"))
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)
    if report.error is not None:
        return report.error
    return None if report.ended == ("exit", "0") else SandboxError("launcher", "the trial run failed")


def choose_isolation(mode: SandboxMode, *, proc: bool = False) -> bool:
    """True if jobs (jobs that need a /proc, if `proc`) are to be isolated under `mode`.

    :raise SandboxError: the mode is strict or permissive, and this host cannot isolate.
    """
    if mode == "off":
        return False
    missing = missing_feature(proc=True) if proc else missing_feature()
    if missing is not None and mode in STRICT_MODES:
        raise missing
    return missing is None


def _run_probe(report_fd: int, *, proc: bool) -> None:
    launcher = str(launcher_path())
    command_line = [
        *(launcher, f"--report-fd={report_fd}", f"--bind={os.path.realpath(launcher)}={_PROBE_TARGET}"),
        *(["--proc"] if proc else []),
        *(["--ids=65534:65534"] if users.gives_any_ids() else []),
        *("--timeout-ms=10000", "--", _PROBE_TARGET, "--exit"),
    ]
    subprocess.run(command_line, check=False, env={}, pass_fds=(report_fd,), stdin=subprocess.DEVNULL)


def _optional(name: str, value: int | None) -> list[str]:
    return [] if value is None else [f"--{name}={value}"]


def _user_arguments(user: int | None) -> list[str]:
    """Arguments that make the job run as `user`.

    :raise HostError: we may not give it any ids, and lack the programs that do.
    """
    if user is None and os.geteuid() != 0:
        return []
    user = UNPRIVILEGED_ID if user is None else user
    if users.gives_any_ids():
        return [f"--ids={user}:{user}"]
    tools = (f"--{name}={path}" for name, path in zip(users.MAP_TOOLS, users.map_tools(), strict=True))
    return [f"--ids={user}:{user}", *tools]


def _work_arguments(work: WorkFiles) -> list[str]:
    return [
        f"--work-bytes={work.size_bytes}",
        f"--input={work.input_fd}:{work.input_name}",
        f"--output={work.output_fd}:{work.output_name}",
        f"--output-bytes={work.output_bytes}",
    ]


def _root_arguments(spec: LaunchSpec) -> list[str]:
    """Arguments that bind the paths of `spec` and the system's libraries; a system folder that is a link stays one."""
    system = SYSTEM_PATHS if spec.system_libraries else ()
    links = [path for path in system if path.is_symlink()]
    arguments = [f"--link={os.path.relpath(os.path.realpath(path), path.parent)}={path}" for path in links]
    visible: set[Path] = set()
    wanted = {path for path in system if path.is_dir() and not path.is_symlink()}
    for path in sorted(wanted | {_checked(path) for path in spec.readonly_paths}):
        if not visible.isdisjoint(path.parents):
            continue
        visible.add(path)
        arguments.append(f"--bind={os.path.realpath(path)}={path}")
    arguments += [f"--bind={os.path.realpath(_checked(bind.source))}={bind.target}" for bind in spec.binds]
    arguments += [f"--device={os.path.realpath(path)}={path}" for path in spec.devices]
    return [*arguments, *(["--proc"] if spec.proc else [])]


def _checked(path: Path) -> Path:
    real = Path(os.path.realpath(path))
    if not path.is_absolute() or ".." in path.parts or "=" in str(path):
        raise ValueError(f"{path} cannot be shown to a sandboxed process: not a plain absolute path")
    for candidate in (path, real):
        if any(candidate.is_relative_to(shown) for shown in _HARMLESS):
            continue
        if candidate == Path("/") or any(candidate.is_relative_to(forbidden) for forbidden in _FORBIDDEN):
            raise ValueError(f"{path} must not be shown to a sandboxed process")
    return path
