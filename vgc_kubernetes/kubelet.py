"""The kubelet's own services: registration of plugins, and the list of devices that containers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import grpc

from vgc_kubernetes import rpc
from vgc_kubernetes.errors import KubeletError
from vgc_kubernetes.kubelet_folders import KubeletFolders
from vgc_kubernetes.protos import device_plugin_pb2, pod_resources_pb2
from vgc_kubernetes.protos.device_plugin_pb2 import DevicePluginOptions, RegisterRequest
from vgc_kubernetes.protos.pod_resources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse

API_VERSION: Final = "v1beta1"
_REGISTRATION: Final = rpc.service_of(device_plugin_pb2.DESCRIPTOR, "Registration")
_LISTER: Final = rpc.service_of(pod_resources_pb2.DESCRIPTOR, "PodResourcesLister")


@dataclass(frozen=True, slots=True)
class Kubelet:
    """A node's kubelet."""

    folders: KubeletFolders

    def identity(self) -> tuple[int, int, int] | None:
        """Identity of the running kubelet, which changes when it starts again; None: its socket is not there."""
        try:
            found = self.folders.registration.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_ctime_ns

    async def register(self, endpoint: str, resource: str, options: DevicePluginOptions) -> None:
        """Registers a resource, whose plugin serves at the socket `endpoint` of `KubeletFolders.plugins`.

        :raise KubeletError: the kubelet does not answer, or refuses.
        """
        request = RegisterRequest(version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options)
        try:
            await rpc.call(self.folders.registration, _REGISTRATION, "Register", request)
        except grpc.RpcError as error:
            raise KubeletError(f"the kubelet does not register {resource}: {_text(error)}") from None

    async def pods(self) -> ListPodResourcesResponse:
        """Devices of all containers of the node's active pods.

        :raise KubeletError: the kubelet does not answer.
        """
        try:
            answer: ListPodResourcesResponse = await rpc.call(
                self.folders.pod_resources, _LISTER, "List", ListPodResourcesRequest()
            )
        except grpc.RpcError as error:
            raise KubeletError(f"the kubelet does not list its pods' devices: {_text(error)}") from None
        return answer


def _text(error: grpc.RpcError) -> str:
    return error.details() or str(error.code()) if isinstance(error, grpc.aio.AioRpcError) else str(error)
