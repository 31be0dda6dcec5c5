"""View of a host for a caller: ``GET /api/v1/hosts`` and the stream's ``host`` messages."""

from __future__ import annotations

from control_center.host import Host
from control_center.scope import Scope
from virtio_proto.control.api import HostInfo


def host_info(host: Host, scope: Scope) -> HostInfo:
    """View of a host with the VMs in `scope`, and the GPUs that these run on."""
    vms = [vm for name, vm in host.vms.items() if scope.sees(host.name, name)]
    used = {vm["gpu"] for vm in vms}
    info: HostInfo = {
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
    if host.clock_skew_ns is not None:
        info["clock_skew_ns"] = host.clock_skew_ns
    if host.told_ns is not None:
        info["told_ns"] = host.told_ns
    return info
