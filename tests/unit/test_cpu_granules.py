"""Device memory of the CPU engine where allocations have no guard pages: as GPUs' drivers give it."""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, rig
from vhost_backend._dataplane import ffi
from vhost_backend.engines.cpu import CpuEngine

KIB, MIB = 1 << 10, 1 << 20
GRANULE = 2 * MIB
BETWEEN = 512
"""Bytes between small allocations, on GPUs as here."""
LARGEST_SMALL = 256 * KIB
EEXIST, EINVAL, ENOMEM = 17, 22, 12
PAGE = 4096
ARENA = 0x2100_0000_0000, 1 << 40
"""Addresses that nothing else in this process gets."""
SIZES = [1, 511, 512, 513, 4095, 4096, 65537, LARGEST_SMALL, LARGEST_SMALL + 1, MIB, 5 * MIB]

SOURCE = r"""
extern "C" __global__ void sum(const char *from, int first, int last, int *out) {
    int total = 0;
    for (int i = first + threadIdx.x; i < last; i += blockDim.x) total += from[i];
    atomicAdd(out, total);
}
extern "C" __global__ void fill(char *to, int first, int last) {
    for (int i = first + threadIdx.x; i < last; i += blockDim.x) to[i] = 7;
}
"""


@pytest.fixture
def gpu() -> Iterator[Rig]:
    with rig(guard_pages=False) as made:
        yield made


