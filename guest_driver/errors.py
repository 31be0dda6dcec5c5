"""What can go wrong, one exception per result of libvgc. Results and their numbers are vgc.h's."""

# ruff: noqa: N818  names as users of GPU libraries know them: OutOfMemory, DeviceLost

from __future__ import annotations

from typing import ClassVar


class VgcError(Exception):
    """Base of all errors of the device and its driver. `result` is libvgc's number."""

    result: ClassVar[int] = -1


class BadRequest(VgcError):
    """The device could not make sense of a request: a bug of the driver."""

    result = 1


class Unsupported(VgcError):
    """Beyond what the device can do."""

    result = 2


class NotFound(VgcError):
    """No function or variable of that name."""

    result = 4


class InvalidArgument(VgcError, ValueError):
    """An argument is out of range; the text says what is allowed."""

    result = 5


class InvalidAddress(VgcError):
    """A device address outside of what this process has allocated."""

    result = 6


class ResourcesExhausted(VgcError):
    """The VM's share of the device, or the shared region, is used up."""

    result = 8


class OutOfMemory(ResourcesExhausted):
    """The VM's share of device memory is used up."""

    result = 7


class CompileError(VgcError):
    """The program does not compile; `log` is what the compiler said."""

    result = 9

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class LaunchFailed(VgcError):
    """The engine could not run the kernel."""

    result = 10


class KernelFault(VgcError):
    """A kernel touched memory that is not there, divided by zero or overflowed its stack."""

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
    """The host replaced the worker: device memory and programs are gone. `Device.reset` starts afresh."""

    result = 15


class NoContext(DeviceLost):
    """The context is gone, and with it device memory and programs."""

    result = 3


class Cancelled(VgcError):
    """The request was given up because its context went away."""

    result = 16


class InternalError(VgcError):
    """The host or the driver contradicts itself."""

    result = 17


class Pending(VgcError):
    """Not finished within the time that was given."""

    result = 100


class NoDevice(VgcError):
    """No such device in this machine, or no kernel driver for it."""

    result = 101


class NoPermission(VgcError, PermissionError):
    """The kernel does not let this process at the device."""

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
    """The two devices of a `ShadowDevice` disagree; the text says in what. No result of libvgc."""

    result = -2


def _all_errors(base: type[VgcError]) -> dict[int, type[VgcError]]:
    found = {base.result: base}
    for derived in base.__subclasses__():
        found |= _all_errors(derived)
    return found


_BY_RESULT = _all_errors(VgcError)


def from_result(result: int, message: str, log: str = "") -> VgcError:
    """The exception for a result, with libvgc's words."""
    kind = _BY_RESULT.get(result, VgcError)
    message = message or f"libvgc answered {result}"
    return CompileError(message, log) if kind is CompileError else kind(message)
