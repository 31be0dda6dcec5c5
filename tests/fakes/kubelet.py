"""A kubelet, as far as device plugins see it: registration, lists of devices, allocation, start of containers.

It follows kubernetes' pkg/kubelet/cm/devicemanager: a container's resources are allocated one after the other, devices are
free again once their pod is gone, of which no plugin is told, and a kubelet that starts again has its pods still, but no
plugins, whose sockets it removes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.limits import ANSWERS_WITHIN_S
from vgc_kubernetes.protos import device_plugin_pb2 as api
from vgc_kubernetes.protos import pod_resources_pb2 as listing

HEALTHY: Final = "Healthy"
NAMESPACE: Final = "default"


@dataclass
class Plugin:
    """A registered plugin: its socket's channel, and what it has published last."""

    channel: grpc.Channel
    options: api.DevicePluginOptions
    devices: dict[str, str] = field(default_factory=dict)
    """Health of each device."""


@dataclass
class FakePod:
    """A pod with one container. `answers` are those of its allocations, by resource."""

    name: str
    devices: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, api.ContainerAllocateResponse] = field(default_factory=dict)

    def mount(self) -> api.Mount:
        (mount,) = [mount for answer in self.answers.values() for mount in answer.mounts]
        return mount

    def variables(self) -> dict[str, str]:
        return {name: value for answer in self.answers.values() for name, value in answer.envs.items()}


