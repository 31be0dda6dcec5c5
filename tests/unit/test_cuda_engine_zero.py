"""Device memory is zero when a VM gets it, on the fake driver, whose new memory never is."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from tests.unit.cuda_direct import Direct, direct
from tests.unit.cuda_rig import CUDA_LIMITS, MIB, fake_driver, plane
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from virtio_proto.schema import Opcode, Status

ALIGN: Final = 512
GRANULE: Final = 2 * MIB
QUOTA: Final = 64 * MIB
BOUND: Final = QUOTA + 64 * MIB
SCRATCH: Final = 4 * MIB
OUT_OF_MEMORY: Final = 2
KINDS: Final = {"pool": lib.VGC_CUDA_POOL, "mapped": lib.VGC_CUDA_MAPPED}
STEPS: Final = ("cuMemsetD8Async", "cuEventRecord")
"""Calls that make memory zero, and order its users behind that."""


@pytest.fixture(params=KINDS)
def gpu(request: pytest.FixtureRequest) -> Iterator[Direct]:
    with direct(memory_kind=KINDS[request.param]) as made:
        yield made


@pytest.fixture
def pool() -> Iterator[Direct]:
    with direct() as made:
        yield made


@pytest.fixture
def mapped() -> Iterator[Direct]:
    with direct(memory_kind=lib.VGC_CUDA_MAPPED) as made:
        yield made


def code(gpu: Direct, size: int) -> tuple[int, int]:
    """Result and address of an allocation; the caller frees it."""
    address = ffi.new("uint64_t *")
    return int(gpu.handle.ops.alloc(gpu.handle, size, address)), int(address[0])


def free(gpu: Direct, *addresses: int) -> None:
    for address in addresses:
        assert gpu.handle.ops.free(gpu.handle, address, 1) == 0


def settle(gpu: Direct) -> None:
    """Waits until all fills have ended."""
    until(gpu.pause)
    gpu.resume()


def go_on(gpu: Direct) -> None:
    """Lets the GPU work again, and waits until all fills have ended."""
    gpu.driver.go_on()
    settle(gpu)


def is_zero(gpu: Direct, address: int, size: int) -> bool:
    return not np.frombuffer(gpu.read(address, size), np.uint8).any()


# ---- contents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, ALIGN, 3 * MIB + ALIGN, QUOTA])
def test_new_memory_is_zero(gpu: Direct, size: int) -> None:
    assert is_zero(gpu, gpu.alloc(size), size)


@pytest.mark.parametrize("size", [20, 2 * MIB, 15 * MIB])
def test_users_in_all_streams_wait_for_the_zeros(gpu: Direct, size: int) -> None:
    """A kernel, a copy and a fill, submitted while the GPU does nothing yet."""
    out = mmap.mmap(-1, size)
    out.write(b"\xff" * size)
    gpu.map_region(out)
    gpu.driver.hold()
    first, second, third = (gpu.alloc(size) for _ in range(3))
    ops = (
        gpu.add_one(first, 5, stream=1),
        gpu.copy(lib.VGC_OPK_COPY_OUT, second, out, stream=2),
        gpu.fill(third, 10, 7, stream=3),
    )
    gpu.poll()
    gpu.driver.go_on()
    gpu.wait(*ops)
    assert gpu.read(first, 20) == b"\1\0\0\0" * 5
    assert not any(out[:])
    assert gpu.read(third, 12) == b"\7" * 10 + b"\0\0"


def test_copies_that_the_driver_waits_for_begin_behind_the_zeros(gpu: Direct) -> None:
    """The driver does a copy to unregistered memory before it returns: no call may begin one while fills wait."""
    gpu.driver.hold()
    out = bytearray(b"\xff" * MIB)
    copy = gpu.copy(lib.VGC_OPK_COPY_OUT, gpu.alloc(MIB), out)
    gpu.poll()
    assert gpu.driver.count("cuMemcpyDtoHAsync_v2") == 0
    gpu.driver.go_on()
    gpu.wait(copy)
    assert not any(out)


def test_memory_of_the_pool_is_zeroed_each_time(pool: Direct) -> None:
    """The driver does not tell what it reuses."""
    for _ in range(5):
        address = pool.alloc(10 * MIB)
        assert is_zero(pool, address, 10 * MIB)
        pool.wait(pool.fill(address, 10 * MIB, 0xA5))
        free(pool, pool._allocations.pop())


def test_placed_memory_is_zero(mapped: Direct) -> None:
    """Memory at another worker's addresses, as in a migration."""
    base, size = mapped.engine.addresses[0] + 9 * GRANULE - ALIGN, 5 * MIB + ALIGN
    assert mapped.handle.ops.alloc_at(mapped.handle, base, size) == 0
    assert is_zero(mapped, base, size)
    free(mapped, base)


