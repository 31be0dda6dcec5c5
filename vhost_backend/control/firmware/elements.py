"""Processing elements of a VM for firmware management: commands to its worker, errors as `FirmwareError`."""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from vhost_backend.compiler.job import Target
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ChannelError
from vhost_backend.control.links.firmware import FirmwareError


class SideElements:
    """Implements `vhost_backend.control.links.firmware.Elements` over a VM's channels, during one worker's life."""

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
        await _checked(self._side.vm.channels.stage_firmware(slot, version, image_fd))

    async def activate_firmware(self, slot: int, pes: Collection[int]) -> None:
        await _checked(self._side.vm.channels.activate_firmware(slot, sorted(pes)))

    async def replace_worker(self, reason: str) -> None:
        await self._side.vm.reset(reason)


async def _checked(command: Awaitable[None]) -> None:
    try:
        await command
    except ChannelError as error:
        raise FirmwareError("failed", str(error)) from None
