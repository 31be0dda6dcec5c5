"""VMs on the CPU engine: one daemon with any number of VMs, each with a queue and a context."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import Device, RequestError
from bench.driver import Driver, DriverError
from bench.processes import BackendError, backend
from bench.results import SkipRow
from bench.vgcd import OurDevice

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class HostVm:
    """Settings of one VM; sizes in MiB."""

    name: str
    pes: int
    weight: int = 100
    memory_mib: int = 16
    region_mib: int = 16
    cores: str | None = None
    """Cores of the host that the VM has for its own."""

    def section(self, folder: Path) -> dict[str, Any]:
        """Section of the VM in the configuration."""
        return {
            "socket": str(self.socket(folder)),
            "region": f"{self.region_mib}M",
            "engine": "cpu",
            "num_queues": 1,
            "deadline": "60s",
            "sandbox": "best-effort",
            "quota": {
                "memory": f"{self.memory_mib}M",
                "pes": self.pes,
                "weight": self.weight,
                "queue_depth": 1024,
                **({} if self.cores is None else {"cores": self.cores}),
            },
        }

    def socket(self, folder: Path) -> Path:
        return folder / f"{self.name}.sock"


@contextmanager
def daemon(folder: Path, vms: Sequence[HostVm]) -> Iterator[int]:
    """Runs a daemon with these VMs in a new process, whose id it yields. It may not listen yet when the block begins.

    :raise BackendError: the block fails with an error of a connection.
    """
    config = folder / "vgcd.yaml"
    options = {"cache": str(folder / "cache"), "log": {"level": "info"}, "overcommit": True}
    config.write_text(json.dumps({"vms": {vm.name: vm.section(folder) for vm in vms}, **options}, indent=2))
    command = (sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config))
    with backend(command, folder / "vgcd.log") as process:
        yield process.pid


@contextmanager
def running(folder: Path, vms: Sequence[HostVm]) -> Iterator[list[OurDevice]]:
    """Runs a daemon with these VMs; yields a device of each, in order.

    :raise SkipRow: it does not come up; the text ends with the daemon's last messages.
    """
    with ExitStack() as stack:
        try:
            with ExitStack() as starting:
                pid = starting.enter_context(daemon(folder, vms))
                devices = connected(starting, folder, vms, pid)
                stack.push(starting.pop_all())
        except (BackendError, RequestError, DriverError) as error:
            raise SkipRow(f"our device with the cpu engine does not come up: {error}") from error
        yield devices


def connected(stack: ExitStack, folder: Path, vms: Sequence[HostVm], pid: int) -> list[OurDevice]:
    """Connects to VMs of the daemon `pid`, all before the first is asked for a context, until `stack` ends."""
    drivers = [stack.enter_context(Driver(vm.socket(folder), vm.region_mib * MIB)) for vm in vms]
    return [OurDevice(Device(driver), pid) for driver in drivers]
