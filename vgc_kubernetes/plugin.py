"""The device plugin: two resources, each with a socket, that register with the kubelet whenever it starts.

`processing-elements` gives a container the folder of its VM; memory is only counted. [kubernetes: deviceplugin/v1beta1]
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc.aio
import structlog

from vgc_kubernetes import rpc, terms
from vgc_kubernetes.allocations import vm_name
from vgc_kubernetes.errors import KubeletError, RequestError
from vgc_kubernetes.kubelet import Kubelet
from vgc_kubernetes.protos import device_plugin_pb2
from vgc_kubernetes.protos.device_plugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    Mount,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from vgc_kubernetes.reconciler import Reconciler
from vgc_kubernetes.vms import Offer

log = structlog.get_logger()

LOOK_EVERY_S: Final = 1.0
"""Period of looking whether the kubelet has started again."""
MAX_DEVICES: Final = 16384
"""Most devices of a resource: the kubelet takes lists of at most 4 MiB."""
_SERVICE: Final = rpc.service_of(device_plugin_pb2.DESCRIPTOR, "DevicePlugin")


class ElementsPlugin:
    """Service of the resource `terms.ELEMENTS`."""

    resource = terms.ELEMENTS
    endpoint = "vgc-elements.sock"
    options = DevicePluginOptions(pre_start_required=True)

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    async def get_device_plugin_options(self, _request: Empty) -> DevicePluginOptions:
        return self.options

    async def list_and_watch(self, _request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        async for offer in self._reconciler.offer.watch():
            yield _listed("pe", offer.elements, offer)

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        """Names the folder of the container's VM, which `pre_start_container` makes.

        :raise RequestError: a container is given nothing, or its folder cannot be made.
        """
        containers = [self._allocated(frozenset(one.devices_ids)) for one in request.container_requests]
        return AllocateResponse(container_responses=containers)

    def _allocated(self, elements: frozenset[str]) -> ContainerAllocateResponse:
        if not elements:
            raise RequestError(f"a container is given none of {self.resource}; allowed: one at least")
        try:
            folder = self._reconciler.folders.make(vm_name(elements))
        except OSError as error:
            raise RequestError(f"no folder for the container's VM: {error}") from None
        shape = self._reconciler.terms.shape
        variables = {
            "VGC_SOCKET": str(terms.CONTAINER_FOLDER / terms.SOCKET),
            "VGC_REGION_BYTES": str(shape.region_bytes),
            "VGC_NUM_QUEUES": str(shape.num_queues),
        }
        mount = Mount(container_path=str(terms.CONTAINER_FOLDER), host_path=str(folder), read_only=True)
        return ContainerAllocateResponse(envs=variables, mounts=[mount])

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        """Makes the container's VM.

        :raise RequestError: there is no VM for it.
        """
        await self._reconciler.prepare(frozenset(request.devices_ids))
        return PreStartContainerResponse()


class MemoryPlugin:
    """Service of the resource of device memory, which counts units and gives containers nothing to see."""

    endpoint = "vgc-memory.sock"
    options = DevicePluginOptions()

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self.resource = reconciler.terms.memory_resource

    async def get_device_plugin_options(self, _request: Empty) -> DevicePluginOptions:
        return self.options

    async def list_and_watch(self, _request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        async for offer in self._reconciler.offer.watch():
            yield _listed("unit", offer.memory_bytes // self._reconciler.terms.memory_unit_bytes, offer)

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        return AllocateResponse(container_responses=[ContainerAllocateResponse() for _ in request.container_requests])

    async def pre_start_container(self, _request: PreStartContainerRequest) -> PreStartContainerResponse:
        return PreStartContainerResponse()


def _listed(kind: str, count: int, offer: Offer) -> ListAndWatchResponse:
    if count > MAX_DEVICES:
        log.warning("too_many_devices", kind=kind, count=count, published=MAX_DEVICES)
    health = "Healthy" if offer.is_served else "Unhealthy"
    return ListAndWatchResponse(
        devices=[Device(ID=f"{kind}-{index}", health=health) for index in range(min(count, MAX_DEVICES))]
    )


@dataclass(frozen=True, slots=True)
class _Served:
    server: grpc.aio.Server
    socket: Path


class Plugin:
    """Serves both resources to a kubelet, and to the next one that takes its place."""

    def __init__(self, reconciler: Reconciler, kubelet: Kubelet) -> None:
        self._reconciler = reconciler
        self._kubelet = kubelet
        self._services = (ElementsPlugin(reconciler), MemoryPlugin(reconciler))
        self._served: list[_Served] = []
        self._problem = ""
        """Reason why the last registration failed, which is logged once."""

    async def run(self) -> None:
        """Registers with each kubelet that comes, until cancelled.

        It waits until it knows what the host has: a kubelet that starts checks its pods' devices against the first list.
        """
        known: tuple[int, int, int] | None = None
        try:
            while True:
                present = self._kubelet.identity() if self._reconciler.has_offer else None
                if present is not None and (present != known or not self._is_served()):
                    known = present if await self._register() else None
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await self._stop()

    def _is_served(self) -> bool:
        return bool(self._served) and all(one.socket.exists() for one in self._served)

    async def _register(self) -> bool:
        """Serves anew, since a kubelet that starts has removed the sockets, and registers; False: not now."""
        await self._stop()
        try:
            for service in self._services:
                socket = self._kubelet.folders.plugins / service.endpoint
                served = _Served(rpc.server(socket, {_SERVICE: service}), socket)
                self._served.append(served)
                await served.server.start()
                await self._kubelet.register(socket.name, service.resource, service.options)
        except (KubeletError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("registration_failed", reason=self._problem)
            return False
        self._problem = ""
        log.info("registered", resources=[service.resource for service in self._services])
        return True

    async def _stop(self) -> None:
        for one in self._served:
            await one.server.stop(None)
            with contextlib.suppress(OSError):
                one.socket.unlink()
        self._served.clear()
