"""Command line that starts a worker process inside its namespaces.

The worker starts with the walls that only its parent can build: pid, network, IPC, UTS, mount and user
namespaces, an unprivileged uid, a read-only view of the Python that it runs. It gives up further privileges by itself,
in `worker.enter`, once it has imported its modules and opened its engine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vhost_backend.errors import HostError
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox.launch import LaunchSpec, choose_isolation, command, python_path, python_paths
from vhost_backend.sandbox.terms import SandboxMode
from vhost_backend.users import UserRange, find_range

_OOM_SCORE: Final = 500
"""OOM score of a worker: the kernel kills it before the host's own services, but after any compiler."""

_MAP_HINT: Final = (
    "newuidmap and newgidmap must be set-uid, and vgcd without NoNewPrivileges (of systemd), which other settings imply"
)

WORKER_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": python_path(),
    # Each further arena of the C library reserves 64 MiB of the address space that the sandbox bounds.
    "MALLOC_ARENA_MAX": "2",
}
"""Complete environment of a worker."""


def worker_command(
    argv: Sequence[str],
    *,
    kept_fds: Sequence[int],
    mode: SandboxMode,
    readonly_paths: Sequence[Path] = (),
    devices: Sequence[Path] = (),
    proc: bool = False,
    quarters: Quarters = NOWHERE,
) -> tuple[str, ...]:
    """Builds the command that runs `argv` (whose program is an absolute path) as an isolated worker.

    Start it as a child that inherits `kept_fds`. That child is the launcher and stands for the worker: it ends
    as the worker does, with the same signal or exit status, and only after all processes of the worker; SIGTERM
    to it kills the worker at once, whatever the worker is doing; it kills the worker when its own parent dies. If the
    sandbox cannot be built, it writes a line to stderr and exits with status 125; it also writes one when a signal stops
    the worker.

    Of the host's files the worker sees Python, our packages and `readonly_paths`; it can open `devices` if their
    permissions allow it, and with `proc` it sees itself in its own /proc. It holds `kept_fds` under the same numbers,
    stdout and stderr as they are, and no other descriptor. `quarters` are as in `LaunchSpec`.

    Blocks for some milliseconds the first time, to find out which features the host has.

    :raise SandboxError: the mode is strict or permissive, and the host cannot isolate the worker.
    :raise HostError: the launcher is missing, or a program that gives the worker its user.
    """
    isolate = choose_isolation(mode, proc=proc)
    spec = LaunchSpec(
        argv=argv,
        readonly_paths=(*python_paths(), *readonly_paths),
        devices=devices,
        proc=proc,
        limits={"core": 0},
        kept_fds=kept_fds,
        own_root=True,
        oom_score=_OOM_SCORE,
        quarters=quarters,
        nice=quarters.nice,
        lifeline_pid=quarters.keeper,
    )
    return command(spec, isolate=isolate)


def users_of_workers(wanted: UserRange | None = None) -> UserRange:
    """Range of users that this host's workers can have: `wanted`, or the one that the host offers.

    An ordinary user's daemon starts a worker's Python as one of them, which takes a second: all that the worker reads
    may be readable by the daemon's user only.

    :raise HostError: the host offers no users, or others than `wanted`, or workers cannot run as them.
    """
    among = find_range(wanted)
    if os.geteuid() != 0:
        _check_user(among.first)
    return among


def _check_user(user: int) -> None:
    """Starts a worker's Python as `user`.

    :raise HostError: it does not start.
    """
    argv = (sys.executable, "-c", "import vhost_backend.worker.life")
    done = subprocess.run(
        worker_command(argv, kept_fds=(), mode="strict", quarters=Quarters(user)),
        env=WORKER_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    why = "; ".join(done.stderr.splitlines()[-2:])
    shown = ", ".join(map(str, python_paths()))
    hint = _MAP_HINT if "user ids" in why else f"all users must be able to read {shown}"
    raise HostError(f"workers do not start as user {user}: {why}", hint)
