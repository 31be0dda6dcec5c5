"""Command line that starts a worker process inside its namespaces.

The worker starts with the walls that only its parent can build: pid, network, IPC, UTS, mount and user
namespaces, an unprivileged uid, a read-only view of the Python that it runs. It gives up further privileges by itself,
in `worker.enter`, once it has imported its modules and opened its engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox.launch import LaunchSpec, SandboxMode, choose_isolation, command, python_path, python_paths

_OOM_SCORE: Final = 500
"""OOM score of a worker: the kernel kills it before the host's own services, but after any compiler."""

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
    sandbox cannot be built, it writes a line to stderr and exits with status 125.

    Of the host's files the worker sees Python, our packages and `readonly_paths`; it can open `devices` if their
    permissions allow it, and with `proc` it sees itself in its own /proc. It holds `kept_fds` under the same numbers,
    stdout and stderr as they are, and no other descriptor. `quarters` are as in `LaunchSpec`.

    Blocks for some milliseconds the first time, to find out which features the host has.

    :raise SandboxError: the mode is strict or permissive, and the host cannot isolate the worker.
    :raise HostError: the launcher is missing.
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
    )
    return command(spec, isolate=isolate)
