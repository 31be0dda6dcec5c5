"""Exceptions, one per result of libvgc. vgc.h defines the results and their numbers."""

# ruff: noqa: N818  names as users of GPU libraries know them: OutOfMemory, DeviceLost

from __future__ import annotations

from typing import ClassVar


class VgcError(Exception):
    """Base of all errors of the device and its driver. `result` is libvgc's number of the result."""

    result: ClassVar[int] = -1


class BadRequest(VgcError):
    """The device found a request malformed: a bug of the driver."""

    result = 1


class Unsupported(VgcError):
    """The device does not support the operation."""

    result = 2


class NotFound(VgcError):
    """The program has no function or variable of that name."""

    result = 4


class InvalidArgument(VgcError, ValueError):
    """An argument is out of range; the text says what is allowed."""

    result = 5


class InvalidAddress(VgcError):
    """A device address lies outside of this process's allocations."""

    result = 6


class ResourcesExhausted(VgcError):
    """The VM's share of the device, or the shared region, is used up."""

    result = 8


class OutOfMemory(ResourcesExhausted):
    """The VM's share of device memory is used up."""

    result = 7


class CompileError(VgcError):
    """The program does not compile; `log` is the compiler's output."""

    result = 9

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class LaunchFailed(VgcError):
    """The engine could not run the kernel."""

    result = 10


class KernelFault(VgcError):
    """A kernel accessed unmapped memory or overflowed its stack."""

    result = 11


class KernelAssert(VgcError):
    """An assert() in a kernel failed."""

    result = 12


class Timeout(VgcError, TimeoutError):
    """A kernel ran past the device's deadline."""

    result = 13


class Deadlock(VgcError):
    """Threads of a block wait at different barriers."""

    result = 14


class DeviceLost(VgcError):
    """The host replaced the worker: device memory and programs are gone. `Device.reset` makes a new context, and a device
    that was opened with `recover` does so at its next use.
    """

    result = 15


class ObjectLost(DeviceLost):
    """The device works, but this memory, stream, texture or surface went with an earlier context; the text says what to do.

    Not a result of libvgc.
    """

    result = -3


class NoContext(DeviceLost):
    """The context is gone, and with it device memory and programs."""

    result = 3


class Cancelled(VgcError):
    """The request was cancelled because its context was destroyed."""

    result = 16


class InternalError(VgcError):
    """The host or the driver contradicts itself."""

    result = 17


class Pending(VgcError):
    """The work has not finished within the given time."""

    result = 100


class NoDevice(VgcError):
    """The machine has no such device, or no kernel driver for it."""

    result = 101


class NoPermission(VgcError, PermissionError):
    """The kernel denies this process access to the device."""

    result = 102


class Incompatible(VgcError):
    """Driver and device speak different wire formats."""

    result = 103


class NoAnswer(VgcError, TimeoutError):
    """The device did not answer in time."""

    result = 104


class SystemFailure(VgcError):
    """A system call failed."""

    result = 105


class ShadowMismatch(VgcError):
    """The two devices of a `ShadowDevice` disagree; the text says where. Not a result of libvgc."""

    result = -2


def _all_errors(base: type[VgcError]) -> dict[int, type[VgcError]]:
    found = {base.result: base}
    for derived in base.__subclasses__():
        found |= _all_errors(derived)
    return found


_BY_RESULT = _all_errors(VgcError)


def from_result(result: int, message: str, log: str = "") -> VgcError:
    """Makes the exception for a result, with libvgc's error text."""
    kind = _BY_RESULT.get(result, VgcError)
    message = message or f"libvgc answered {result}"
    return CompileError(message, log) if kind is CompileError else kind(message)
