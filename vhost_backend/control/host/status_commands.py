"""The verb status: the host as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.links.vm_port import Host
from virtio_proto.control.verbs.base import Request, Verb
from virtio_proto.control.verbs.status import HostStatus, Status


class StatusCommands:
    """Handler of the verb status."""

    def __init__(self, registry: InstanceRegistry, host: Host, version: str, clock_ns: Callable[[], int]) -> None:
        """The daemon of this `version` starts now."""
        self._registry = registry
        self._host = host
        self._version = version
        self._clock_ns = clock_ns
        self._started_ns = clock_ns()

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {Status: self._status}

    async def _status(self, caller: Caller, _asked: Request) -> HostStatus:
        if caller.peer.vms is not None:
            raise RefusedError("denied", "status is about all VMs; allowed: a token without vms")
        found = await self._host.resources()
        status: HostStatus = {
            "daemon": self._version,
            "started_ns": self._started_ns,
            "time_ns": self._clock_ns(),
            "overcommit": found.overcommit,
            "gpus": list(found.gpus),
            "undecided": list(found.undecided),
            "memory_bytes": found.memory_bytes,
            "memory_allotted_bytes": found.memory_allotted_bytes,
            "cgroups": found.cgroup_version,
            "channels": sum(len(side.table) for side in self._registry.visible(caller.peer)),
        }
        if found.no_cgroups:
            status["cgroups_missing"] = found.no_cgroups
        if left_out := self._host.left_out:
            status["left_out"] = dict(left_out)
        if self._host.reload_refused:
            status["reload_refused"] = self._host.reload_refused
        return status
