"""A VM's share of a GPU: a context whose kernels run on some of its SMs, and on no others.

The share is a green context, a partition of the SMs that the driver keeps. Partitions come in the sizes that the
architecture allows (`Device.pe_granularity`), so a share is rounded up; what no partition can be is the whole GPU,
whose context is the primary one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from vhost_backend.engines.cuda.device import Device
from vhost_backend.engines.cuda.driver import CudaError, Driver
from vhost_backend.errors import EngineError

__all__ = ["Partition", "rounded", "take"]

_OUT_OF_MEMORY: Final = 2
_INVALID_RESOURCE_CONFIGURATION: Final = 915


@dataclass(frozen=True, slots=True)
class Partition:
    """A context on some of a device's SMs. Current in no thread; `release` gives it back."""

    driver: Driver
    handle: Any
    """CUdevice"""
    primary: int
    """CUcontext of the whole device: where limits are set, which hold for its parts too."""
    context: int
    """CUcontext whose kernels run on this part."""
    asked: int
    given: int
    """How many SMs it has."""
    green: Any = None
    """CUgreenCtx, if it is a part of the device."""

    def release(self) -> None:
        """Ends the context, and all that is in it."""
        if self.green is not None:
            self.driver.call("cuGreenCtxDestroy", self.green)
        self.driver.call("cuDevicePrimaryCtxRelease", self.handle)


def rounded(device: Device, asked: int) -> int:
    """The smallest share of the device with at least this many SMs."""
    step = device.pe_granularity
    size = max(-(-asked // step) * step, device.min_pes)
    return min(size, device.num_pes)


def take(driver: Driver, device: Device, asked: int) -> Partition:
    """A context with at least `asked` of the device's SMs, or all of them.

    :raise EngineError: there is no memory for it, or this driver cannot divide the device.
    """
    handle = driver.call("cuDeviceGet", device.index)
    primary = int(driver.call("cuDevicePrimaryCtxRetain", handle))
    whole = Partition(driver, handle, primary, primary, asked, device.num_pes)
    wanted = rounded(device, asked)
    if wanted == device.num_pes:
        return whole
    try:
        return _divide(whole, wanted) or whole
    except EngineError as error:
        whole.release()
        if isinstance(error, CudaError) and error.code == _OUT_OF_MEMORY:
            raise
        raise EngineError(
            f"{asked} of {device.num_pes} SMs: this driver cannot divide {device.name} ({error});"
            f" allowed: {device.num_pes}, which is all of them"
        ) from error


def _divide(whole: Partition, wanted: int) -> Partition | None:
    """A part of the device, or None if it has no part of that size: an SM's neighbours can be fused off."""
    driver = whole.driver
    kind = driver.bindings.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    sms = driver.call("cuDeviceGetDevResource", whole.handle, kind)
    try:
        groups, count, _ = driver.call("cuDevSmResourceSplitByCount", 1, sms, 0, wanted)
    except CudaError as error:
        if error.code == _INVALID_RESOURCE_CONFIGURATION:
            return None
        raise
    if count == 0:
        return None
    description = driver.call("cuDevResourceGenerateDesc", [groups[0]], 1)
    flags = driver.bindings.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    green = driver.call("cuGreenCtxCreate", description, whole.handle, int(flags))
    try:
        context = driver.call("cuCtxFromGreenCtx", green)
        given = driver.call("cuGreenCtxGetDevResource", green, kind).sm.smCount
    except EngineError:
        driver.call("cuGreenCtxDestroy", green)
        raise
    return replace(whole, context=int(context), given=given, green=green)
