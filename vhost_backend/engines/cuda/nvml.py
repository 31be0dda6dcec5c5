"""NVIDIA's management library: versions, bus addresses, clocks, Xid errors.

``libnvidia-ml.so.1`` comes with the driver; it is called through ctypes, so nothing has to be installed beside it. It is
used in a process of its own (`gpu_watch`): the daemon touches no GPU. Functions and structures are those of ``nvml.h``,
in versions that every driver since CUDA 12.4 has.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final, Self

from vhost_backend.errors import EngineError

DEFAULT_LIBRARY: Final = "libnvidia-ml.so.1"

_TIMEOUT: Final = 10
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # nvmlClockType_t
_XID_CRITICAL: Final = 8
_TEXT_BYTES: Final = 96


class _PciInfo(ctypes.Structure):
    """nvmlPciInfo_t"""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class _EventData(ctypes.Structure):
    """nvmlEventData_t"""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class GpuVersions:
    """Versions and bus address of a GPU; "" where the driver has no answer."""

    uuid: str
    pci_bus_id: str
    vbios_version: str


@dataclass(frozen=True, slots=True)
class GpuClocks:
    """Clocks of a GPU at a moment."""

    sm_mhz: int
    mem_mhz: int
    pstate: int
    """Performance state; 0 is the fastest."""

    def __str__(self) -> str:
        return f"SM {self.sm_mhz} MHz, memory {self.mem_mhz} MHz, P{self.pstate}"


class Nvml:
    """The initialised library. A context manager.

    :raise EngineError: the library is missing or does not work here.
    """

    def __init__(self, path: str = DEFAULT_LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
            self._library.nvmlErrorString.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise EngineError(
                f"{path} cannot be used, so no clock, no Xid and no version of a GPU is known: {error}"
            ) from error
        self._call("nvmlInit_v2")
        self._devices: list[ctypes.c_void_p] = []
        self._uuids: dict[int, str] = {}
        self._events = ctypes.c_void_p()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._events:
            self._call("nvmlEventSetFree", self._events)
        self._call("nvmlShutdown")

    def driver_version(self) -> str:
        """Version of the driver, as in nvidia-smi."""
        return self._text("nvmlSystemGetDriverVersion")

    def gpus(self) -> list[GpuVersions]:
        """All GPUs that this process may see."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        found = []
        for index in range(count.value):
            device = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
            uuid = self._text("nvmlDeviceGetUUID", device)
            self._devices.append(device)
            self._uuids[device.value or 0] = uuid
            found.append(GpuVersions(uuid, self._bus_id(device), self._optional("nvmlDeviceGetVbiosVersion", device)))
        return found

    def clocks(self, uuid: str) -> GpuClocks:
        """Current clocks of the GPU with this UUID.

        :raise EngineError: the GPU is unknown, or does not report clocks (a MIG instance does not).
        """
        device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(device))
        sm, memory, pstate = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_int()
        self._call("nvmlDeviceGetClockInfo", device, ctypes.c_int(_CLOCK_SM), ctypes.byref(sm))
        self._call("nvmlDeviceGetClockInfo", device, ctypes.c_int(_CLOCK_MEMORY), ctypes.byref(memory))
        self._call("nvmlDeviceGetPerformanceState", device, ctypes.byref(pstate))
        return GpuClocks(sm.value, memory.value, pstate.value)

    def watch(self) -> list[str]:
        """Makes `wait` report Xid errors of all `gpus`; returns the reasons for GPUs that cannot report them."""
        problems = []
        self._call("nvmlEventSetCreate", ctypes.byref(self._events))
        for device in self._devices:
            try:
                self._call("nvmlDeviceRegisterEvents", device, ctypes.c_ulonglong(_XID_CRITICAL), self._events)
            except EngineError as error:
                problems.append(f"{self._uuids[device.value or 0]}: {error}")
        return problems

    def wait(self, timeout_ms: int) -> tuple[str, int] | None:
        """Waits for the next error: UUID of its GPU and Xid; None: no error within that time."""
        data = _EventData()
        result = self._library.nvmlEventSetWait_v2(self._events, ctypes.byref(data), ctypes.c_uint(timeout_ms))
        if result == _TIMEOUT:
            return None
        self._check("nvmlEventSetWait_v2", result)
        return self._uuids.get(data.device or 0, ""), int(data.data)

    def _bus_id(self, device: ctypes.c_void_p) -> str:
        info = _PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
        return str(info.bus_id.decode(errors="replace"))

    def _optional(self, function: str, *arguments: Any) -> str:
        try:
            return self._text(function, *arguments)
        except EngineError:
            return ""

    def _text(self, function: str, *arguments: Any) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(function, *arguments, buffer, ctypes.c_uint(_TEXT_BYTES))
        return buffer.value.decode(errors="replace")

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            result = getattr(self._library, function)(*arguments)
        except AttributeError as error:
            raise EngineError(
                f"{function} is missing from NVIDIA's management library: install a newer driver"
            ) from error
        self._check(function, result)

    def _check(self, function: str, result: int) -> None:
        if result != 0:
            reason = self._library.nvmlErrorString(ctypes.c_int(result)) or b"unknown error"
            raise EngineError(f"{function}: {reason.decode(errors='replace')} ({result})")
