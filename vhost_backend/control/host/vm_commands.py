"""Verbs about the VMs that the daemon serves: reload_vms, add_vm, remove_vm, show_limits, set_limits."""

from __future__ import annotations

from collections.abc import Mapping

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.links.vm_port import Host, HostRefusedError
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import Verb
from virtio_proto.control.verbs.vms import AddVm, LimitsInfo, ReloadVms, RemoveVm, SetLimits, ShowLimits, VmChanges


class VmCommands:
    """Handlers of the verbs by which VMs come and go."""

    def __init__(self, registry: InstanceRegistry, host: Host) -> None:
        self._registry = registry
        self._host = host

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {
            ReloadVms: self._reload,
            AddVm: self._add,
            RemoveVm: self._remove,
            ShowLimits: self._show_limits,
            SetLimits: self._set_limits,
        }

    async def _reload(self, caller: Caller, asked: ReloadVms.Request) -> VmChanges:
        if caller.peer.vms is not None:
            raise RefusedError("denied", "reload_vms is about all VMs; allowed: a token without vms")
        try:
            return await self._host.reload(now=asked.now)
        except HostRefusedError as error:
            raise RefusedError("failed", str(error)) from None

    async def _add(self, caller: Caller, asked: AddVm.Request) -> VmChanges:
        if caller.peer.vms is not None:
            raise RefusedError("denied", "add_vm is about a new VM; allowed: a token without vms")
        try:
            return await self._host.add(asked.vm, asked.settings(), persists=asked.persist)
        except HostRefusedError as error:
            raise RefusedError("failed", str(error)) from None

    async def _remove(self, caller: Caller, asked: RemoveVm.Request) -> VmChanges:
        is_left_out = caller.peer.vms is None and asked.vm in self._host.left_out
        name = asked.vm if is_left_out else self._registry.side(caller.peer, asked.vm).name
        try:
            return await self._host.remove(name, now=asked.now)
        except HostRefusedError as error:
            raise RefusedError("failed", str(error)) from None

    async def _show_limits(self, caller: Caller, asked: base.VmRequest) -> LimitsInfo:
        return self._host.limits(self._registry.side(caller.peer, asked.vm).name)

    async def _set_limits(self, caller: Caller, asked: SetLimits.Request) -> LimitsInfo:
        side = self._registry.side(caller.peer, asked.vm)
        try:
            return await self._host.set_limits(side.name, asked.limits)
        except HostRefusedError as error:
            raise RefusedError("failed", str(error)) from None
