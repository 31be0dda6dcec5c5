"""What somebody may see of a host: ``GET /api/v1/hosts`` and the stream's ``host`` messages."""

from __future__ import annotations

from typing import TypedDict

from control_center.host import Host, State
from control_center.scope import Scope
from virtio_proto.control.api import GpuInfo, VmInfo


class HostInfo(TypedDict):
    """A registered host. What is said of one that is not *up* is what was last known."""

    host: str
    url: str
    """Where its daemon is."""
    state: State
    """up: answers; stale: has not for a few seconds; down: does not."""
    since_ns: int
    """When it came to that state."""
    reason: str
    """Why it is not up."""
    labels: dict[str, str]
    daemon: str
    """The daemon's version."""
    gpus: list[GpuInfo]
    vms: list[VmInfo]


def host_info(host: Host, scope: Scope) -> HostInfo:
    """The host with the VMs that there are for `scope`, and the GPUs that these run on."""
    vms = [vm for name, vm in host.vms.items() if scope.sees(host.name, name)]
    used = {vm["gpu"] for vm in vms}
    return {
        "host": host.name,
        "url": str(host.config.address),
        "state": host.state,
        "since_ns": host.since_ns,
        "reason": "" if host.state == "up" else host.reason,
        "labels": dict(host.config.labels),
        "daemon": host.daemon,
        "gpus": [gpu for gpu in host.gpus if scope.is_all or gpu["gpu"] in used],
        "vms": vms,
    }
