"""Port between firmware management and the processing elements of a VM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from vhost_backend.compiler.job import Target

SLOTS: Final = 2
"""Firmware slots of a processing element: the active one, and the one that it can roll back to."""


class FirmwareError(Exception):
    """A firmware command cannot be done; `kind` is one of the control API's `ERROR_KINDS`."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class SlotState(IntEnum):
    """State of a slot, ``enum vgc_ctl_firmware_state``. STAGED: the processing element tests the image."""

    STAGED = 1
    ACTIVE = 2
    ROLLED_BACK = 3


@dataclass(frozen=True, slots=True)
class FirmwareReport:
    """Report of a processing element about a slot: it tests the image, runs it, or has rolled back from it."""

    pe: int
    slot: int
    version: int
    state: SlotState
    code: int


@dataclass(frozen=True, slots=True)
class ElementFound:
    """Firmware of a processing element, as its worker tells another daemon."""

    slot: int
    """Slot that it runs."""
    state: SlotState | None
    """Result of its last change; None: it never changed, or is changing."""
    code: int


@dataclass(frozen=True, slots=True)
class FirmwareFound:
    """Firmware of a worker, as it tells another daemon. Guest code may have made up all of it."""

    versions: tuple[str | None, ...]
    """Versions in the slots; None: the slot is empty."""
    elements: tuple[ElementFound, ...]


class Elements(Protocol):
    """Processing elements of a VM during one worker's life."""

    @property
    def vm(self) -> str: ...

    @property
    def gpu(self) -> str: ...

    @property
    def target(self) -> Target:
        """Compilation target of firmware for the VM."""
        ...

    @property
    def num_pes(self) -> int: ...

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        """Loads an image into a slot that no processing element runs. `image_fd` stays the caller's.

        :raise FirmwareError: the worker refused the image, or is lost.
        """
        ...

    async def activate_firmware(self, slot: int, pes: Collection[int]) -> None:
        """Has processing elements change to a slot at their next poll point; each reports the outcome.

        :raise FirmwareError: the worker refused the change, or is lost.
        """
        ...

    async def replace_worker(self, reason: str) -> None:
        """Ends the worker, whose processing elements cannot be reached any more; the next worker follows."""
        ...


@dataclass(slots=True)
class Element:
    """Firmware of a processing element."""

    slot: int
    state: SlotState = SlotState.ACTIVE
    text: str = ""
    """Reason of the last failed change."""
