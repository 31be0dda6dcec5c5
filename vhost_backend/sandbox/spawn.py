"""How a worker process is started inside its namespaces.

The worker wakes up with the walls that only its parent can build: pid, network, IPC, UTS, mount and user
namespaces, an unprivileged uid, a read-only view of the Python that it runs. It gives up the rest by itself, in
`worker.enter`, once it has imported its modules and opened its engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vhost_backend.sandbox.launch import LaunchSpec, SandboxMode, choose_isolation, command, python_path, python_paths

_OOM_SCORE: Final = 500
"""The host out of memory takes a worker before its own services, but after any compiler."""

WORKER_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": python_path(),
    # Each further arena of the C library reserves 64 MiB of the address space that the sandbox bounds.
    "MALLOC_ARENA_MAX": "2",
}
"""All that a worker's environment needs."""


def worker_command(
    argv: Sequence[str],
    *,
    kept_fds: Sequence[int],
    mode: SandboxMode,
    readonly_paths: Sequence[Path] = (),
    devices: Sequence[Path] = (),
    proc: bool = False,
) -> tuple[str, ...]:
    """The command that runs `argv` (an absolute program first) as an isolated worker.

    Start it as a child that inherits `kept_fds`. That child is the launcher, and stands for the worker: it ends
    as the worker does, by the same signal or exit status, and only when nothing of the worker is left; SIGTERM
    to it kills the worker at once, whatever that does; it kills the worker when its own parent dies. A sandbox
    that cannot be built is a line on stderr and exit status 125.

    The worker sees Python, our packages and `readonly_paths`, nothing else of the host's files; it can open `devices`
    as far as their permissions let it, and with `proc` it sees itself in a /proc of its own. It holds
    `kept_fds` under the same numbers, stdout and stderr as they are, and no other descriptor.

    Blocks for some milliseconds the first time, to see what the host can do.

    :raise SandboxError: in strict mode, when the host cannot isolate it.
    :raise HostError: when the launcher is missing.
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
    )
    return command(spec, isolate=isolate)
