"""Devices of running domains: adding and removing them by QEMU's own protocol, through libvirt.

libvirt does not know of these devices. A domain that starts again has those of its definition.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from vgc_libvirt.device import Device
from vgc_libvirt.errors import LibvirtError

UNPLUG_S: Final = 60.0
"""Time that a guest has to let go of a device."""

_LOOK_S: Final = 0.1
_DEVICES: Final = "/machine/peripheral"
_OBJECTS: Final = "/objects"
_CHARDEVS: Final = "/chardevs"
_IVSHMEM: Final = (0x1AF4, 0x1110)
_REGION_BAR: Final = 2
_RESERVE: Final = "<qemu:arg value='-global'/><qemu:arg value='pcie-root-port.pref64-reserve={}M'/>"


class Monitor(Protocol):
    """Way to QEMU of a running domain."""

    def qmp(self, name: str, command: str, **arguments: Any) -> Any:
        """Runs a command of QEMU's.

        :raise LibvirtError: QEMU refuses.
        """


@dataclass(frozen=True, slots=True)
class Port:
    """PCIe root port into which nothing is plugged."""

    name: str
    window_bytes: int
    """Room for prefetchable memory that the firmware has reserved behind it."""


def attach(monitor: Monitor, name: str, device: Device) -> None:
    """Plugs region and device into the running domain `name`; undoes what it has done if a step fails.

    :raise LibvirtError: the domain has no place for them, or QEMU refuses a step.
    """
    if {device.id, device.region_id} & _plugged(monitor, name):
        raise LibvirtError(f"{name} has the device of VM {device.vm} already")
    buses = _buses(monitor, name, device)
    address = {"type": "unix", "data": {"path": str(device.socket)}}
    with contextlib.ExitStack() as undo:
        monitor.qmp(name, "object-add", **device.memory())
        undo.callback(_quietly, _remove_region, monitor, name, device)
        monitor.qmp(
            name, "chardev-add", id=device.id, backend={"type": "socket", "data": {"addr": address, "server": False}}
        )
        undo.callback(_quietly, _remove_socket, monitor, name, device)
        monitor.qmp(name, "device_add", **device.region(), **buses[0])
        undo.callback(_quietly, _unplug, monitor, name, device.region_id)
        monitor.qmp(name, "device_add", **device.device(), **buses[1])
        undo.pop_all()


def detach(monitor: Monitor, name: str, device: Device) -> None:
    """Takes device and region out of the running domain `name`, with the guest's consent.

    :raise LibvirtError: the domain has no such device, or the guest does not let go of it in time.
    """
    if not {device.id, device.region_id} & (_plugged(monitor, name) | _there(monitor, name, _OBJECTS)):
        raise LibvirtError(f"{name} has no device of VM {device.vm}; its definition is another matter (without --live)")
    _unplug(monitor, name, device.id)
    _remove_socket(monitor, name, device)
    _unplug(monitor, name, device.region_id)
    _remove_region(monitor, name, device)


def _plugged(monitor: Monitor, name: str) -> set[str]:
    """Ids of the domain's devices."""
    return _there(monitor, name, _DEVICES)


def _there(monitor: Monitor, name: str, path: str) -> set[str]:
    """Ids of what a part of QEMU's object tree has."""
    return {entry["name"] for entry in monitor.qmp(name, "qom-list", path=path)}


def _remove_socket(monitor: Monitor, name: str, device: Device) -> None:
    _remove(monitor, name, "chardev-remove", _CHARDEVS, device.id)


def _remove_region(monitor: Monitor, name: str, device: Device) -> None:
    _remove(monitor, name, "object-del", _OBJECTS, device.region_id)


def _remove(monitor: Monitor, name: str, command: str, path: str, identity: str) -> None:
    """Removes what a device has used, once QEMU lets go of it: that is a little later than the device goes.

    :raise LibvirtError: QEMU goes on refusing.
    """
    end = time.monotonic() + UNPLUG_S
    while identity in _there(monitor, name, path):
        try:
            monitor.qmp(name, command, id=identity)
        except LibvirtError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_S)


def _quietly(step: Callable[..., None], *arguments: Any) -> None:
    """Takes a step back: the error that has led to it is the one to be told."""
    with contextlib.suppress(LibvirtError):
        step(*arguments)


def _unplug(monitor: Monitor, name: str, identity: str) -> None:
    if identity not in _plugged(monitor, name):
        return
    monitor.qmp(name, "device_del", id=identity)
    end = time.monotonic() + UNPLUG_S
    while identity in _plugged(monitor, name):
        if time.monotonic() > end:
            raise LibvirtError(
                f"the guest of {name} has not let go of {identity} within {UNPLUG_S:.0f} s; allowed: a guest that runs, and whose kernel"
                " has PCI hot-plug. QEMU goes on asking: the same command finishes this later"
            )
        time.sleep(_LOOK_S)


# ---- places ------------------------------------------------------------------------------------


def _buses(monitor: Monitor, name: str, device: Device) -> list[dict[str, str]]:
    """Places of region and device, as properties for ``device_add``.

    :raise LibvirtError: a place is missing, or the guest would take another device's region for this one's.
    """
    pci = monitor.qmp(name, "query-pci")
    if device.region_bytes in set(_region_sizes(pci)):
        raise LibvirtError(
            f"{name} has a region of {device.region_bytes >> 20} MiB already; allowed for a running domain: a region of a size that no other"
            " has, as the guest takes regions of one size in the order of their addresses"
        )
    machine = str(monitor.qmp(name, "qom-get", path="/machine", property="type"))
    if "q35" not in machine:
        return [{"bus": "pci.0"}, {"bus": "pci.0"}]
    free = ports(pci)
    wide = [port for port in free if port.window_bytes >= device.region_bytes]
    if not wide or len(free) < 2:
        shown = ", ".join(f"{port.name} ({port.window_bytes >> 20} MiB)" for port in free) or "none"
        raise LibvirtError(
            f"{name} is a q35 machine and has no two free root ports, one of them with room for {device.region_bytes >> 20} MiB; free: {shown}. A"
            f" definition with {_RESERVE.format(device.region_bytes >> 20)} and further <controller type='pci' model='pcie-root-port'/>"
            " has them from the next start on"
        )
    region = wide[0]
    return [{"bus": region.name}, {"bus": next(port.name for port in free if port is not region)}]


def ports(pci: Sequence[dict[str, Any]]) -> list[Port]:
    """Free root ports in what QEMU answers to ``query-pci``."""
    found = []
    for one in (one for bus in pci for one in bus["devices"]):
        bridge = one.get("pci_bridge")
        if bridge is None or bridge.get("devices") or not one.get("qdev_id"):
            continue
        window = bridge["bus"]["prefetchable_range"]
        found.append(Port(one["qdev_id"], max(0, window["limit"] - window["base"] + 1)))
    return found


def _region_sizes(pci: Sequence[dict[str, Any]]) -> Iterator[int]:
    """Sizes of the regions that ivshmem devices show."""
    for one in _devices(pci):
        if (one["id"]["vendor"], one["id"]["device"]) == _IVSHMEM:
            yield from (bar["size"] for bar in one["regions"] if bar["bar"] == _REGION_BAR)


def _devices(pci: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Devices of all buses."""
    for bus in pci:
        for one in bus["devices"]:
            yield one
            bridge = one.get("pci_bridge", {})
            yield from _devices([{"devices": bridge.get("devices", [])}])