class FakeKubelet:
    """Owns the kubelet's folder. A context manager that serves until its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: dict[str, FakePod] = {}
        self.registrations = 0
        self.first_lists: list[int] = []
        """Number of devices in the first list of each plugin that has registered."""
        self._plugins: dict[str, Plugin] = {}
        self._changed = threading.Condition()
        (folder / "device-plugins").mkdir(parents=True)
        (folder / "pod-resources").mkdir()

    # ---- its life --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        plugins = self.folder / "device-plugins"
        for path in plugins.iterdir():
            path.unlink()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4))
        self._serve(api.DESCRIPTOR, "Registration", {"Register": self._register})
        self._serve(listing.DESCRIPTOR, "PodResourcesLister", {"List": self._list})
        for path in (plugins, self.folder / "pod-resources"):
            self._server.add_insecure_port(f"unix:{path}/kubelet.sock")
        self._server.start()

    def stop(self) -> None:
        """Ends the kubelet; pods go on."""
        self._server.stop(None).wait(ANSWERS_WITHIN_S)
        with self._changed:
            plugins, self._plugins = self._plugins, {}
        for plugin in plugins.values():
            plugin.channel.close()

    def restart(self) -> None:
        self.stop()
        self._start()

    def _serve(self, file: Any, name: str, methods: Mapping[str, Any]) -> None:
        service = file.services_by_name[name]
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            method: grpc.unary_unary_rpc_method_handler(
                answer,
                GetMessageClass(service.methods_by_name[method].input_type).FromString,
                lambda message: message.SerializeToString(),
            )
            for method, answer in methods.items()
        }
        generic = grpc.method_handlers_generic_handler(service.full_name, handlers)
        self._server.add_generic_rpc_handlers((generic,))

    # ---- its services ----------------------------------------------------------------------------

    def _register(self, request: api.RegisterRequest, _context: grpc.ServicerContext) -> api.Empty:
        assert request.version == "v1beta1"
        channel = grpc.insecure_channel(f"unix:{self.folder}/device-plugins/{request.endpoint}")
        plugin = Plugin(channel, request.options)
        threading.Thread(target=self._watch, args=(plugin,), name="list and watch", daemon=True).start()
        with self._changed:
            self._plugins[request.resource_name] = plugin
            self.registrations += 1
            self._changed.notify_all()
        return api.Empty()

    def _watch(self, plugin: Plugin) -> None:
        stream = plugin.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=api.Empty.SerializeToString,
            response_deserializer=api.ListAndWatchResponse.FromString,
        )
        try:
            for number, answer in enumerate(stream(api.Empty())):
                with self._changed:
                    self.first_lists += [len(answer.devices)] if number == 0 else []
                    plugin.devices = {device.ID: device.health for device in answer.devices}
                    self._changed.notify_all()
        except (grpc.RpcError, ValueError):  # ValueError: the channel was closed before
            with self._changed:
                plugin.devices = dict.fromkeys(plugin.devices, "Unhealthy")
                self._changed.notify_all()

    def _list(
        self, _request: listing.ListPodResourcesRequest, _context: grpc.ServicerContext
    ) -> listing.ListPodResourcesResponse:
        pods = [
            listing.PodResources(
                name=pod.name,
                namespace=NAMESPACE,
                containers=[
                    listing.ContainerResources(
                        name="compute",
                        devices=[  # the kubelet lists devices of one resource apart
                            listing.ContainerDevices(resource_name=resource, device_ids=[device])
                            for resource, devices in pod.devices.items()
                            for device in devices
                        ],
                    )
                ],
            )
            for pod in list(self.pods.values())
        ]
        return listing.ListPodResourcesResponse(pod_resources=pods)

    # ---- what it does with pods ------------------------------------------------------------------

    def wait_healthy(self, resource: str, count: int) -> None:
        """Waits until a plugin publishes just as many healthy devices."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._healthy(resource)) == count, ANSWERS_WITHIN_S), (
                f"{resource}: {self._healthy(resource)}"
            )

    def healthy(self, resource: str, at_least: int = 1) -> list[str]:
        """Healthy devices, once there are some."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._healthy(resource)) >= at_least, ANSWERS_WITHIN_S), resource
            return self._healthy(resource)

    def wait_registrations(self, count: int, within_s: float = ANSWERS_WITHIN_S) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.registrations >= count, within_s)

    def _healthy(self, resource: str) -> list[str]:
        plugin = self._plugins.get(resource)
        return [] if plugin is None else [name for name, health in plugin.devices.items() if health == HEALTHY]

    def admit(self, name: str, limits: Mapping[str, int]) -> FakePod:
        """Allocates a pod's devices, as if the scheduler had chosen this node.

        :raise grpc.RpcError: a plugin refuses.
        """
        pod = FakePod(name)
        for resource, count in limits.items():
            used = {one for other in self.pods.values() for one in other.devices.get(resource, ())}
            free = [one for one in self.healthy(resource) if one not in used]
            assert len(free) >= count, f"{resource}: {count} are wanted, {len(free)} are free"
            given = free[:count]
            container = api.ContainerAllocateRequest(devices_ids=given)
            request = api.AllocateRequest(container_requests=[container])
            answer = self._call(resource, "Allocate", request, api.AllocateResponse)
            pod.answers[resource] = answer.container_responses[0]
            pod.devices[resource] = given
        self.pods[name] = pod
        return pod

    def start_container(self, name: str) -> None:
        """Has plugins prepare the start of a pod's container.

        :raise grpc.RpcError: a plugin refuses.
        """
        for resource, devices in self.pods[name].devices.items():
            if self._plugins[resource].options.pre_start_required:
                self.prepare(resource, devices)

    def prepare(self, resource: str, devices: Iterable[str]) -> None:
        """:raise grpc.RpcError: the plugin refuses."""
        request = api.PreStartContainerRequest(devices_ids=list(devices))
        self._call(resource, "PreStartContainer", request, api.PreStartContainerResponse)

    def run(self, name: str, limits: Mapping[str, int]) -> FakePod:
        """Admits a pod and starts its container."""
        pod = self.admit(name, limits)
        self.start_container(name)
        return pod

    def delete(self, name: str) -> None:
        """Lets a pod end. No plugin is told."""
        del self.pods[name]

    def options(self, resource: str) -> Any:
        """Options that a plugin tells when it is asked for them."""
        return self._call(resource, "GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions)

    def _call(self, resource: str, method: str, request: Message, answer: type[Message]) -> Any:
        call: grpc.UnaryUnaryMultiCallable[Any, Any] = self._plugins[resource].channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=ANSWERS_WITHIN_S)
