"""Copies and fills of the CUDA engine: the VM's region, memory that is not registered, overlapping copies."""

from __future__ import annotations

import errno
import mmap
import struct

import pytest

from tests.unit.cuda_direct import Direct, gpu, words
from tests.unit.cuda_rig import MIB
from vhost_backend._dataplane import ffi, lib

__all__ = ["gpu", "words"]

COPY_IN, COPY_OUT = lib.VGC_OPK_COPY_IN, lib.VGC_OPK_COPY_OUT


def pattern(size: int, step: int = 7) -> bytearray:
    return bytearray(i * step % 251 for i in range(size))


@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_registered_memory_is_copied_without_waiting(gpu: Direct, pieces: int) -> None:
    """Copies are queued in the stream between launches, without a wait."""
    region = mmap.mmap(-1, MIB)
    assert gpu.map_region(region) != 0
    address = gpu.alloc(4000)
    with memoryview(region) as view:
        view[:4000] = struct.pack("<1000I", *range(1000))
        gpu.driver.hold()
        ops = [
            gpu.copy(COPY_IN, address, view[:4000], min(pieces, 20)),
            gpu.add_one(address, 1000),
            gpu.copy(COPY_OUT, address, view[8000:12000], min(pieces, 20)),
        ]
        gpu.poll()
        assert gpu.driver.count("cuMemcpyDtoHAsync_v2") == min(pieces, 20)
        gpu.driver.go_on()
        gpu.wait(*ops)
        assert bytes(view[8000:12000]) == struct.pack("<1000I", *range(1, 1001))


@pytest.mark.parametrize("size", [1, 1000, MIB, 3 * MIB + 5])
@pytest.mark.parametrize("pieces", [1, 7])
def test_memory_that_is_not_registered_is_copied_too(gpu: Direct, size: int, pieces: int) -> None:
    pieces = min(pieces, size)
    data, found = pattern(size), bytearray(size)
    address = gpu.alloc(size)
    gpu.wait(gpu.copy(COPY_IN, address, data, pieces), gpu.copy(COPY_OUT, address, found, pieces))
    assert found == data


def test_copies_of_unregistered_memory_wait_until_their_lane_is_idle(gpu: Direct) -> None:
    """The driver may wait for the stream, so no kernel may be in it."""
    address, data = gpu.alloc(100), pattern(100)
    ops = [gpu.launch("hang"), gpu.copy(COPY_IN, address, data), gpu.launch("empty")]
    gpu.driver.await_hanging()
    gpu.poll()
    assert gpu.driver.count("cuMemcpyHtoDAsync_v2") == 0
    gpu.driver.release()
    gpu.wait(*ops)
    assert gpu.read(address, 100) == data


def test_copies_between_the_region_and_itself(gpu: Direct) -> None:
    """Whatever addresses name both places, no driver call waits for other streams."""
    region = mmap.mmap(-1, 4 * MIB)
    base = gpu.map_region(region)
    data = pattern(MIB)
    calls = [f"cuMemcpy{kind}Async_v2" for kind in ("HtoD", "DtoH", "DtoD")]
    with memoryview(region) as view:
        view[:MIB] = data
        gpu.wait(gpu.copy(COPY_IN, base + MIB, view[:MIB], 3))
        gpu.wait(gpu.copy(COPY_OUT, base + MIB, view[2 * MIB : 3 * MIB], 5))
        gpu.wait(gpu.move(base + 2 * MIB, base + 3 * MIB, MIB))
        gpu.wait(gpu.move(base + 3 * MIB, base + 3 * MIB - 100, MIB))
        assert view[3 * MIB - 100 : 4 * MIB - 100] == data
    assert [gpu.driver.count(name) for name in calls] == [0, 0, 0]


def test_copies_between_region_and_gpu_by_device_addresses(gpu: Direct) -> None:
    region = mmap.mmap(-1, MIB)
    base = gpu.map_region(region)
    address = gpu.alloc(1000)
    with memoryview(region) as view:
        view[:1000] = pattern(1000)
        gpu.wait(gpu.move(base, address, 1000), gpu.move(address, base + 5000, 1000))
        assert view[5000:6000] == pattern(1000)


