"""The rules of the fake CUDA driver: memory, copies and fills."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.fake_cuda_rig import (
    ALREADY_REGISTERED,
    ILLEGAL_ADDRESS,
    INVALID_VALUE,
    NOT_REGISTERED,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    PORTABLE_AND_MAPPED,
    SUCCESS,
    Rig,
    fake,
)

__all__ = ["fake"]

MIB = 1 << 20


@pytest.fixture
def rig(fake: FakeDriver) -> Rig:
    made = Rig(fake)
    fake.set(f"memory {64 * MIB}")
    made.start()
    return made


def alloc_code(rig: Rig, size: int) -> int:
    return rig.code("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), size)


def pool_alloc(rig: Rig, size: int, pool: int, stream: int) -> int:
    return rig.get("cuMemAllocFromPoolAsync", size, pool, stream)


# ---- allocations ---------------------------------------------------------------------------------


def test_the_host_has_nothing_at_device_addresses(rig: Rig) -> None:
    address = rig.alloc(4096)
    with open("/proc/self/mem", "rb", buffering=0) as memory, pytest.raises(OSError, match="Input/output error"):
        os.pread(memory.fileno(), 1, address)


def test_addresses_are_aligned_and_never_used_twice(rig: Rig) -> None:
    first = rig.alloc(1)
    rig.call("cuMemFree_v2", first)
    second = rig.alloc(1)
    assert first % 512 == second % 512 == 0
    assert first != second


def test_memory_of_a_device_is_limited(rig: Rig) -> None:
    address = rig.alloc(40 * MIB)
    assert alloc_code(rig, 24 * MIB + 1) == OUT_OF_MEMORY
    rig.call("cuMemFree_v2", address)
    assert alloc_code(rig, 24 * MIB + 1) == SUCCESS


def test_memory_is_counted(rig: Rig) -> None:
    rig.alloc(3 * MIB)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    rig.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    assert (free.value, total.value) == (61 * MIB, 64 * MIB)


def test_fresh_memory_is_not_zero(rig: Rig) -> None:
    assert rig.read(rig.alloc(100), 100) == b"\xcd" * 100


def test_an_allocation_of_nothing_is_refused(rig: Rig) -> None:
    assert alloc_code(rig, 0) == INVALID_VALUE


def test_freeing_twice_is_misuse(rig: Rig) -> None:
    address = rig.alloc(100)
    rig.call("cuMemFree_v2", address)
    assert rig.code("cuMemFree_v2", address) == INVALID_VALUE
    assert rig.fake.misuses() == [f"{address:#x} (1 bytes) is not allocated"]


def test_freeing_an_address_inside_an_allocation_is_misuse(rig: Rig) -> None:
    address = rig.alloc(100)
    assert rig.code("cuMemFree_v2", address + 8) == INVALID_VALUE
    assert rig.fake.misuses() == [f"{address + 8:#x} is to be freed, but is not the start of an allocation"]


# ---- pools ---------------------------------------------------------------------------------------


def test_memory_of_a_pool_can_be_used_in_its_streams_order(rig: Rig) -> None:
    pool, stream = rig.pool(), rig.stream()
    address = pool_alloc(rig, 4, pool, stream)
    rig.call("cuMemsetD32Async", address, 5, 1, stream)
    rig.call("cuMemFreeAsync", address, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.fake.misuses() == []
    assert rig.fake.alive() == {"contexts": 1, "streams": 1, "pools": 1}


def test_unordered_use_of_pool_memory_in_other_streams_is_misuse(rig: Rig) -> None:
    pool, first, second = rig.pool(), rig.stream(), rig.stream()
    rig.launch(rig.kernel("hang"), stream=first)
    address = pool_alloc(rig, 4, pool, first)
    rig.call("cuMemsetD32Async", address, 5, 1, second)
    assert rig.code("cuStreamSynchronize", second) == ILLEGAL_ADDRESS
    assert rig.fake.misuses() == [
        f"{address:#x} was used before its allocation happened, in another stream's order",
    ]


def test_a_pool_has_a_limit(rig: Rig) -> None:
    pool, stream = rig.pool(MIB), rig.stream()
    address = pool_alloc(rig, MIB, pool, stream)
    taken = ctypes.byref(ctypes.c_uint64())
    assert rig.code("cuMemAllocFromPoolAsync", taken, 1, pool, stream) == OUT_OF_MEMORY
    rig.call("cuMemFreeAsync", address, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.code("cuMemAllocFromPoolAsync", taken, 1, pool, stream) == SUCCESS


def test_use_of_memory_after_its_free_was_submitted_is_misuse(rig: Rig) -> None:
    pool, stream = rig.pool(), rig.stream()
    address = pool_alloc(rig, 4, pool, stream)
    rig.fake.hold()
    rig.call("cuMemFreeAsync", address, stream)
    assert rig.code("cuMemsetD32Async", address, 5, 1, stream) == INVALID_VALUE
    assert rig.fake.misuses() == [f"{address:#x} was used after it was freed"]


def test_freeing_memory_of_a_running_kernel_is_misuse(rig: Rig) -> None:
    pool, first, second = rig.pool(), rig.stream(), rig.stream()
    address = pool_alloc(rig, 4, pool, first)
    rig.launch(rig.kernel("hang_on"), struct.pack("<Q", address), stream=first)
    rig.fake.await_hanging()
    rig.call("cuMemFreeAsync", address, second)
    while not rig.fake.misuses():
        pass
    rig.fake.release()
    rig.call("cuStreamSynchronize", second)
    assert rig.fake.misuses() == [f"{address:#x} was freed while 1 operations used it"]


def test_a_pool_reports_its_usage(rig: Rig) -> None:
    pool, stream, value = rig.pool(), rig.stream(), ctypes.c_uint64(2**64 - 1)
    rig.call("cuMemPoolSetAttribute", pool, 4, ctypes.byref(value))
    addresses = [pool_alloc(rig, MIB, pool, stream) for _ in range(3)]
    rig.call("cuMemFreeAsync", addresses[0], stream)
    rig.call("cuStreamSynchronize", stream)

    def attribute(key: int) -> int:
        rig.call("cuMemPoolGetAttribute", pool, key, ctypes.byref(value))
        return value.value

    assert [attribute(key) for key in (4, 5, 7, 8)] == [2**64 - 1, 3 * MIB, 2 * MIB, 3 * MIB]
    rig.call("cuMemPoolTrimTo", pool, 0)
    assert attribute(5) == 2 * MIB


def test_destroying_a_pool_with_memory_in_use_is_misuse(rig: Rig) -> None:
    pool = rig.pool()
    pool_alloc(rig, 100, pool, rig.stream())
    rig.call("cuMemPoolDestroy", pool)
    assert rig.fake.misuses() == ["a memory pool was destroyed with 100 bytes in use"]


# ---- host memory ---------------------------------------------------------------------------------


def test_registered_memory_has_a_device_address_of_its_own(rig: Rig) -> None:
    host = ctypes.create_string_buffer(b"hello", 64)
    rig.call("cuMemHostRegister_v2", host, 64, PORTABLE_AND_MAPPED)
    address = rig.get("cuMemHostGetDevicePointer_v2", ctypes.addressof(host) + 1, 0)
    assert address != ctypes.addressof(host) + 1
    target = rig.alloc(4)
    rig.call("cuMemcpyDtoD_v2", target, address, 4)
    assert rig.read(target, 4) == b"ello"
    rig.call("cuMemHostUnregister", host)


def test_memory_that_is_registered_without_a_mapping_has_no_address(rig: Rig) -> None:
    host = ctypes.create_string_buffer(64)
    rig.call("cuMemHostRegister_v2", host, 64, 1)
    value = ctypes.byref(ctypes.c_uint64())
    assert rig.code("cuMemHostGetDevicePointer_v2", value, host, 0) == INVALID_VALUE
    assert "was registered without DEVICEMAP" in rig.fake.misuses()[-1]
    rig.call("cuMemHostUnregister", host)


def test_memory_can_be_registered_only_once(rig: Rig) -> None:
    host = ctypes.create_string_buffer(64)
    rig.call("cuMemHostRegister_v2", host, 64, PORTABLE_AND_MAPPED)
    assert rig.code("cuMemHostRegister_v2", ctypes.addressof(host) + 32, 64, 3) == ALREADY_REGISTERED
    rig.call("cuMemHostUnregister", host)
    assert rig.code("cuMemHostUnregister", host) == NOT_REGISTERED


def test_writes_to_unregistered_memory_are_refused(rig: Rig) -> None:
    host = ctypes.create_string_buffer(64)
    rig.call("cuMemHostRegister_v2", host, 64, PORTABLE_AND_MAPPED)
    address = rig.get("cuMemHostGetDevicePointer_v2", host, 0)
    rig.call("cuMemHostUnregister", host)
    assert rig.code("cuMemsetD8Async", address, 1, 64, rig.stream()) == INVALID_VALUE


# ---- copies and fills ----------------------------------------------------------------------------


def test_copied_bytes_come_back(rig: Rig) -> None:
    address = rig.alloc(1000)
    rig.write(address + 3, b"hello")
    assert rig.read(address + 2, 7) == b"\xcdhello\xcd"


def test_copies_out_of_bounds_are_refused(rig: Rig) -> None:
    address = rig.alloc(8)
    assert rig.code("cuMemcpyHtoD_v2", address + 4, b"hello", 5) == INVALID_VALUE
    assert rig.fake.misuses() == [f"{address + 4:#x} (5 bytes) is not allocated"]


def test_pageable_memory_is_read_when_a_copy_is_submitted(rig: Rig) -> None:
    address, stream, data = rig.alloc(5), rig.stream(), ctypes.create_string_buffer(b"first")
    rig.fake.hold()
    rig.call("cuMemcpyHtoDAsync_v2", address, data, 5, stream)
    data.value = b"later"
    rig.fake.go_on()
    rig.call("cuStreamSynchronize", stream)
    assert rig.read(address, 5) == b"first"


def test_pinned_memory_is_read_when_a_copy_runs(rig: Rig) -> None:
    address, stream, data = rig.alloc(5), rig.stream(), rig.pinned(5)
    data.raw = b"first"
    rig.fake.hold()
    rig.call("cuMemcpyHtoDAsync_v2", address, data, 5, stream)
    data.raw = b"later"
    rig.fake.go_on()
    rig.call("cuStreamSynchronize", stream)
    assert rig.read(address, 5) == b"later"


def test_a_copy_to_pageable_memory_is_waited_for(rig: Rig) -> None:
    address, stream, data = rig.alloc(4), rig.stream(), ctypes.create_string_buffer(4)
    rig.call("cuMemsetD32Async", address, 0x01010101, 1, stream)
    rig.call("cuMemcpyDtoHAsync_v2", data, address, 4, stream)
    assert data.raw == b"\1\1\1\1"


def test_copies_that_overlap_are_misuse(rig: Rig) -> None:
    address = rig.alloc(100)
    rig.call("cuMemcpyDtoD_v2", address, address + 10, 50)
    assert "source and destination overlap" in rig.fake.misuses()[-1]


def test_a_copy_recognises_host_and_device_addresses(rig: Rig) -> None:
    address, host = rig.alloc(5), ctypes.create_string_buffer(b"hello")
    stream = rig.stream()
    rig.call("cuMemcpyAsync", address, ctypes.addressof(host), 5, stream)
    host.value = b"....."
    rig.call("cuMemcpyAsync", ctypes.addressof(host), address, 5, stream)
    assert host.value == b"hello"


@pytest.mark.parametrize(("name", "value", "unit"), [("D8", 0x11, 1), ("D16", 0x2211, 2), ("D32", 0x44332211, 4)])
def test_fills_repeat_a_value(rig: Rig, name: str, value: int, unit: int) -> None:
    address, pattern = rig.alloc(64), bytes(range(0x11, 0x55, 0x11))[:unit]
    rig.call(f"cuMemset{name}_v2", address, value, 24 // unit)
    assert rig.read(address, 26) == pattern * (24 // unit) + b"\xcd\xcd"


def test_fills_of_rows_skip_the_gaps(rig: Rig) -> None:
    address, stream = rig.alloc(24), rig.stream()
    rig.call("cuMemsetD2D32Async", address + 4, 8, 0, 1, 3, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.read(address, 24) == (b"\xcd" * 4 + bytes(4)) * 3


@pytest.mark.parametrize("name", ["cuMemsetD16Async", "cuMemsetD32Async"])
def test_fills_are_aligned(rig: Rig, name: str) -> None:
    assert rig.code(name, rig.alloc(16) + 1, 0, 1, rig.stream()) == INVALID_VALUE


@pytest.mark.parametrize("size", [4, 8])
def test_a_value_is_written_in_a_streams_order(rig: Rig, size: int) -> None:
    stream, host = rig.stream(), rig.pinned(8)
    host.raw = bytes(8)
    value = 0x0807060504030201 & (1 << 8 * size) - 1
    rig.launch(rig.kernel("hang"), stream=stream)
    rig.call(f"cuStreamWriteValue{8 * size}_v2", stream, ctypes.addressof(host), value, 0)
    rig.fake.await_hanging()
    assert host.raw == bytes(8)
    rig.fake.release()
    rig.call("cuStreamSynchronize", stream)
    assert host.raw == value.to_bytes(8, "little")


def test_written_values_need_a_device_that_supports_them(fake: FakeDriver) -> None:
    rig = Rig(fake)
    fake.set("stream_memops 0")
    rig.start()
    host = rig.pinned(8)
    assert rig.get("cuDeviceGetAttribute", 122, 0, kind=ctypes.c_int) == 0
    assert rig.code("cuStreamWriteValue32_v2", rig.stream(), ctypes.addressof(host), 1, 0) == NOT_SUPPORTED


def test_attributes_of_a_pointer_name_its_memory(rig: Rig) -> None:
    address, value = rig.alloc(100), ctypes.c_uint64()
    found = []
    for key in (2, 9, 11, 12):
        value.value = 0
        rig.call("cuPointerGetAttribute", ctypes.byref(value), key, address + 5)
        found.append(value.value)
    assert found == [2, 0, address, 100]
    assert rig.code("cuPointerGetAttribute", ctypes.byref(value), 2, 0x1000) == INVALID_VALUE
