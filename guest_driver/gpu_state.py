"""State of the VM's devices at one time, as ``vgc smi`` shows it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guest_driver.device import Device, DeviceInfo, Process, Usage, devices

PERIOD_S: Final = 1 / 6
"""Time over which utilization is measured: the shortest of NVIDIA's."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """Properties, usage and processes of one device; `utilization` in percent of the period, None if it was not measured."""

    index: int
    info: DeviceInfo
    usage: Usage
    limits: dict[str, int]
    processes: Sequence[Process]
    utilization: int | None

    @property
    def uuid(self) -> str:
        return f"GPU-{uuid.UUID(self.info.uuid)}"

    @property
    def place(self) -> tuple[int, int, int]:
        """Domain, bus and device of its PCI address; zeros without one, as CUDA has it."""
        parts = self.info.address.partition(".")[0].split(":")
        try:
            domain, bus, device = (int(part, 16) for part in parts)
        except ValueError:
            return 0, 0, 0
        return domain, bus, device

    @property
    def bus_id(self) -> str:
        domain, bus, device = self.place
        return f"{domain:08X}:{bus:02X}:{device:02X}.0"


def states(address: str | None = None, *, measures: bool = True) -> list[GpuState]:
    """Asks all devices, or the one at `address`; `measures`: utilization, which takes a sixth of a second.

    :raise errors.VgcError: a device cannot be asked.
    """
    with _opened(address) as opened:
        before = {index: (time.monotonic_ns(), device.usage()) for index, device in opened.items()} if measures else {}
        if measures:
            time.sleep(PERIOD_S)
        return [_state(index, device, before.get(index)) for index, device in opened.items()]


def _state(index: int, device: Device, before: tuple[int, Usage] | None) -> GpuState:
    usage, now_ns = device.usage(), time.monotonic_ns()
    utilization = None
    if before is not None and before[1].generation == usage.generation:
        busy_ns = usage.busy_ns - before[1].busy_ns
        utilization = max(min(100 * busy_ns // max(now_ns - before[0], 1), 100), 0)
    return GpuState(index, device.info(), usage, device.limits(), device.processes(), utilization)


@contextmanager
def _opened(address: str | None) -> Iterator[dict[int, Device]]:
    """Devices by their index, open to be asked."""
    with ExitStack() as stack:
        yield {
            index: stack.enter_context(Device(index, address=place, look=True))
            for index, place in enumerate(_addresses())
            if address in (None, place)
        } or {0: stack.enter_context(Device(address=address, look=True))}


def _addresses() -> list[str | None]:
    """Addresses of the devices; None for those of ``$VGC_MEMFD``, where the index counts."""
    if described := os.environ.get("VGC_MEMFD"):
        return [None] * len(described.split(";"))
    return [found.address for found in devices()]


def name_of(pid: int) -> str:
    """Program of a process, as its command line has it; "[Not Found]" if it has ended. Processes choose their names: what a
    terminal would act on is a question mark.
    """
    try:
        name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode("ascii", errors="replace")
    except OSError:
        return "[Not Found]"
    return "".join(mark if mark.isprintable() and mark.isascii() else "?" for mark in name)
