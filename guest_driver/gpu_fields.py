"""Fields of ``vgc smi --query-gpu`` and ``--query-compute-apps``, by nvidia-smi's names, and their lines of CSV."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from guest_driver.device import Process
from guest_driver.gpu_state import GpuState, name_of
from virtio_proto.version import VERSION

MIB: Final = 1 << 20
NOT_TOLD: Final = "[N/A]"
_About = TypeVar("_About")


@dataclass(frozen=True, slots=True)
class Field(Generic[_About]):
    """One column: its value, None where the host does not tell it, and the unit of numbers."""

    value: Callable[[_About], object]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table(Generic[_About]):
    """Fields that may be asked for, with other names of some."""

    fields: Mapping[str, Field[_About]]
    aliases: Mapping[str, str]

    def parse(self, text: str) -> list[str]:
        """Names of fields, separated by commas.

        :raise argparse.ArgumentTypeError: a name is unknown.
        """
        names = [self.aliases.get(name.strip(), name.strip()) for name in text.split(",")]
        unknown = [name for name in names if name not in self.fields]
        if unknown:
            raise argparse.ArgumentTypeError(f"field {unknown[0]!r}; allowed: {', '.join(self.fields)}")
        return names

    def header(self, names: Sequence[str]) -> str:
        units = (self.fields[name].unit for name in names)
        return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True))

    def line(self, names: Sequence[str], about: _About, *, units: bool) -> str:
        return ", ".join(self._cell(self.fields[name], about, units) for name in names)

    @staticmethod
    def _cell(field: Field[_About], about: _About, units: bool) -> str:
        value = field.value(about)
        if value is None:
            return NOT_TOLD
        text = f"{value} {field.unit}" if units and field.unit else str(value)
        return f'"{text.replace(chr(34), 2 * chr(34))}"' if "," in text else text  # names of software GPUs have commas


@dataclass(frozen=True, slots=True)
class App:
    """Process that computes on a device."""

    gpu: GpuState
    process: Process


@dataclass(frozen=True, slots=True)
class Format:
    """Words of ``--format``."""

    header: bool = True
    units: bool = True


def parse_format(text: str) -> Format:
    """Reads ``csv``, with ``noheader`` and ``nounits`` in any order.

    :raise argparse.ArgumentTypeError: a word is unknown, or there is no csv.
    """
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in {"csv", "noheader", "nounits"}]
    if unknown or "csv" not in words:
        raise argparse.ArgumentTypeError(f"format {text!r}; allowed: csv, with noheader and nounits behind commas")
    return Format("noheader" not in words, "nounits" not in words)


def _told(name: str, per: int = 1) -> Callable[[GpuState], int | None]:
    """Number that the device tells of itself, in units of `per`."""
    return lambda gpu: gpu.limits[name] // per or None


def _capability(gpu: GpuState) -> str | None:
    capability = gpu.limits["compute_capability"]
    return f"{capability // 10}.{capability % 10}" if capability else None


def _free(gpu: GpuState) -> int:
    return max(gpu.usage.memory_quota_bytes - gpu.usage.memory_used_bytes, 0) // MIB


def _untold(_: GpuState) -> None:
    return None


GPU: Final[Table[GpuState]] = Table(
    {
        "timestamp": Field(lambda _: datetime.now().astimezone().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]),
        "driver_version": Field(lambda _: VERSION),
        "index": Field(lambda gpu: gpu.index),
        "name": Field(lambda gpu: gpu.info.engine_name),
        "uuid": Field(lambda gpu: gpu.uuid),
        "pci.bus_id": Field(lambda gpu: gpu.bus_id),
        "pci.domain": Field(lambda gpu: f"0x{gpu.place[0]:04X}"),
        "pci.bus": Field(lambda gpu: f"0x{gpu.place[1]:02X}"),
        "pci.device": Field(lambda gpu: f"0x{gpu.place[2]:02X}"),
        "compute_cap": Field(_capability),
        "compute_mode": Field(lambda _: "Default"),
        "display_active": Field(lambda _: "Disabled"),
        "memory.total": Field(lambda gpu: gpu.usage.memory_quota_bytes // MIB, "MiB"),
        "memory.used": Field(lambda gpu: gpu.usage.memory_used_bytes // MIB, "MiB"),
        "memory.free": Field(_free, "MiB"),
        "utilization.gpu": Field(lambda gpu: gpu.utilization, "%"),
        "utilization.memory": Field(_untold, "%"),
        "clocks.max.sm": Field(_told("clock_khz", 1000), "MHz"),
        "clocks.max.memory": Field(_told("memory_clock_khz", 1000), "MHz"),
        "ecc.mode.current": Field(lambda gpu: "Enabled" if gpu.limits["ecc"] else None),
        "persistence_mode": Field(_untold),
        "pstate": Field(_untold),
        "fan.speed": Field(_untold, "%"),
        "temperature.gpu": Field(_untold),
        "power.draw": Field(_untold, "W"),
        "power.limit": Field(_untold, "W"),
        "clocks.sm": Field(_untold, "MHz"),
        "clocks.mem": Field(_untold, "MHz"),
        "mig.mode.current": Field(_untold),
        "processing_elements": Field(lambda gpu: gpu.usage.num_pes),
        "processing_elements.limit": Field(lambda gpu: gpu.info.processing_elements),
    },
    {
        "gpu_name": "name",
        "gpu_uuid": "uuid",
        "gpu_bus_id": "pci.bus_id",
        "clocks.max.graphics": "clocks.max.sm",
        "clocks.max.gr": "clocks.max.sm",
        "clocks.max.mem": "clocks.max.memory",
        "clocks.current.sm": "clocks.sm",
        "clocks.current.memory": "clocks.mem",
    },
)
"""Fields of devices. The last two are not nvidia-smi's."""

APPS: Final[Table[App]] = Table(
    {
        "gpu_name": Field(lambda app: app.gpu.info.engine_name),
        "gpu_uuid": Field(lambda app: app.gpu.uuid),
        "gpu_bus_id": Field(lambda app: app.gpu.bus_id),
        "pid": Field(lambda app: app.process.pid),
        "process_name": Field(lambda app: name_of(app.process.pid)),
        "used_gpu_memory": Field(lambda app: app.process.memory_bytes // MIB, "MiB"),
    },
    {"used_memory": "used_gpu_memory", "name": "process_name"},
)
"""Fields of processes."""


def lines(table: Table[_About], names: Sequence[str], rows: Sequence[_About], style: Format) -> Iterator[str]:
    """Lines of CSV, with the header if `style` has one."""
    if style.header:
        yield table.header(names)
    for row in rows:
        yield table.line(names, row, units=style.units)


def apps(gpus: Sequence[GpuState]) -> list[App]:
    return [App(gpu, process) for gpu in gpus for process in gpu.processes]
