"""Verbs about firmware: firmware, stage_firmware, activate_firmware, rollback_firmware.

Answers are `virtio_proto.control.api.FirmwareInfo`; after a change also with its outcome (``state``, ``versions``,
``problems``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, cast

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.refusal import Kind, RefusedError
from vhost_backend.control.firmware.manager import FirmwareManager
from vhost_backend.control.instances.registry import InstanceRegistry
from vhost_backend.control.links.firmware import FirmwareError
from virtio_proto.control.selector import Selector
from virtio_proto.control.verbs.base import Request, Verb
from virtio_proto.control.verbs.firmware import ActivateFirmware, Firmware, RollbackFirmware, StageFirmware


class FirmwareCommands:
    """Handlers of the verbs about firmware."""

    def __init__(self, registry: InstanceRegistry, manager: FirmwareManager) -> None:
        self._registry = registry
        self._manager = manager

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {
            Firmware: self._firmware,
            StageFirmware: self._stage,
            ActivateFirmware: self._activate,
            RollbackFirmware: self._roll_back,
        }

    async def _firmware(self, caller: Caller, _asked: Request) -> dict[str, Any]:
        return self._info(caller)

    def _info(self, caller: Caller) -> dict[str, Any]:
        return dict(self._manager.info(caller.peer.sees))

    async def _stage(self, caller: Caller, asked: StageFirmware.Request) -> dict[str, Any]:
        vms = list(self._chosen(caller, asked.chosen))
        done = await _done(self._manager.stage(asked.image, vms, force=asked.force))
        return done | self._info(caller)

    async def _activate(self, caller: Caller, asked: ActivateFirmware.Request) -> dict[str, Any]:
        done = await _done(self._manager.activate(asked.version, self._chosen(caller, asked.chosen)))
        return done | self._info(caller)

    async def _roll_back(self, caller: Caller, asked: RollbackFirmware.Request) -> dict[str, Any]:
        chosen = self._chosen(caller, asked.chosen, resting=True)
        done = await _done(self._manager.roll_back(chosen))
        return done | self._info(caller)

    def _chosen(self, caller: Caller, selector: Selector, *, resting: bool = False) -> dict[str, tuple[int, ...]]:
        """Chosen processing elements by VM, without VMs that have no worker.

        `resting`: if no chosen VM has a worker, those VMs, without elements.

        :raise RefusedError: "busy": no chosen VM has a worker.
        """
        chosen = self._registry.chosen(caller.peer, selector)
        sides = [side for side in chosen if side.vm.channels.ready]
        if not sides and resting:
            return {side.name: () for side in chosen}
        if not sides:
            raise RefusedError(
                "busy", f"no VM of {str(selector) or 'this host'} has a worker now; allowed: VMs that run"
            )
        return {side.name: selector.pes_of(side.vm.channels.num_pes) for side in sides}


async def _done(work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await work
    except FirmwareError as error:
        raise RefusedError(cast("Kind", error.kind), str(error)) from None
