"""Verbs about firmware: firmware, stage_firmware, activate_firmware, rollback_firmware.

The answers are `virtio_proto.control.api.FirmwareInfo`; those of the verbs that change something also have how that
went (``state``, ``versions``, ``problems``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final, cast

from vhost_backend.compiler.job import Target
from vhost_backend.control.channel_port import ChannelError
from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.fields import Fields
from vhost_backend.control.firmware.elements import FirmwareError
from vhost_backend.control.firmware.manager import FirmwareManager
from vhost_backend.control.interface import Interface
from vhost_backend.control.refusal import Kind, RefusedError
from vhost_backend.control.vm_side import VmSide
from virtio_proto.control.selector import Selector

MAX_IMAGE_BYTES: Final = 8 << 20


class SideElements:
    """A VM's elements, as firmware management sees them."""

    def __init__(self, side: VmSide) -> None:
        self._side = side
        self.num_pes = side.vm.channels.num_pes
        self.gpu = side.vm.facts().gpu

    @property
    def vm(self) -> str:
        return self._side.name

    @property
    def target(self) -> Target:
        return self._side.vm.target

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        await _told(self._side.vm.channels.stage_firmware(slot, version, image_fd))

    async def activate_firmware(self, slot: int, pes: Collection[int]) -> None:
        await _told(self._side.vm.channels.activate_firmware(slot, sorted(pes)))

    async def replace_worker(self, reason: str) -> None:
        await self._side.vm.reset(reason)


async def _told(command: Awaitable[None]) -> None:
    try:
        await command
    except ChannelError as error:
        raise FirmwareError("failed", str(error)) from None


class FirmwareCommands:
    """A group of verbs over firmware management."""

    def __init__(self, interface: Interface, manager: FirmwareManager) -> None:
        self._interface = interface
        self._manager = manager

    async def worker_ready(self, side: VmSide) -> None:
        """Brings a new worker's elements to the firmware that they shall have."""
        await self._manager.worker_ready(SideElements(side))

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "firmware": self._firmware,
            "stage_firmware": self._stage,
            "activate_firmware": self._activate,
            "rollback_firmware": self._roll_back,
        }

    async def _firmware(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        fields.done()
        return self._info(caller)

    def _info(self, caller: Caller) -> dict[str, Any]:
        return dict(self._manager.info(caller.peer.sees))

    async def _stage(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        image = fields.data("image", MAX_IMAGE_BYTES)
        selector = fields.selector()
        fields.done()
        vms = list(self._chosen(caller, selector))
        done = await _done(self._manager.stage(image, vms))
        return done | self._info(caller)

    async def _activate(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        version = fields.text("version", 64)
        selector = fields.selector()
        fields.done()
        done = await _done(self._manager.activate(version, self._chosen(caller, selector)))
        return done | self._info(caller)

    async def _roll_back(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        selector = fields.selector()
        fields.done()
        done = await _done(self._manager.roll_back(self._chosen(caller, selector)))
        return done | self._info(caller)

    def _chosen(self, caller: Caller, selector: Selector) -> dict[str, tuple[int, ...]]:
        """By VM: elements. VMs without a worker are left out.

        :raise RefusedError: "busy": none of them has one.
        """
        sides = [side for side in self._interface.chosen(caller.peer, selector) if side.vm.channels.ready]
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
