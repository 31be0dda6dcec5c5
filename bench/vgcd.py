"""Our daemon, started as a user starts it, with one VM's queue."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.device import Device
from bench.driver import Driver
from bench.processes import backend
from tests.processes import launchers
from virtio_proto.schema import Opcode

REGION_MIB: Final = 256
MEMORY_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class OurDevice:
    """Running daemon with its worker, and a context on the device."""

    device: Device
    daemon_pid: int

    @property
    def driver(self) -> Driver:
        return self.device.driver

    @property
    def pids(self) -> list[int]:
        """Process ids of the daemon and its descendants."""
        return [self.daemon_pid, *descendants(self.daemon_pid)]

    def null_requests(self, count: int) -> Any:
        """Makes `count` NOPs with separate memory, and checks that they are answered with OK.

        :raise RequestError: they are not.
        """
        prepared = self.device.prepare(Opcode.NOP, count=count)
        self.driver.pipelined(prepared.native, count)
        prepared.check()
        return prepared.native

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the worker that serves the VM, and of its launcher.

        :raise LookupError: the daemon has no worker.
        """
        found = [pid for launcher in launchers(self.daemon_pid) for pid in (launcher, *descendants(launcher))]
        if not found:
            raise LookupError("the daemon has no worker process")
        return found


def descendants(pid: int) -> list[int]:
    """Process ids of a process's descendants; empty if the process has ended."""
    while True:
        try:
            return [found for child in _children(pid) for found in (child, *descendants(child))]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended; its children belong to another thread now
            if not Path(f"/proc/{pid}").exists():
                return []


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def configuration(
    socket_path: Path,
    cache: Path,
    engine: str | Mapping[str, Any],
    threads: int,
    control: Mapping[str, Any] | None = None,
    *,
    num_queues: int = 1,
    region_mib: int = REGION_MIB,
) -> str:
    """Renders the daemon's configuration: one VM, generous quotas, the section `control`. JSON is YAML."""
    vm = {
        "socket": str(socket_path),
        "region": f"{region_mib}M",
        "engine": engine,
        "num_queues": num_queues,
        "sandbox": "best-effort",
        "quota": {"memory": f"{MEMORY_MIB}M", "pes": threads, "queue_depth": 1024},
    }
    options = {"cache": str(cache), "log": {"level": "info"}, "control": dict(control or {}), "overcommit": True}
    return json.dumps({"vms": {"bench": vm}, **options}, indent=2)


@contextmanager
def running(folder: Path, engine: str, threads: int, control: Mapping[str, Any] | None = None) -> Iterator[OurDevice]:
    """Runs the daemon in a new process, serving one VM with `engine`, with its queue started and a context created.

    `control` is the section of its control system, which is off without it.
    """
    socket_path = folder / f"{engine}.sock"
    config = folder / f"{engine}.yaml"
    config.write_text(configuration(socket_path, folder / "cache", engine, threads, control))
    command = [sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config)]
    with backend(command, folder / f"{engine}.log") as process, Driver(socket_path, REGION_MIB << 20) as driver:
        yield OurDevice(Device(driver), process.pid)
