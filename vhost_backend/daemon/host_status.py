"""Resources of a host and their allotment to VMs: the figures of the verb status."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from vhost_backend.cgroups.group import Cgroup
from vhost_backend.config.daemon import VmConfig
from vhost_backend.control.links.vm_port import HostResources
from vhost_backend.daemon.capacity import Capacity, Share
from virtio_proto.control.api import GpuInfo
from virtio_proto.control.verbs.status import GpuAllotment

_SOFTWARE: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Ground:
    """Resources that the daemon found on its host when it started."""

    cores: int
    """Processors that the daemon may use."""
    memory_bytes: int
    cgroup_version: int = 0
    """0: VMs have no control groups."""
    no_cgroups: str = ""
    """Reason why the host has no control groups; "" if it has, or they are off."""

    @classmethod
    def of_host(cls, home: Cgroup | None = None, no_home: str = "") -> Self:
        """`home`: the daemon's control group; None: it has none, because of `no_home`."""
        version = 0 if home is None else home.version
        return cls(len(os.sched_getaffinity(0)), Capacity.of_host().memory_bytes, version, no_home)


def resources(ground: Ground, shares: Sequence[Share], gpus: Iterable[GpuInfo], *, overcommit: bool) -> HostResources:
    """Sums of what VMs may use, by what they use it of. `shares`: VMs as configured, with the GPUs that they have."""
    on_host = [share.vm for share in shares if share.uses_cores]
    found = []
    for gpu in gpus:
        if gpu["kind"] == _SOFTWARE:
            found.append(_allotment(gpu["gpu"], on_host, ground.cores, ground.memory_bytes))
        else:
            there = [share.vm for share in shares if share.gpu is not None and share.gpu.uuid == gpu["uuid"]]
            found.append(_allotment(gpu["gpu"], there, gpu["pes"], gpu["memory_bytes"]))
    undecided = (s.vm.name for s in shares if s.gpu is None and not s.uses_cores and s.vm.engine.kind != "null")
    regions = sum(share.vm.region_bytes for share in shares)
    return HostResources(
        gpus=tuple(found),
        undecided=tuple(undecided),
        memory_bytes=ground.memory_bytes,
        memory_allotted_bytes=regions + sum(vm.quota.memory_bytes for vm in on_host),
        overcommit=overcommit,
        cgroup_version=ground.cgroup_version,
        no_cgroups=ground.no_cgroups,
    )


def _allotment(gpu: str, vms: Sequence[VmConfig], pes: int, memory_bytes: int) -> GpuAllotment:
    return {
        "gpu": gpu,
        "pes": pes,
        "pes_allotted": sum(vm.quota.pes or 0 for vm in vms),
        "vms": len(vms),
        "sharing": sum(vm.quota.pes is None for vm in vms),
        "memory_bytes": memory_bytes,
        "memory_allotted_bytes": sum(vm.quota.memory_bytes for vm in vms),
    }