@pytest.mark.parametrize("shift", [1, 4096, 5 * MIB])
@pytest.mark.parametrize("forward", [True, False])
def test_large_overlapping_copies_are_right(words: Direct, shift: int, forward: bool) -> None:
    """They take more than one step."""
    size = 36 * MIB
    address = words.alloc(size + shift)
    data = bytes(range(251)) * (size // 251 + 1)
    src, dst = (address, address + shift) if forward else (address + shift, address)
    words.wait(words.copy(COPY_IN, src, bytearray(data[:size])))
    words.wait(words.move(src, dst, size))
    assert words.read(dst, size) == data[:size]


def test_overlapping_copies_of_several_lanes_share_the_scratch(gpu: Direct) -> None:
    addresses = [gpu.alloc(5 * MIB) for _ in range(3)]
    data = pattern(4 * MIB + 100)
    for address in addresses:
        gpu.wait(gpu.copy(COPY_IN, address, data))
    gpu.wait(*(gpu.move(address, address + 50, len(data), stream=i) for i, address in enumerate(addresses)))
    assert all(gpu.read(address + 50, len(data)) == data for address in addresses)


@pytest.mark.parametrize("count", [1, 3, 8192, 8193, 100_001])
@pytest.mark.parametrize("value", [0x1122334455667788, 0x5566778855667788])
def test_fills_repeat_units_of_eight_bytes(gpu: Direct, count: int, value: int) -> None:
    address = gpu.alloc(8 * count + 8)
    gpu.wait(gpu.fill(address, 8 * count + 8, 0xEE))
    gpu.wait(gpu.fill(address, 8 * count, value, 8))
    assert gpu.read(address, 8 * count + 8) == struct.pack("<Q", value) * count + b"\xee" * 8


def test_the_region_can_be_filled(gpu: Direct) -> None:
    region = mmap.mmap(-1, MIB)
    base = gpu.map_region(region)
    gpu.wait(gpu.fill(base + 100, 50, 0x2A))
    assert region[99:151] == b"\0" + b"*" * 50 + b"\0"


def test_a_region_that_cannot_be_registered_is_no_error(gpu: Direct) -> None:
    gpu.driver.inject("cuMemHostRegister_v2", 2)
    region = mmap.mmap(-1, MIB)
    assert gpu.map_region(region) == 0
    address = gpu.alloc(100)
    with memoryview(region) as view:
        view[:100] = pattern(100)
        gpu.wait(gpu.copy(COPY_IN, address, view[:100]))
    assert gpu.read(address, 100) == pattern(100)


def test_the_pool_keeps_what_is_freed(words: Direct) -> None:
    """The driver's default is to return it to the GPU at every synchronisation."""
    (call,) = words.driver.calls("cuMemPoolSetAttribute")
    assert "threshold=0xffffffffffffffff" in call


def test_the_pools_limit_is_a_little_above_the_quota(words: Direct) -> None:
    """The data plane enforces the quota; the pool's limit is a second one, in the driver, and a little larger."""
    address, taken = ffi.new("uint64_t *"), []
    while words.handle.ops.alloc(words.handle, 8 * MIB, address) == 0:
        taken.append(address[0])
    assert 8 <= len(taken) <= 16
    for held in taken:
        assert words.handle.ops.free(words.handle, held, 8 * MIB) == 0


def test_the_pool_is_trimmed_before_an_allocation_fails(words: Direct) -> None:
    words.driver.inject("cuMemAllocFromPoolAsync", 2)
    words.alloc(1000)
    assert words.driver.count("cuMemPoolTrimTo") == 1


@pytest.mark.parametrize("trim_error", [0, 1])
def test_a_failed_allocation_fails_the_request_only(words: Direct, trim_error: int) -> None:
    words.driver.inject("cuMemAllocFromPoolAsync", 2, times=2)
    if trim_error:
        words.driver.inject("cuMemPoolTrimTo", trim_error)
    address = ffi.new("uint64_t *")
    assert words.handle.ops.alloc(words.handle, 1000, address) == -errno.ENOMEM
    words.driver.inject("cuMemAllocFromPoolAsync", 2, times=0)
