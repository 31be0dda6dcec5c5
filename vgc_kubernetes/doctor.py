"""Check of what the device plugin needs on a node, with how to get what is missing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from control_center import daemon_link
from control_center.address import Address
from control_center.doctor import Finding
from control_center.errors import RefusedError
from vgc_kubernetes.kubelet_folders import KubeletFolders
from virtio_proto.control.verbs.status import HostStatus, Status

_MODULES: Final = {
    "grpc": "the kubelet's and KubeVirt's protocol",
    "google.protobuf": "its messages",
    "lxml": "domains, in the hook sidecar",
}


def examine(control: Address, folders: Path, kubelet: Path) -> Iterator[Finding]:
    """Makes all checks, in order. `folders`: folder of the VMs' sockets; `kubelet`: folder of the kubelet."""
    for module, use in _MODULES.items():
        hint = "pip install 'virtio-gpu-compute[kubernetes]'"
        yield Finding(f"Python module {module}", _has(module), f"for {use}", hint)
    yield Finding("root rights", os.geteuid() == 0, f"user {os.geteuid()}", "run the plugin as root")
    there = KubeletFolders(kubelet)
    for what, path in (("kubelet", there.registration), ("kubelet's list of pods", there.pod_resources)):
        text, hint = f"{path}", "start the kubelet, or name its folder with --kubelet"
        yield Finding(f"the {what}", path.is_socket(), text, hint)
    yield _daemon(control)
    parent = folders if folders.is_dir() else folders.parent
    hint = "systemd-tmpfiles --create vgcd.conf, which comes with the unit of vgcd, or name a folder with --folders"
    yield Finding("folder of sockets", parent.is_dir() and os.access(parent, os.W_OK), f"{folders}", hint)


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _daemon(control: Address) -> Finding:
    hint = "start vgcd with `control: {socket: ...}`, or name its socket with --control"
    try:
        status = asyncio.run(_status(control))
    except RefusedError as error:
        return Finding("vgcd", ok=False, text=error.text, hint=hint)
    gpus = ", ".join(
        f"{gpu['gpu']}: {gpu['pes'] - gpu['pes_allotted']} of {gpu['pes']} elements" for gpu in status["gpus"]
    )
    return Finding("vgcd", ok=True, text=f"{control}, free: {gpus}", hint=hint)


async def _status(control: Address) -> HostStatus:
    connection = await daemon_link.connect(control)
    try:
        status: HostStatus = await connection.ask(Status.Request())
    finally:
        await connection.close()
    return status
