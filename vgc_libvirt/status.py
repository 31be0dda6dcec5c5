"""Domains of libvirt beside the VMs of `vgcd`, as the daemon's control API shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from control_center import daemon_link
from control_center.address import Credentials, UnixAddress
from control_center.errors import RefusedError, UnreachableError
from vgc_libvirt.device import Device
from vgc_libvirt.domain import Domain
from virtio_proto.control.verbs.hosts import Topology

COLUMNS: Final = ("domain", "state", "vm", "socket", "region", "device", "problem")
_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class DomainState:
    definition: Domain
    is_running: bool


def vms_of_daemon(socket: Path | None) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """VMs by their names as the daemon tells them, and the reason why it does not; "" if it does."""
    if socket is None:
        return {}, "vgcd's configuration has no control.socket"
    try:
        return asyncio.run(_asked(socket)), ""
    except (RefusedError, UnreachableError) as error:
        return {}, error.text


async def _asked(socket: Path) -> dict[str, Mapping[str, Any]]:
    connection = await daemon_link.connect(UnixAddress(socket), Credentials(), lambda _push: None)
    try:
        answer = await connection.ask(Topology.Request())
    finally:
        await connection.close()
    return {vm["vm"]: vm for vm in answer["vms"]}


def rows(
    domains: Sequence[DomainState], devices: Sequence[Device], served: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, ...]]:
    """Rows of a table: each device of each domain, and then VMs that no domain has."""
    by_socket = {device.socket: device for device in devices}
    table, seen = [], set()
    for domain in domains:
        for found in domain.definition.devices():
            device = by_socket.get(found.socket) if found.socket is not None else None
            if device is not None:
                seen.add(device.vm)
            table.append(_row(domain, str(found.socket or _NONE), device, served))
    table += [_row(None, str(device.socket), device, served) for device in devices if device.vm not in seen]
    return table


def _row(
    domain: DomainState | None, socket: str, device: Device | None, served: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    vm = served.get(device.vm) if device is not None else None
    problem = ""
    if device is None:
        problem = "no VM of vgcd has this socket"
    elif vm is not None:
        problem = vm.get("problem") or vm.get("ring_problem") or ""
    elif served:
        problem = "vgcd does not serve the VM: vgcctl vm reload"
    return (
        domain.definition.name if domain is not None else _NONE,
        _NONE if domain is None else "running" if domain.is_running else "off",
        device.vm if device is not None else _NONE,
        socket,
        f"{device.region_bytes >> 20} MiB, {device.kind.value}" if device is not None else _NONE,
        f"{vm['state']}, generation {vm['generation']}" if vm is not None else _NONE,
        problem or _NONE,
    )


def table(found: Sequence[tuple[str, ...]]) -> str:
    """Table for people."""
    lines = [COLUMNS, *found]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )
