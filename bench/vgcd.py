"""Our daemon, started the way a user starts it, and one VM's queue on it."""

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
from virtio_proto.schema import Opcode

REGION_MIB: Final = 256
MEMORY_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class OurDevice:
    """A running daemon, its worker, and a context on the device."""

    device: Device
    daemon_pid: int

    @property
    def driver(self) -> Driver:
        return self.device.driver

    @property
    def pids(self) -> list[int]:
        """The daemon and everything it has started."""
        return [self.daemon_pid, *descendants(self.daemon_pid)]

    def null_requests(self, count: int) -> Any:
        """`count` NOPs with memory of their own, known to be answered with OK.

        :raise RequestError: when they are not.
        """
        prepared = self.device.prepare(Opcode.NOP, count=count)
        self.driver.pipelined(prepared.native, count)
        prepared.check()
        return prepared.native

    @property
    def worker_pids(self) -> list[int]:
        """The worker that serves the VM, and the launcher that put it into its namespaces.

        :raise LookupError: when the daemon has none.
        """
        found = descendants(self.daemon_pid)
        if not found:
            raise LookupError("the daemon has no worker process")
        return found


def descendants(pid: int) -> list[int]:
    """Children of a process, their children, and so on."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def configuration(
    socket_path: Path, cache: Path, engine: str, threads: int, control: Mapping[str, Any] | None = None
) -> str:
    """The daemon's configuration: one VM, generous quotas, `control` of the control system. JSON is YAML."""
    vm = {
        "socket": str(socket_path),
        "region": f"{REGION_MIB}M",
        "engine": engine,
        "num_queues": 1,
        "sandbox": "best-effort",
        "quota": {"memory": f"{MEMORY_MIB}M", "pes": threads, "queue_depth": 1024},
    }
    options = {"cache": str(cache), "log": {"level": "info"}, "control": dict(control or {})}
    return json.dumps({"vms": {"bench": vm}, **options}, indent=2)


@contextmanager
def running(folder: Path, engine: str, threads: int, control: Mapping[str, Any] | None = None) -> Iterator[OurDevice]:
    """The daemon in a process of its own, serving one VM with `engine`, its queue up and a context created.

    `control` is the section of its control system, which is off without.
    """
    socket_path = folder / f"{engine}.sock"
    config = folder / f"{engine}.yaml"
    config.write_text(configuration(socket_path, folder / "cache", engine, threads, control))
    command = [sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config)]
    with backend(command, folder / f"{engine}.log") as process, Driver(socket_path, REGION_MIB << 20) as driver:
        yield OurDevice(Device(driver), process.pid)
