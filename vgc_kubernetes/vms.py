"""VMs of the host's ``vgcd``, by its control API: what the plugin adds, removes and counts there.

Each use makes a connection, so a daemon that was replaced in between is nothing special.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from control_center import daemon_link
from control_center.address import Address
from control_center.errors import RefusedError
from vgc_kubernetes.allocations import is_own
from vgc_kubernetes.errors import RequestError
from vgc_kubernetes.terms import DeviceShape
from virtio_proto.control.verbs.hosts import Topology
from virtio_proto.control.verbs.status import HostStatus, Status
from virtio_proto.control.verbs.vms import AddVm, LimitFigures, RemoveVm, ShowLimits

Engine: TypeAlias = Literal["cpu", "cuda"]
_GONE_S: Final = 5.0
"""Time that a VM which is cut off has to leave."""
_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Offer:
    """Processing elements and memory that the host has for pods, those that run included."""

    elements: int
    memory_bytes: int
    is_served: bool = True
    """False: ``vgcd`` does not answer, and no pod can be given anything."""


@dataclass(frozen=True, slots=True)
class OwnVm:
    """VM that the plugin has added."""

    name: str
    elements: int
    memory_bytes: int
    is_leaving: bool = False
    is_left_out: bool = False
    """True: ``vgcd`` could not serve it after a restart, and only knows its name."""


@contextlib.asynccontextmanager
async def connected(address: Address, shape: DeviceShape, engine: Engine) -> AsyncIterator[Vms]:
    """Connects to the daemon.

    :raise UnreachableError: no daemon of this version answers.
    """
    connection = await daemon_link.connect(address)
    try:
        yield Vms(connection, shape, engine)
    finally:
        await connection.close()


class Vms:
    """VMs of a daemon; those that are added compute on `engine`, with devices of this shape."""

    def __init__(self, connection: daemon_link.Connection, shape: DeviceShape, engine: Engine) -> None:
        self._connection = connection
        self._shape = shape
        self._engine = engine

    async def own(self) -> dict[str, OwnVm]:
        """VMs that the plugin has added, by name.

        :raise RefusedError: the daemon refuses.
        """
        found = {}
        topology = await self._connection.ask(Topology.Request())
        for vm in topology["vms"]:
            name, origin = vm["vm"], vm.get("origin")
            if is_own(name) and origin in ("added", "persisted", "leaving"):
                limits = await self._limits(name)
                if limits is not None:
                    is_leaving = origin == "leaving"
                    found[name] = OwnVm(name, limits["pes"] or 0, limits["memory_bytes"], is_leaving=is_leaving)
        left_out = (await self._status()).get("left_out", {})
        return found | {name: OwnVm(name, 0, 0, is_left_out=True) for name in left_out if is_own(name)}

    async def offer(self, own: Mapping[str, OwnVm]) -> Offer:
        """Processing elements and memory of the host, without what VMs of others are allotted.

        :raise RefusedError: the daemon refuses.
        """
        topology = await self._connection.ask(Topology.Request())
        status = await self._status()
        chosen = {gpu["gpu"] for gpu in topology["gpus"] if gpu["kind"] == self._engine}
        gpus = [gpu for gpu in status["gpus"] if gpu["gpu"] in chosen]
        counted = [vm for vm in own.values() if vm.name not in status["undecided"]]
        free = sum(gpu["pes"] - gpu["pes_allotted"] for gpu in gpus)
        elements = max(0, free + sum(vm.elements for vm in counted))
        memory = sum(vm.memory_bytes for vm in counted)
        if self._engine == "cuda":
            memory += sum(gpu["memory_bytes"] - gpu["memory_allotted_bytes"] for gpu in gpus)
        else:  # regions count, too: there may be as many VMs as elements
            memory += status["memory_bytes"] - status["memory_allotted_bytes"]
            memory -= (elements - len(counted)) * self._shape.region_bytes
        return Offer(elements, max(0, memory))

    async def add(self, name: str, socket: Path, elements: int, memory_bytes: int) -> None:
        """Serves one VM more, also after a restart of the daemon.

        :raise RequestError: the daemon refuses, say because the host has no room; with its reason.
        """
        request = AddVm.Request(
            vm=name,
            socket=str(socket),
            engine=self._engine,
            pes=elements,
            memory=f"{memory_bytes >> 20}M",
            region=f"{self._shape.region_bytes >> 20}M",
            num_queues=self._shape.num_queues,
            persist=True,
        )
        with _as_request_error(f"vgcd does not serve a VM with {elements} elements"):
            await self._connection.ask(request)

    async def remove(self, name: str, *, now: bool) -> None:
        """Serves a VM no more once its QEMU has ended; with `now`, ends its device and waits until it has gone.

        :raise RequestError: the daemon refuses, or the VM is not gone after some seconds.
        """
        with _as_request_error(f"vgcd does not remove VM {name}"):
            await self._connection.ask(RemoveVm.Request(vm=name, now=now))
            if now and not await self._has_gone(name):
                raise RequestError(f"VM {name} has not left vgcd within {_GONE_S:g} s; allowed: to try again")

    async def _limits(self, name: str) -> LimitFigures | None:
        """Limits of a VM; None: it has left meanwhile."""
        try:
            limits: LimitFigures = (await self._connection.ask(ShowLimits.Request(vm=name)))["configured"]
        except RefusedError as error:
            if error.kind != "unknown":
                raise
            return None
        return limits

    async def _has_gone(self, name: str) -> bool:
        for _ in range(int(_GONE_S / _LOOK_EVERY_S)):
            topology = await self._connection.ask(Topology.Request())
            if all(vm["vm"] != name for vm in topology["vms"]):
                return True
            await asyncio.sleep(_LOOK_EVERY_S)
        return False

    async def _status(self) -> HostStatus:
        status: HostStatus = await self._connection.ask(Status.Request())
        return status


@contextlib.contextmanager
def _as_request_error(what: str) -> Any:
    try:
        yield
    except RefusedError as error:
        raise RequestError(f"{what}: {error.text}") from None
