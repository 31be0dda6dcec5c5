"""Devices for the programs: each a VM of a daemon that runs beside them, or the one of the VM in which all this runs."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.compat.effort import process_seconds
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.limits import NO_DEADLINE_NS
from vhost_backend import log
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker, worker_of

REGION_MIB: Final = 512
QUEUES: Final = 16
"""Enough for programs that begin while the device still works on what a stopped one has left."""


@dataclass(frozen=True, slots=True)
class Guest:
    """Environment and descriptors with which a process uses one device."""

    environment: dict[str, str]
    fds: tuple[int, ...] = ()
    device_seconds: Callable[[], float] = lambda: 0.0
    """Processor time of the device's worker so far; 0 where it cannot be seen."""

    @property
    def last_error(self) -> Path:
        """File in which the runtime tells the last error of this user's programs."""
        return Path(self.environment.get("VGC_STATE_DIR", "/run/vgc")) / f"last-error.{os.geteuid()}"


def _worker_seconds(daemon: DaemonThread, vm: str) -> float:
    pid = daemon.ask(lambda daemon: daemon.vms[vm].worker_pid)
    return 0.0 if pid is None else process_seconds(worker_of(pid))


@contextmanager
def daemon_guests(
    folder: Path, count: int, memory_mib: int, pes: int, *, is_lockstep: bool = False
) -> Iterator[list[Guest]]:
    """Devices of a daemon on this machine, on the software GPU; `folder` holds their sockets, its parent the compile cache."""
    log.configure("console", "error", io.StringIO())
    vms = tuple(
        VmConfig(
            f"vm{index}",
            vm_uuid(f"vm{index}"),
            folder / f"vm{index}",
            REGION_MIB * MIB,
            engine=EngineConfig("cpu", {"lockstep": "on"} if is_lockstep else {}),
            quota=QuotaConfig(pes=pes, memory_bytes=memory_mib * MIB),
            deadline_ns=NO_DEADLINE_NS,
            num_queues=QUEUES,
            sandbox=SANDBOX,
        )
        for index in range(count)
    )
    config = DaemonConfig(vms, cache=folder.parent / "cache")
    with ExitStack() as stack:
        daemon = stack.enter_context(DaemonThread(config, sandboxed_worker, compiler=compile_service(config)))
        guests = []
        for vm in vms:
            link = stack.enter_context(AttachedLink(folder / vm.name, region_bytes=REGION_MIB * MIB, num_queues=QUEUES))
            link.wait_ready()
            state = folder / f"state-{vm.name}"
            guests.append(
                Guest(
                    os.environ | {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(state)},
                    tuple(link.fds),
                    partial(_worker_seconds, daemon, vm.name),
                )
            )
        yield guests


@contextmanager
def vm_guests(count: int) -> Iterator[list[Guest]]:
    """The device of the VM in which this runs, for `count` programs at a time."""
    yield [Guest(dict(os.environ)) for _ in range(count)]
