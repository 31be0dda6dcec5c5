"""A VM's share of a GPU: a context whose kernels run only on some of its SMs.

The share is a green context, a partition of the SMs that the driver enforces. The architecture determines the sizes of
partitions (`Device.pe_granularity`), so a share is rounded up; a share that no partition can have is the whole GPU,
with its primary context.
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
    """A context on some of a device's SMs. Not current in any thread; `release` ends it."""

    driver: Driver
    handle: Any
    """CUdevice"""
    primary: int
    """CUcontext of the whole device, whose limits also apply to its partitions."""
    context: int
    """CUcontext whose kernels run on this partition."""
    asked: int
    given: int
    """Number of SMs of this partition."""
    green: Any = None
    """CUgreenCtx, unless this is the whole device."""

    def release(self) -> None:
        """Destroys the context with its contents."""
        if self.green is not None:
            self.driver.call("cuGreenCtxDestroy", self.green)
        self.driver.call("cuDevicePrimaryCtxRelease", self.handle)


def rounded(device: Device, asked: int) -> int:
    """Size of the smallest share with at least `asked` SMs."""
    step = device.pe_granularity
    size = max(-(-asked // step) * step, device.min_pes)
    return min(size, device.num_pes)


def take(driver: Driver, device: Device, asked: int) -> Partition:
    """Makes a context with at least `asked` of the device's SMs, or all of them.

    :raise EngineError: the device has no memory for it, or this driver cannot divide the device.
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
    """Partition of the device; None if it has no partition of that size, as an SM's neighbours can be fused off."""
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