def test_neighbours_in_a_granule_keep_their_contents(mapped: Direct) -> None:
    """A granule is zeroed once, before its first use."""
    first = mapped.alloc(1000)
    mapped.wait(mapped.fill(first, 1000, 9))
    second = mapped.alloc(3 * MIB)
    assert is_zero(mapped, second, 3 * MIB)
    assert mapped.read(first, 1000) == b"\x09" * 1000


def test_memory_that_was_with_the_gpu_meanwhile_is_zero(mapped: Direct) -> None:
    """A different VM may have had it. Memory beyond half of the bound is returned, and comes from the driver again."""
    halves = [mapped.alloc(QUOTA - SCRATCH) for _ in range(2)]
    mapped.wait(*(mapped.fill(address, QUOTA - SCRATCH, 0xA5) for address in halves))
    free(mapped, *halves)
    created = mapped.driver.count("cuMemCreate")
    for address in halves:
        assert mapped.handle.ops.alloc_at(mapped.handle, address, QUOTA - SCRATCH) == 0
    assert mapped.driver.count("cuMemCreate") > created
    assert any(is_zero(mapped, address, QUOTA - SCRATCH) for address in halves)


def test_large_memory_takes_one_fill(gpu: Direct) -> None:
    before = gpu.driver.count("cuMemsetD8Async")
    gpu.alloc(QUOTA)
    assert gpu.driver.count("cuMemsetD8Async") == before + 1


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", STEPS)
def test_memory_that_cannot_be_zeroed_is_not_given(gpu: Direct, function: str) -> None:
    gpu.driver.inject(function, OUT_OF_MEMORY)
    assert code(gpu, QUOTA)[0] == -errno.ENOMEM
    address = gpu.alloc(QUOTA)
    assert is_zero(gpu, address, QUOTA)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", STEPS)
def test_a_failed_fill_leaves_the_quota_unused(kind: str, function: str) -> None:
    with (
        fake_driver() as driver,
        plane(driver, CUDA_LIMITS, completion=lib.VGC_CUDA_MEMORY, memory_kind=KINDS[kind]) as rig,
    ):
        context = rig.context()
        before = rig.usage().memory_used_bytes
        driver.inject(function, OUT_OF_MEMORY)
        reply = rig.driver.request(Opcode.ALLOC, {"size": QUOTA}, context=context)
        assert reply.status is Status.OUT_OF_MEMORY
        assert rig.usage().memory_used_bytes == before
        reply = rig.driver.request(Opcode.ALLOC, {"size": QUOTA}, context=context)
        assert reply.status is Status.OK
        copied = rig.driver.request(
            Opcode.COPY_OUT, {"src": reply.value, "size": 4096}, context=context, writable_len=8192
        )
        assert not any(copied.payload)


# ---- a GPU that has no room for fills ------------------------------------------------------------


def test_memory_is_not_unmapped_while_it_is_zeroed(mapped: Direct) -> None:
    """Frees succeed and keep the memory; allocations that need it fail, and only the first of them waits."""
    mapped.driver.hold()
    free(mapped, *[code(mapped, size)[1] for size in (60 * MIB, 40 * MIB)])
    base, _ = mapped.engine.addresses
    assert mapped.handle.ops.alloc_at(mapped.handle, base, BOUND - SCRATCH) == -errno.ENOMEM
    assert mapped.driver.count("cuMemUnmap") == 0
    go_on(mapped)
    assert is_zero(mapped, mapped.alloc(QUOTA), QUOTA)


def test_allocations_never_fill_the_drivers_queue() -> None:
    """The driver would block the data plane's thread, which could not end the kernel that holds the GPU."""
    with direct("queue_depth 300") as gpu:
        old = [code(gpu, ALIGN)[1] for _ in range(400)]
        settle(gpu)
        gpu.driver.hold()
        given: list[int] = []
        while (found := code(gpu, ALIGN))[0] == 0:
            given.append(found[1])
        assert 40 <= len(given) <= 90
        free(gpu, *old, *given)
        assert gpu.driver.number("blocked") == 0
        go_on(gpu)
        for _ in range(2):
            address = gpu.alloc(QUOTA)
            assert is_zero(gpu, address, QUOTA)
            free(gpu, gpu._allocations.pop())


def test_late_frees_are_done_at_the_end() -> None:
    """The rig finds that nothing is left behind in the driver."""
    with direct() as gpu:
        old = [code(gpu, ALIGN)[1] for _ in range(400)]
        gpu.driver.hold()
        free(gpu, *old)
        gpu.driver.go_on()


def test_a_pause_waits_for_fills(gpu: Direct) -> None:
    """Loading a program may make the driver wait for them."""
    gpu.driver.hold()
    gpu.alloc(MIB)
    assert not gpu.pause()
    go_on(gpu)
