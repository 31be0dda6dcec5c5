"""Catalogue of Xid errors of NVIDIA's driver: meaning, severity and advice.

The numbers are those of NVIDIA's public catalogue (docs.nvidia.com/deploy/xid-errors), the words our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final


class Severity(Enum):
    """Severity of an Xid error, by the action that it needs."""

    PROGRAM = "program"
    """A program's fault: its worker is replaced, the device is well."""
    NOTICE = "notice"
    """No action needed now."""
    RESET = "reset"
    """The device needs a reset, at the latest when its VMs are idle."""
    HOST = "host"
    """The host needs a reboot, or a check of slot, power and cooling."""
    REPLACE = "replace"
    """The device needs a diagnosis, and may have to be replaced."""


ACTIONS: Final = MappingProxyType(
    {
        Severity.PROGRAM: "Check the VM's program (compute-sanitizer finds most of these faults); the device is well.",
        Severity.NOTICE: "Nothing has to be done now; watch whether the error occurs again.",
        Severity.RESET: "Give the VMs another GPU and reset this one (nvidia-smi --gpu-reset).",
        Severity.HOST: "End the VMs and reboot the host; if the error occurs again, check slot, power and cooling.",
        Severity.REPLACE: "Take the GPU out of service and run NVIDIA's field diagnostic; it may have to be replaced.",
    }
)


@dataclass(frozen=True, slots=True)
class Xid:
    """Entry of the catalogue."""

    meaning: str
    severity: Severity


_P, _N, _R, _H, _X = Severity

CATALOGUE: Final = MappingProxyType(
    {
        number: Xid(meaning, severity)
        for number, severity, meaning in (
            (8, _P, "the GPU stopped working on a channel"),
            (13, _P, "a kernel did something illegal: an address out of bounds or an illegal instruction"),
            (24, _R, "an illegal command of the driver's own work queue"),
            (31, _P, "a page fault: a kernel used an address where nothing is mapped"),
            (32, _R, "the queue of commands was damaged on its way to the GPU; often a matter of PCIe"),
            (37, _R, "the driver failed"),
            (38, _R, "the firmware failed"),
            (39, _P, "a copy engine failed"),
            (43, _P, "a channel was reset after a program's error"),
            (44, _P, "the GPU failed while it changed from one context to another"),
            (45, _P, "a program's work was taken off the GPU, after another error or because the program was ended"),
            (46, _R, "the GPU stopped working and did not come back"),
            (48, _R, "an ECC error of two bits, which cannot be corrected"),
            (54, _H, "a power connector is not plugged in"),
            (56, _R, "the display engine failed"),
            (57, _R, "the memory interface could not be set up"),
            (58, _R, "the memory interface is unstable"),
            (60, _P, "the video processor failed"),
            (61, _R, "an internal controller stopped at a breakpoint"),
            (62, _R, "an internal controller stopped"),
            (63, _N, "a page or row of memory was retired; it takes effect with the next reset"),
            (64, _R, "a page or row of memory could not be retired"),
            (65, _P, "the video processor failed"),
            (66, _R, "the driver did something illegal"),
            (68, _P, "a video decoder failed"),
            (69, _P, "the graphics engine got a command of an unknown class"),
            (70, _P, "a copy engine failed"),
            (71, _P, "a copy engine failed"),
            (72, _P, "a copy engine failed"),
            (73, _P, "a video encoder failed"),
            (74, _R, "an NVLink connection failed"),
            (79, _H, "the GPU has fallen off the bus: the host cannot reach it any more"),
            (80, _R, "data was damaged on its way to the GPU"),
            (82, _P, "the JPEG decoder failed"),
            (83, _P, "a video decoder failed"),
            (84, _P, "a video decoder failed"),
            (85, _P, "a copy engine failed"),
            (92, _X, "correctable ECC errors are too frequent"),
            (93, _N, "the board's configuration memory is written more often than it should be"),
            (94, _P, "an ECC error that hit one program alone and was contained"),
            (95, _R, "an ECC error that may have hit every program on the GPU"),
            (109, _R, "a change of context took too long"),
            (110, _R, "a security fault"),
            (119, _R, "the GPU's system processor (GSP) did not answer the driver in time"),
            (120, _R, "the GPU's system processor (GSP) failed"),
            (121, _N, "a link between processor and GPU (C2C) had a correctable error"),
            (122, _X, "the board's configuration memory could not be read"),
            (123, _R, "the board's configuration memory could not be written"),
            (124, _R, "the board's configuration memory could not be erased"),
            (125, _X, "the board's configuration file system failed"),
            (137, _P, "a peer on NVLink used an address that it has no right to"),
            (140, _R, "an ECC error was not recovered from"),
            (143, _R, "the GPU could not be initialised"),
            *((number, _R, "NVLink of the fifth generation failed") for number in range(144, 151)),
            (151, _R, "keys for confidential computing could not be changed"),
            (154, _N, "what the driver says should be done to recover has changed: see nvidia-smi -q"),
            (155, _N, "NVLink's software reports an error"),
            (156, _N, "a part of the GPU was retired; it takes effect with the next reset"),
            (157, _X, "a part of the GPU could not be retired"),
            (158, _R, "the GPU did not answer in time"),
            (160, _N, "a memory channel was retired; it takes effect with the next reset"),
            (161, _X, "a memory channel could not be retired"),
        )
    }
)


def describe(number: int) -> str:
    """Text of a fault with this Xid."""
    known = CATALOGUE.get(number)
    return f"Xid {number}: {known.meaning if known else 'not in our catalogue'}"


def severity(number: int) -> Severity | None:
    """Severity of an Xid; None: unknown."""
    known = CATALOGUE.get(number)
    return known.severity if known else None


def advice(number: int) -> str:
    """Advice for a fault with this Xid, in a sentence or two."""
    known = CATALOGUE.get(number)
    if known is None:
        return f"See NVIDIA's catalogue for Xid {number}: https://docs.nvidia.com/deploy/xid-errors/"
    return ACTIONS[known.severity]
