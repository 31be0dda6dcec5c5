"""Calls of the fake CUDA driver in a few words, for the tests of the fake itself."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.fakes.cuda_cubin import all_kernels
from tests.fakes.cuda_driver import FakeDriver

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
NOT_INITIALIZED: Final = 3
NO_DEVICE: Final = 100
INVALID_DEVICE: Final = 101
INVALID_IMAGE: Final = 200
INVALID_CONTEXT: Final = 201
NO_BINARY_FOR_GPU: Final = 209
CONTEXT_ALREADY_IN_USE: Final = 216
OPERATING_SYSTEM: Final = 304
INVALID_HANDLE: Final = 400
NOT_FOUND: Final = 500
NOT_READY: Final = 600
ILLEGAL_ADDRESS: Final = 700
LAUNCH_OUT_OF_RESOURCES: Final = 701
ASSERT: Final = 710
ALREADY_REGISTERED: Final = 712
NOT_REGISTERED: Final = 713
NOT_SUPPORTED: Final = 801
INVALID_RESOURCE_TYPE: Final = 914
INVALID_RESOURCE_CONFIGURATION: Final = 915
STREAM_DETACHED: Final = 917

Handle = ctypes.c_void_p
NON_BLOCKING: Final = 1
PORTABLE_AND_MAPPED: Final = 3


class DriverError(Exception):
    """A call did not end with SUCCESS."""

    def __init__(self, name: str, code: int) -> None:
        self.code = code
        super().__init__(f"{name}: {code}")


class PoolProps(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = (
        ("alloc_type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("max_size", ctypes.c_size_t),
        ("rest", ctypes.c_char * 56),
    )


class Resource(ctypes.Structure):
    """CUdevResource."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("padding", ctypes.c_char * 92),
        ("sms", ctypes.c_uint),
        ("least", ctypes.c_uint),
        ("unit", ctypes.c_uint),
        ("rest", ctypes.c_char * 36),
    )


def _argument(value: Any) -> Any:
    """Converts an argument. Integers get 64 bits, for handles and addresses; narrower parameters take the low part."""
    return ctypes.c_uint64(value) if isinstance(value, int) else value


class Rig:
    """The driver in this process, with a context once `start` was called."""

    def __init__(self, fake: FakeDriver) -> None:
        self.fake: Final = fake
        self._kept: Final[list[Any]] = []

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function; return its result code."""
        return int(self.fake.library[name](*map(_argument, arguments)))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        :raise DriverError: it failed.
        """
        code = self.code(name, *arguments)
        if code:
            raise DriverError(name, code)

    def get(self, name: str, *arguments: Any, kind: Callable[[], Any] = ctypes.c_uint64) -> int:
        """Call a function whose first parameter is an out-pointer; return the value."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value)

    def start(self, device: int = 0) -> int:
        """Initialise, and make the primary context of a device current."""
        self.call("cuInit", 0)
        context = self.get("cuDevicePrimaryCtxRetain", device)
        self.call("cuCtxSetCurrent", context)
        return context

    def stream(self) -> int:
        return self.get("cuStreamCreate", NON_BLOCKING)

    def event(self) -> int:
        return self.get("cuEventCreate", 0)

    def pool(self, max_size: int = 0) -> int:
        return self.get("cuMemPoolCreate", ctypes.byref(PoolProps(1, 0, 1, 0, None, max_size)))

    def alloc(self, size: int) -> int:
        return self.get("cuMemAlloc_v2", size)

    def pinned(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """Host memory that the device sees, at the same address."""
        address = self.get("cuMemHostAlloc", size, 0)
        return (ctypes.c_char * size).from_address(address)

    def write(self, address: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, address, size)
        return buffer.raw

    def module(self, image: bytes | None = None) -> int:
        return self.get("cuModuleLoadData", image or all_kernels())

    def kernel(self, name: str, module: int = 0) -> int:
        """A kernel of a module, by default of one with all kernels of the fake."""
        return self.get("cuModuleGetFunction", module or self.module(), name.encode())

    def launch_code(self, kernel: int, *params: bytes, stream: int = 0, **how: Any) -> int:
        """Launch; return the result code. `how`: grid, block, shared, buffer (of packed parameters)."""
        grid, block = how.get("grid", (1, 1, 1)), how.get("block", (1, 1, 1))
        values = [ctypes.create_string_buffer(param, len(param)) for param in params]
        pointers = (ctypes.c_void_p * (len(values) + 1))(*map(ctypes.addressof, values)) if values else None
        extra = None
        if "buffer" in how:
            buffer = ctypes.create_string_buffer(how["buffer"])
            size = ctypes.c_size_t(len(how["buffer"]))
            extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        return self.code("cuLaunchKernel", kernel, *grid, *block, how.get("shared", 0), stream, pointers, extra)

    def launch(self, kernel: int, *params: bytes, stream: int = 0, **how: Any) -> None:
        code = self.launch_code(kernel, *params, stream=stream, **how)
        if code:
            raise DriverError("cuLaunchKernel", code)

    def add_one(self, kernel: int, address: int, count: int, stream: int = 0) -> None:
        self.launch(kernel, struct.pack("<Q", address), struct.pack("<I", count), stream=stream)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    """The fake as before its first call; no work of it runs on afterwards."""
    driver = FakeDriver()
    driver.reset()
    yield driver
    driver.reset()
    assert driver.number("threads") == 0


@pytest.fixture
def bare(fake: FakeDriver) -> Rig:
    """The fake before cuInit."""
    return Rig(fake)


@pytest.fixture
def rig(bare: Rig) -> Rig:
    """The fake with a context that is current in this thread."""
    bare.start()
    return bare


def in_thread(work: Callable[[], int]) -> int:
    """Runs `work` in a thread of its own and returns its result."""
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]
