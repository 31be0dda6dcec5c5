"""KubeVirt's hook sidecar: adds the device to the domain of a virtual machine that is about to start.

virt-launcher finds the sidecar's socket, asks what it offers, and has it change the domain. [kubevirt: hooks/v1alpha3]
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import structlog

from vgc_kubernetes import rpc, vmi
from vgc_kubernetes.domain import with_device
from vgc_kubernetes.errors import RequestError, SetupError
from vgc_kubernetes.protos import hook_callbacks_pb2, hook_info_pb2
from vgc_kubernetes.protos.hook_callbacks_pb2 import (
    OnDefineDomainParams,
    OnDefineDomainResult,
    PreCloudInitIsoParams,
    PreCloudInitIsoResult,
    ShutdownParams,
    ShutdownResult,
)
from vgc_kubernetes.protos.hook_info_pb2 import HookPoint, InfoParams, InfoResult
from vgc_kubernetes.terms import DeviceShape

log = structlog.get_logger()

FOLDER: Final = Path("/var/run/kubevirt-hooks")
"""Folder in which virt-launcher looks for sidecars' sockets."""
NAME: Final = "vgc"
VERSION: Final = "v1alpha3"
_INFO: Final = rpc.service_of(hook_info_pb2.DESCRIPTOR, "Info")
_CALLBACKS: Final = rpc.service_of(hook_callbacks_pb2.DESCRIPTOR, "Callbacks")


def define_domain(instance: bytes, domain: bytes, shape: DeviceShape) -> bytes:
    """Adds the device to the domain of a VirtualMachineInstance that asks for it.

    :raise RequestError: it does not ask for it, or one of the two is malformed.
    """
    name = vmi.check(instance)
    changed = with_device(domain, shape)
    log.info("device_added", vmi=name, region_bytes=shape.region_bytes, num_queues=shape.num_queues)
    return changed


class _Info:
    """Service that says which calls the sidecar takes."""

    async def info(self, _request: InfoParams) -> InfoResult:
        points = [HookPoint(name="OnDefineDomain"), HookPoint(name="Shutdown")]
        return InfoResult(name=NAME, versions=[VERSION], hookPoints=points)


class _Callbacks:
    """Service of the calls."""

    def __init__(self, shape: DeviceShape, ended: asyncio.Event) -> None:
        self._shape = shape
        self._ended = ended

    async def on_define_domain(self, request: OnDefineDomainParams) -> OnDefineDomainResult:
        try:
            changed = define_domain(request.vmi, request.domainXML, self._shape)
        except RequestError as error:
            log.warning("domain_refused", reason=str(error))
            raise
        return OnDefineDomainResult(domainXML=changed)

    async def pre_cloud_init_iso(self, request: PreCloudInitIsoParams) -> PreCloudInitIsoResult:
        """Changes nothing; `_Info` does not offer it."""
        return PreCloudInitIsoResult(
            cloudInitNoCloudSource=request.cloudInitNoCloudSource, cloudInitData=request.cloudInitData
        )

    async def shutdown(self, _request: ShutdownParams) -> ShutdownResult:
        self._ended.set()
        return ShutdownResult()


async def serve(folder: Path, shape: DeviceShape, ended: asyncio.Event) -> None:
    """Serves virt-launcher at a socket in `folder` until it says that the virtual machine has ended, or `ended` is set.

    :raise SetupError: no socket can be made in it.
    """
    path = folder / f"{NAME}-{os.getpid()}.sock"
    try:
        server = rpc.server(path, {_INFO: _Info(), _CALLBACKS: _Callbacks(shape, ended)})
    except OSError as error:
        raise SetupError(str(error)) from None
    await server.start()
    log.info("serving", socket=str(path))
    await ended.wait()
    await server.stop(rpc.CALL_S)
    path.unlink(missing_ok=True)
