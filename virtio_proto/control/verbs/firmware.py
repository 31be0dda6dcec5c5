"""Verbs about firmware: stage, activate and roll back control code on processing elements while kernels run."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from virtio_proto.control.api import FirmwareInfo
from virtio_proto.control.verbs.base import LOOK_S, HostError, Reach, Rest, Selecting, Verb, by_host

FLASHING_S = 120.0
MAX_IMAGE_BYTES = 8 << 20


class FirmwareAnswer(TypedDict):
    hosts: dict[str, FirmwareInfo]
    failed: list[HostError]


class Firmware(Verb):
    """Lists the firmware images that hosts have, and the firmware of each processing element."""

    name = "firmware"
    timeout_s = LOOK_S
    rest = Rest("GET", "/firmware", "firmware")
    Answer = FirmwareInfo
    merged = by_host(FirmwareAnswer)


class StageFirmware(Verb):
    """Loads a signed image into the free slot of processing elements; the active firmware runs on.

    An image older than a VM has run is refused, unless `force` is true.
    """

    name = "stage_firmware"
    role = "admin"
    reach = Reach.ELEMENTS
    timeout_s = FLASHING_S
    rest = Rest("POST", "/firmware/stage", "firmware", max_body=2 * MAX_IMAGE_BYTES)
    Answer = FirmwareInfo
    merged = by_host(FirmwareAnswer)

    class Request(Selecting, kw_only=True, frozen=True):
        image: Annotated[bytes, Meta(max_length=MAX_IMAGE_BYTES)]
        force: bool = False


class ActivateFirmware(Verb):
    """Activates a staged image at each processing element's next block; rolls back if its self test fails."""

    name = "activate_firmware"
    role = "admin"
    reach = Reach.ELEMENTS
    timeout_s = FLASHING_S
    rest = Rest("POST", "/firmware/activate", "firmware")
    Answer = FirmwareInfo
    merged = by_host(FirmwareAnswer)

    class Request(Selecting, kw_only=True, frozen=True):
        version: Annotated[str, Meta(min_length=1, max_length=64)]


class RollbackFirmware(Verb):
    """Rolls processing elements back to their previous image."""

    name = "rollback_firmware"
    role = "admin"
    reach = Reach.ELEMENTS
    timeout_s = FLASHING_S
    rest = Rest("POST", "/firmware/rollback", "firmware")
    Answer = FirmwareInfo
    merged = by_host(FirmwareAnswer)

    class Request(Selecting, kw_only=True, frozen=True):
        """Processing elements to roll back."""
