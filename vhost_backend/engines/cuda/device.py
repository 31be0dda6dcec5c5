"""GPUs of the driver: their properties, and finding one by name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vhost_backend.engines.cuda.driver import Driver
from vhost_backend.errors import EngineError

__all__ = ["Device", "devices", "find", "rows_for", "visible_name"]

_MIG: Final = "MIG-"
_GPU: Final = "GPU-"
_UUID_LENGTH: Final = 36
_MAX_NAME: Final = 256
_LEAST_SPARE_ROWS: Final = 8
_PROHIBITED: Final = 2  # CU_COMPUTEMODE_PROHIBITED


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a MIG instance, with values from the driver."""

    index: int
    uuid: str
    """``GPU-...`` or ``MIG-...``, as ``nvidia-smi -L`` prints it."""
    name: str
    arch: str
    """Architecture, for example sm_90."""
    num_pes: int
    """Number of SMs."""
    memory_bytes: int
    pe_granularity: int
    """A VM's share of the SMs is a multiple of this, or all of them."""
    min_pes: int
    """Smallest share of SMs."""
    max_shared_bytes: int
    """Most shared memory of a block, with opt-in, in bytes."""
    max_threads_per_pe: int
    """Most threads that can be resident on an SM."""
    properties: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Fields of ``struct vgc_device_properties``."""


_PROPERTIES: Final = {
    "warp_threads": "WARP_SIZE",
    "pe_threads": "MAX_THREADS_PER_MULTIPROCESSOR",
    "pe_blocks": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "pe_registers": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "pe_shared_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "block_registers": "MAX_REGISTERS_PER_BLOCK",
    "block_shared_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "reserved_shared_bytes": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "constant_bytes": "TOTAL_CONSTANT_MEMORY",
    "l2_bytes": "L2_CACHE_SIZE",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "copy_engines": "ASYNC_ENGINE_COUNT",
    "double_ratio": "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO",
    "ecc": "ECC_ENABLED",
}
"""The driver's attribute for each field of ``struct vgc_device_properties`` that it tells as it stands."""


def devices(driver: Driver) -> tuple[list[Device], list[str]]:
    """Usable devices, and the reasons why others cannot be used."""
    usable, problems = [], []
    for index in range(driver.call("cuDeviceGetCount")):
        try:
            usable.append(_describe(driver, index))
        except EngineError as error:
            problems.append(f"GPU {index}: {error}")
    return usable, problems


def rows_for(num_pes: int) -> int:
    """Number of rows in a control area for a device: more than SMs, as their numbers may have gaps [PTX ISA: %smid]."""
    return num_pes + max(_LEAST_SPARE_ROWS, num_pes // 4)


def visible_name(wanted: str | None) -> str | None:
    """UUID of the only device that the driver shall show, if `wanted` is a whole UUID.

    The driver does not show all MIG instances otherwise; and a worker then need not open the nodes of other VMs' GPUs.
    """
    if wanted is None:
        return None
    whole = wanted.startswith(_MIG) or (wanted.startswith(_GPU) and len(wanted) == len(_GPU) + _UUID_LENGTH)
    return wanted if whole else None


def find(driver: Driver, wanted: str | None) -> Device:
    """Finds the device with this index, GPU UUID (or the beginning of one) or MIG UUID; None: the first device.

    :raise EngineError: there is no such device; the text lists the devices.
    """
    usable, problems = devices(driver)
    chosen = [device for device in usable if _is_meant(device, wanted)]
    if len(chosen) == 1 or (chosen and wanted is None):
        return chosen[0]
    there = [f"{device.index} ({device.uuid}, {device.name})" for device in usable]
    text = (
        f"{len(chosen) or 'no'} GPUs fit device {wanted!r:.80}; there are: {'; '.join((*there, *problems)) or 'none'}"
    )
    raise EngineError(text)


def _is_meant(device: Device, wanted: str | None) -> bool:
    if wanted is None or wanted.startswith(_MIG):
        return True  # the driver shows only the MIG instance
    if wanted.startswith(_GPU):
        return device.uuid.lower().startswith(wanted.lower())
    return wanted == str(device.index)


def _describe(driver: Driver, index: int) -> Device:
    """Reads a device's properties.

    :raise EngineError: the device cannot be used.
    """
    handle = driver.call("cuDeviceGet", index)
    if attribute(driver, handle, "COMPUTE_MODE") == _PROHIBITED:
        raise EngineError("its compute mode is Prohibited: nvidia-smi -c DEFAULT allows programs on it")
    if not attribute(driver, handle, "MEMORY_POOLS_SUPPORTED"):
        raise EngineError("it has no memory pools here: as a vGPU it may need unified memory allowed in its settings")
    major, minor = (attribute(driver, handle, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    name = driver.call("cuDeviceGetName", _MAX_NAME, handle).split(b"\0")[0].decode(errors="replace")
    num_pes = attribute(driver, handle, "MULTIPROCESSOR_COUNT")
    least, step = _steps(driver, handle, major, num_pes)
    # The driver has one call for both kinds of UUID; only the name tells a MIG instance.
    prefix = _MIG if " MIG " in name else _GPU
    return Device(
        index=index,
        uuid=prefix + str(uuid.UUID(bytes=bytes(driver.call("cuDeviceGetUuid", handle).bytes))),
        name=name,
        arch=f"sm_{major}{minor}",
        num_pes=num_pes,
        memory_bytes=driver.call("cuDeviceTotalMem", handle),
        pe_granularity=step,
        min_pes=least,
        max_shared_bytes=attribute(driver, handle, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        max_threads_per_pe=attribute(driver, handle, "MAX_THREADS_PER_MULTIPROCESSOR"),
        properties={
            "compute_capability": 10 * major + minor,
            **{field: max(0, attribute(driver, handle, which)) for field, which in _PROPERTIES.items()},
        },
    )


def attribute(driver: Driver, handle: Any, name: str) -> int:
    which = getattr(driver.bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(driver.call("cuDeviceGetAttribute", which, handle))


def _steps(driver: Driver, handle: Any, major: int, num_pes: int) -> tuple[int, int]:
    """Size of the smallest partition and step between sizes; both are all SMs if the device has no partitions.

    Drivers before CUDA 13 leave the two fields at zero; their cuda.h documents the values by architecture.
    """
    kind = driver.bindings.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    try:
        sms = driver.call("cuDeviceGetDevResource", handle, kind).sm
    except EngineError:
        return num_pes, num_pes
    documented = (8, 8) if major >= 9 else (4, 2) if major == 8 else (2, 2)
    least, step = sms.minSmPartitionSize, sms.smCoscheduledAlignment
    plausible = 0 < step <= least <= num_pes
    return (least, step) if plausible else documented
