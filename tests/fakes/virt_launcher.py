"""virt-launcher's side of hook sidecars, after kubevirt's pkg/hooks/manager.go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import grpc

from tests.limits import ANSWERS_WITHIN_S
from tests.waiting import until
from vgc_kubernetes.protos import hook_callbacks_pb2 as callbacks
from vgc_kubernetes.protos import hook_info_pb2 as info

DOMAIN: Final = (Path(__file__).parent / "kubevirt_domain.xml").read_bytes()
"""A domain in the manner of virt-launcher."""

SUPPORTED: Final = ("v1alpha3", "v1alpha2", "v1alpha1")
"""Versions of the calls, the newest first, of which it takes the first that a sidecar has."""


def vmi(limits: Mapping[str, str | int] | None = None, **domain: Any) -> bytes:
    """A VirtualMachineInstance whose `spec.domain.resources` has these limits."""
    resources = {} if limits is None else {"resources": {"limits": dict(limits)}}
    metadata = {"name": "vm1", "namespace": "default", "annotations": {"hooks.kubevirt.io/hookSidecars": "[]"}}
    return json.dumps({"metadata": metadata, "spec": {"domain": {"devices": {}, **resources, **domain}}}).encode()


class FakeVirtLauncher:
    """Finds the one sidecar in a folder, and asks what it offers. A context manager."""

    def __init__(self, folder: Path) -> None:
        socket = until(lambda: next(iter(folder.glob("*")), None))
        self._channel = grpc.insecure_channel(f"unix:{socket}")
        answer = self._call("kubevirt.hooks.info.Info/Info", info.InfoParams(), info.InfoResult)
        self.name: str = answer.name
        self.points = {point.name for point in answer.hookPoints}
        self.version = next(version for version in SUPPORTED if version in answer.versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._channel.close()

    def define(self, domain: bytes, instance: bytes) -> bytes:
        """Has the sidecar change a domain, if it offers to.

        :raise grpc.RpcError: it refuses.
        """
        if "OnDefineDomain" not in self.points:
            return domain
        request = callbacks.OnDefineDomainParams(domainXML=domain, vmi=instance)
        changed: bytes = self._callback("OnDefineDomain", request, callbacks.OnDefineDomainResult).domainXML
        return changed

    def cloud_init(self, data: bytes) -> bytes:
        """Has the sidecar change cloud-init's data, whether it offers to or not."""
        request = callbacks.PreCloudInitIsoParams(cloudInitData=data)
        changed: bytes = self._callback("PreCloudInitIso", request, callbacks.PreCloudInitIsoResult).cloudInitData
        return changed

    def shut_down(self) -> None:
        """Tells the sidecar that the virtual machine has ended, if it wants to know."""
        if "Shutdown" in self.points:
            self._callback("Shutdown", callbacks.ShutdownParams(), callbacks.ShutdownResult)

    def _callback(self, method: str, request: Any, answer: Any) -> Any:
        return self._call(f"kubevirt.hooks.{self.version}.Callbacks/{method}", request, answer)

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        call: grpc.UnaryUnaryMultiCallable[Any, Any] = self._channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=ANSWERS_WITHIN_S, wait_for_ready=True)
