"""VMs on the CUDA engine: one daemon with any number of VMs, each with a queue and a context."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cuda.gpu import Gpu
from bench.device import Device, RequestError
from bench.driver import Driver, DriverError
from bench.processes import BackendError, backend
from bench.results import SkipRow
from bench.vgcd import OurDevice


@dataclass(frozen=True, slots=True)
class Vm:
    """Settings of one VM; sizes in MiB, `options` are the engine's."""

    name: str
    pes: int
    memory_mib: int
    region_mib: int = 64
    options: dict[str, Any] = field(default_factory=dict)
    weight: int = 100

    def section(self, gpu: Gpu, folder: Path) -> dict[str, Any]:
        """Section of the VM in the configuration."""
        return {
            "socket": str(folder / f"{self.name}.sock"),
            "region": f"{self.region_mib}M",
            "engine": gpu.engine(**self.options),
            "num_queues": 1,
            "deadline": "60s",
            "sandbox": "best-effort",
            "quota": {
                "memory": f"{self.memory_mib}M",
                "pes": self.pes,
                "queue_depth": 1024,
                "weight": self.weight,
            },
        }


def configuration(gpu: Gpu, folder: Path, vms: Sequence[Vm]) -> str:
    """Renders the daemon's configuration. JSON is YAML."""
    sections = {vm.name: vm.section(gpu, folder) for vm in vms}
    return json.dumps({"vms": sections, "cache": str(folder / "cache"), "log": {"level": "info"}}, indent=2)


@contextmanager
def running(gpu: Gpu, folder: Path, vms: Sequence[Vm]) -> Iterator[list[OurDevice]]:
    """Runs the daemon in a new process; yields a device of each VM, in order.

    :raise SkipRow: it does not come up; the text ends with the daemon's last messages.
    """
    config = folder / "vgcd.yaml"
    config.write_text(configuration(gpu, folder, vms))
    command = [sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config)]
    started, devices = _start(command, folder, vms)
    with started:
        yield devices


def _start(command: Sequence[str], folder: Path, vms: Sequence[Vm]) -> tuple[ExitStack, list[OurDevice]]:
    """Starts the daemon; returns the stack that ends it, and the devices."""
    try:
        with ExitStack() as starting:
            process = starting.enter_context(backend(command, folder / "vgcd.log"))
            drivers = [starting.enter_context(_driver(folder, vm)) for vm in vms]  # their workers start concurrently
            devices = [OurDevice(Device(driver), process.pid) for driver in drivers]
            return starting.pop_all(), devices
    except (BackendError, RequestError, DriverError) as error:
        raise SkipRow(f"our device with the cuda engine does not come up: {error}{_last_words(folder)}") from error


def _last_words(folder: Path) -> str:
    """Last errors and warnings in the daemon's log."""
    lines = (folder / "vgcd.log").read_text(errors="replace").splitlines()
    return "".join(f"; {line.strip()}" for line in lines if "error" in line or "warning" in line)[-400:]


def _driver(folder: Path, vm: Vm) -> Driver:
    return Driver(folder / f"{vm.name}.sock", vm.region_mib << 20)