def bytes_at(address: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(ffi.buffer(ffi.cast("char *", address), size), np.uint8)


def free(gpu: Rig, address: int) -> None:
    (index,) = [i for i, (at, _) in enumerate(gpu.allocations) if at == address]
    _, size = gpu.allocations.pop(index)
    assert gpu.engine.handle.ops.free(gpu.engine.handle, address, size) == 0


def alloc_at(gpu: Rig, address: int, size: int) -> int:
    error = int(gpu.engine.handle.ops.alloc_at(gpu.engine.handle, address, size))
    if error == 0:
        gpu.allocations.append((address, size))
    return error


def resident_pages(address: int, size: int) -> int:
    """Pages of the range that the host keeps; -1: it is not mapped."""
    first = address & ~(PAGE - 1)
    pages = (address + size - first + PAGE - 1) // PAGE
    states = (ctypes.c_ubyte * pages)()
    if ctypes.CDLL(None).mincore(ctypes.c_void_p(first), ctypes.c_size_t(pages * PAGE), states) != 0:
        return -1
    return sum(state & 1 for state in states)


def test_small_allocations_lie_behind_one_another(gpu: Rig) -> None:
    first, second, third = gpu.alloc(100), gpu.alloc(BETWEEN + 1), gpu.alloc(1)
    assert (second - first, third - second) == (BETWEEN, 2 * BETWEEN)


def test_allocations_of_whole_pages_begin_with_a_page(gpu: Rig) -> None:
    gpu.alloc(1)
    assert {gpu.alloc(size) % PAGE for size in SIZES if size % PAGE == 0} == {0}
    assert (gpu.alloc(PAGE + 1) + BETWEEN * 9) == gpu.alloc(1)


@pytest.mark.parametrize("size", SIZES)
def test_kernels_may_reach_a_little_beyond_an_allocation(gpu: Rig, size: int) -> None:
    gpu.load(SOURCE)
    out = gpu.array(MIB, np.int32)  # large, so that it is no neighbour
    memory = gpu.array(size, np.int8, 1)
    gpu.launch("fill", 1, 32, memory, np.int32(-4 * KIB), np.int32(0))
    gpu.launch("fill", 1, 32, memory, np.int32(size), np.int32(size + 16 * KIB))
    assert (memory == 1).all()
    out[0] = 0
    gpu.launch("sum", 1, 32, memory, np.int32(-4 * KIB), np.int32(size + 16 * KIB), out)
    assert out[0] == 7 * 20 * KIB + size


def test_memory_is_new_whatever_was_written_there_before(gpu: Rig) -> None:
    gpu.load(SOURCE)
    for size in SIZES:
        for _ in range(20):
            memory = gpu.array(size, np.uint8, 5)
            gpu.launch("fill", 1, 32, memory, np.int32(size), np.int32(size + 16 * KIB))
            free(gpu, memory.ctypes.data)
    for size in SIZES:
        assert not bytes_at(gpu.alloc(size), size).any()


def test_random_allocations_keep_their_contents_and_overlap_nothing(gpu: Rig) -> None:
    chance = random.Random(1)
    live: dict[int, tuple[int, int]] = {}
    for step in range(4000):
        if live and chance.random() < (0.3 if step < 2000 else 0.7):
            address = chance.choice(sorted(live))
            size, mark = live.pop(address)
            assert (bytes_at(address, size) == mark).all()
            free(gpu, address)
        else:
            size, mark = int(2 ** chance.uniform(0, 19)), chance.randrange(1, 256)
            address = gpu.alloc(size)
            assert not bytes_at(address, size).any()
            bytes_at(address, size)[:] = mark
            live[address] = size, mark
    ends = sorted((address, address + size) for address, (size, _) in live.items())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
    for address, (size, mark) in live.items():
        assert (bytes_at(address, size) == mark).all()


def test_more_allocations_than_a_process_may_have_mappings(gpu: Rig) -> None:
    most = 70_000
    addresses = {gpu.alloc(600) for _ in range(most)}
    assert len(addresses) == most


def test_freed_pages_go_back_to_the_host(gpu: Rig) -> None:
    kept = gpu.alloc(1)
    freed = [gpu.alloc(100 * KIB) for _ in range(10)]
    for address in freed:
        bytes_at(address, 100 * KIB)[:] = 1
    assert sum(resident_pages(address, 100 * KIB) for address in freed) == 250
    for address in freed:
        free(gpu, address)
    assert sum(resident_pages(address, 100 * KIB) for address in freed) == 0
    bytes_at(kept, 1)[:] = 1


def test_pages_that_another_allocation_shares_stay(gpu: Rig) -> None:
    first, second = gpu.alloc(600), gpu.alloc(600)
    bytes_at(first, 600)[:] = 1
    bytes_at(second, 600)[:] = 2
    free(gpu, first)
    assert (bytes_at(second, 600) == 2).all()
    free(gpu, second)
    assert resident_pages(second, 600) == 0


def test_granules_without_allocations_are_unmapped(gpu: Rig) -> None:
    addresses = [gpu.alloc(LARGEST_SMALL) for _ in range(100)]
    for address in addresses:
        free(gpu, address)
    mapped = {address // GRANULE for address in addresses if resident_pages(address, 1) >= 0}
    assert len({address // GRANULE for address in addresses}) > 10
    assert len(mapped) == 1


def test_freed_addresses_are_not_given_again_at_once(gpu: Rig) -> None:
    gpu.alloc(1)
    seen = set()
    for _ in range(1000):
        address = gpu.alloc(100)
        assert address not in seen
        seen.add(address)
        free(gpu, address)


@pytest.mark.parametrize("size", SIZES)
def test_another_engine_gives_the_same_addresses(size: int) -> None:
    with rig(guard_pages=False) as source:
        source.engine.set_arena(*ARENA)
        addresses = [source.alloc(size) for _ in range(5)]
    with rig(guard_pages=False) as target:
        target.engine.set_arena(*ARENA)
        assert [alloc_at(target, address, size) for address in reversed(addresses)] == [0] * 5
        for address in addresses:
            assert not bytes_at(address, size).any()
            bytes_at(address, size)[:] = 1
        assert alloc_at(target, addresses[2], size) == -EEXIST


def test_addresses_that_no_engine_gives_are_refused(gpu: Rig) -> None:
    address = gpu.alloc(600)
    base = address // GRANULE * GRANULE
    assert alloc_at(gpu, address + 1, 600) == -EINVAL
    assert alloc_at(gpu, base, 600) == -EINVAL
    assert alloc_at(gpu, base + GRANULE - BETWEEN, 600) == -EINVAL
    assert alloc_at(gpu, BETWEEN, 600) == -EINVAL
    assert alloc_at(gpu, address, 0) == -EINVAL


def test_limits_of_a_worker_have_room_for_what_lies_beside_allocations() -> None:
    def more(**options: bool) -> int:
        engine = CpuEngine.open(options, 1, 64 * MIB, 10**9)
        needed = engine.needs.private_bytes
        engine.close()
        return needed

    assert more() - more(guard_pages=True) > 64 * MIB // 5
