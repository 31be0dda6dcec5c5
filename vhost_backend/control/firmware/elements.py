"""What firmware management needs of a VM's processing elements, and what it knows of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from vhost_backend.compiler.job import Target

SLOTS: Final = 2
"""A and B: one is active on an element, the other is where it can go back to."""


class FirmwareError(Exception):
    """What was asked cannot be done; `kind` is one of the control API's, the text names what is wrong."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class SlotState(IntEnum):
    """``enum vgc_ctl_firmware_state``. STAGED: the element has begun to change, and tests the image."""

    STAGED = 1
    ACTIVE = 2
    ROLLED_BACK = 3


@dataclass(frozen=True, slots=True)
class FirmwareReport:
    """What one element said about a slot: it has the image, runs it, or tried to and went back."""

    pe: int
    slot: int
    version: int
    state: SlotState
    code: int


class Elements(Protocol):
    """The processing elements of one VM, as long as its worker lives."""

    @property
    def vm(self) -> str: ...

    @property
    def gpu(self) -> str: ...

    @property
    def target(self) -> Target:
        """What their firmware is compiled for."""
        ...

    @property
    def num_pes(self) -> int: ...

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        """Loads an image into a slot that no element runs. `image_fd` stays the caller's.

        :raise FirmwareError: the worker refused it, or is lost.
        """
        ...

    async def activate_firmware(self, slot: int, pes: Collection[int]) -> None:
        """Has elements change to a slot at their next poll point; each reports how that went.

        :raise FirmwareError: the worker refused it, or is lost.
        """
        ...

    async def replace_worker(self, reason: str) -> None:
        """Ends the worker, whose elements cannot be reached any more; another one will come."""
        ...


@dataclass(slots=True)
class Element:
    """One processing element's firmware."""

    slot: int
    state: SlotState = SlotState.ACTIVE
    text: str = ""
    """What went wrong last."""
