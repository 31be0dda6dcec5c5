"""The CUDA engine's memory at chosen addresses (`memory: mapped`), on the fake driver."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.cuda_direct import Direct, direct
from tests.unit.cuda_rig import MIB, CHalf, fake_driver
from vhost_backend._dataplane import ffi, lib
from vhost_backend.errors import EngineError

GRANULE: Final = 2 * MIB
ALIGN: Final = 512
QUOTA: Final = 64 * MIB
SLACK: Final = 64 * MIB
BOUND: Final = QUOTA + SLACK
SCRATCH: Final = 4 * MIB
ARENA: Final = (0x2345_4000_0000, 1 << 40)
ENDLESS: Final = 1000


@pytest.fixture
def gpu() -> Iterator[Direct]:
    with direct(memory_kind=lib.VGC_CUDA_MAPPED) as made:
        yield made


class Memory:
    """Allocations of a started engine, without a data plane."""

    def __init__(self, driver: FakeDriver, engine: CHalf) -> None:
        self.driver, self.engine, self.handle = driver, engine, engine.handle

    def code(self, size: int) -> tuple[int, int]:
        address = ffi.new("uint64_t *")
        code = self.handle.ops.alloc(self.handle, size, address)
        return int(code), int(address[0])

    def alloc(self, size: int) -> int:
        code, address = self.code(size)
        assert code == 0
        return address

    def alloc_at(self, address: int, size: int) -> int:
        return int(self.handle.ops.alloc_at(self.handle, address, size))

    def free(self, *addresses: int) -> None:
        for address in addresses:
            assert self.handle.ops.free(self.handle, address, 1) == 0

    @property
    def held(self) -> int:
        """Bytes of the GPU's memory that are in use."""
        return self.driver.number("device_bytes")


@contextmanager
def memory(
    driver: FakeDriver,
    *,
    arena: tuple[int, int] | None = ARENA,
    base: int = 0,
    quota: int = QUOTA,
    kind: int = lib.VGC_CUDA_MAPPED,
) -> Iterator[Memory]:
    engine = CHalf(driver, memory_bytes=quota, memory_kind=kind)
    try:
        if arena is not None:
            engine.set_arena(*arena)
        lib.vgc_cuda_engine_set_base(engine.handle, base)
        engine.start()
        lib.vgc_engine_enter(engine.handle)
        yield Memory(driver, engine)
        lib.vgc_engine_leave(engine.handle)
    finally:
        engine.close()


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as driver:
        yield driver


# ---- addresses -----------------------------------------------------------------------------------


def test_addresses_are_at_the_top_of_the_arena(fake: FakeDriver) -> None:
    with memory(fake) as made:
        base, size = made.engine.addresses
        assert base + size == sum(ARENA)
        assert size >= 8 * QUOTA
        assert base <= made.alloc(MIB) < base + size


def test_the_host_has_the_arena_below(fake: FakeDriver) -> None:
    """Host and GPU share one address space, whether or not the driver reserves its part of it."""

    def host(at: int) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return int(ffi.cast("int64_t", lib.vgc_arena_map(made.handle, at, 4096, 4096, mmap.PROT_READ, flags, -1, 0)))

    with memory(fake) as made:
        base, _ = made.engine.addresses
        assert host(base - 4096) == base - 4096
        lib.vgc_arena_unmap(made.handle, ffi.cast("void *", base - 4096), 4096)
        assert (host(base), ffi.errno) == (-1, errno.EINVAL)


def test_the_daemons_arena_has_room_for_the_host(fake: FakeDriver) -> None:
    quota = 64 << 30
    with memory(fake, arena=(ARENA[0], 8 * quota), quota=quota) as made:
        base, size = made.engine.addresses
        assert size == 4 * quota
        assert base == ARENA[0] + 4 * quota


def test_without_an_arena_the_driver_chooses(fake: FakeDriver) -> None:
    with memory(fake, arena=None) as made:
        base, size = made.engine.addresses
        assert base <= made.alloc(MIB) < base + size


def test_a_different_range_is_tried_if_the_driver_refuses_one(fake: FakeDriver) -> None:
    fake.set("reserve_elsewhere 3")
    with memory(fake) as made:
        base, size = made.engine.addresses
        assert base == sum(ARENA) - size - 3 * ARENA[1] // 16
        assert fake.number("reservations") == 1


def test_a_driver_that_refuses_all_ranges_is_an_error_at_the_start(fake: FakeDriver) -> None:
    fake.set(f"reserve_elsewhere {ENDLESS}")
    with pytest.raises(EngineError, match=r"addresses for device memory are taken: .* in the VM's range"), memory(fake):
        pass
    assert fake.number("reservations") == 0


def test_a_second_worker_uses_the_given_base(fake: FakeDriver) -> None:
    fake.set("reserve_elsewhere 2")
    with memory(fake) as first:
        told = first.engine.addresses
    with memory(fake, base=told[0]) as second:
        assert second.engine.addresses == told


def test_a_second_worker_whose_base_is_taken_does_not_start(fake: FakeDriver) -> None:
    with memory(fake) as made:
        base = made.engine.addresses[0]
        with pytest.raises(EngineError, match=rf"are taken: \d+ bytes cannot be reserved at {base:#x}"):  # noqa: SIM117
            with memory(fake, base=base):
                pass


def test_the_pool_has_no_base(fake: FakeDriver) -> None:
    with memory(fake, kind=lib.VGC_CUDA_POOL) as made:
        assert made.engine.addresses == (0, 0)
        assert made.alloc_at(ARENA[0], 4096) == -errno.EINVAL


def test_the_error_about_a_gpu_without_mappings_names_the_other_option() -> None:
    with (
        fake_driver("vmm 0") as driver,
        pytest.raises(EngineError, match=r"cannot map memory at chosen addresses.*memory: pool.*NOT_SUPPORTED"),
        memory(driver),
    ):
        pass


@pytest.mark.parametrize(
    ("quota", "words"), [(1 << 45, "a quota of 35184372088832 bytes"), (1 << 40, "too few addresses")]
)
def test_a_quota_that_no_range_can_hold_is_refused(fake: FakeDriver, quota: int, words: str) -> None:
    with pytest.raises(EngineError, match=words), memory(fake, quota=quota):
        pass


# ---- migration: the same addresses in a second worker --------------------------------------------

SIZES: Final = (100, 5 * MIB, 64 << 10, 3 * MIB + 7, 2 * MIB, 1, 20 * MIB, ALIGN)


def session(made: Memory, sizes: Sequence[int] = SIZES) -> list[tuple[int, int]]:
    """Allocates and frees memory; returns the allocations that remain."""
    given = [(made.alloc(size), size) for size in sizes]
    made.free(*(address for address, _ in given[::3]))
    return given[1::3] + given[2::3] + [(made.alloc(size), size) for size in sizes[::3]]


def test_the_same_calls_give_the_same_addresses(fake: FakeDriver) -> None:
    with memory(fake) as first:
        expected = session(first)
    with memory(fake) as second:
        assert session(second) == expected


def test_allocations_are_placed_at_the_first_workers_addresses(fake: FakeDriver) -> None:
    """They may be placed in any order, and later allocations avoid them."""
    with memory(fake) as first:
        given, base = session(first), first.engine.addresses[0]
    with memory(fake, base=base) as second:
        for address, size in reversed(given):
            assert second.alloc_at(address, size) == 0
        later = session(second)
        ranges = sorted(given + later)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(ranges))


def test_placed_allocations_can_be_used(gpu: Direct) -> None:
    base = gpu.engine.addresses[0]
    address = base + 9 * GRANULE - ALIGN
    assert gpu.handle.ops.alloc_at(gpu.handle, address, GRANULE) == 0
    gpu.wait(gpu.fill(address, GRANULE, 7))
    assert gpu.read(address + GRANULE - 2, 2) == b"\7\7"
    assert gpu.handle.ops.free(gpu.handle, address, GRANULE) == 0


def test_impossible_places_are_refused(fake: FakeDriver) -> None:
    with memory(fake) as made:
        base, size = made.engine.addresses
        held = base + 4 * GRANULE
        assert made.alloc_at(held, 1000) == 0
        taken = [(held, 1), (held - GRANULE, GRANULE + 1), (held + ALIGN, 1), (held - ALIGN, size // 2)]
        bad = [(held + 1, 1), (base - ALIGN, 1), (base + size, 1), (base + size - ALIGN, 1000), (base, 0)]
        bad += [(base, 2**64 - 1), (0, 1), (2**64 - ALIGN, ALIGN), (base, size + 1)]
        assert [made.alloc_at(*where) for where in taken] == [-errno.EEXIST] * len(taken)
        assert [made.alloc_at(*where) for where in bad] == [-errno.EINVAL] * len(bad)
        assert made.alloc_at(base + 8 * GRANULE, BOUND) == -errno.ENOMEM
        assert made.alloc_at(base + 8 * GRANULE, 1000) == 0
        made.free(held, base + 8 * GRANULE)


# ---- allocations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, BOUND + 1, 1 << 40, 2**63, 2**64 - 1, 2**64 - ALIGN])
def test_impossible_sizes_are_refused(fake: FakeDriver, size: int) -> None:
    with memory(fake) as made:
        assert made.code(size)[0] == -errno.ENOMEM
        made.free(made.alloc(QUOTA))


def test_addresses_that_were_not_allocated_cannot_be_freed(fake: FakeDriver) -> None:
    with memory(fake) as made:
        address = made.alloc(GRANULE)
        wrong = (address + ALIGN, address - ALIGN, 0, 2**64 - 1)
        assert [made.handle.ops.free(made.handle, bad, 1) for bad in wrong] == [-errno.EINVAL] * len(wrong)
        made.free(address)
        assert made.handle.ops.free(made.handle, address, 1) == -errno.EINVAL


def test_small_allocations_share_a_granule(fake: FakeDriver) -> None:
    with memory(fake) as made:
        before = made.held
        addresses = [made.alloc(1000) for _ in range(2000)]
        assert made.held == before + GRANULE
        assert len({address // GRANULE for address in addresses}) == 1


def test_large_allocations_share_the_granules_at_their_ends(fake: FakeDriver) -> None:
    with memory(fake) as made:
        before = made.held
        for _ in range(20):
            made.alloc(3 * MIB)
        assert made.held == before + 60 * MIB


def test_allocations_prefer_granules_in_use(fake: FakeDriver) -> None:
    """They go into the free parts of other allocations' granules, at any address."""
    with memory(fake) as made:
        made.alloc(3 * MIB)
        before = made.held
        made.alloc(500 << 10)
        made.alloc(500 << 10)
        assert made.held == before


def test_large_allocations_take_few_calls(fake: FakeDriver) -> None:
    with memory(fake, quota=512 * MIB) as made:
        before = fake.count("cuMemCreate")
        made.alloc(512 * MIB)
        assert fake.count("cuMemCreate") == before + 2


@pytest.mark.parametrize("size", [100, GRANULE, 3 * MIB + 5, 20 * MIB, 33 * MIB])
def test_reused_memory_costs_no_driver_call(fake: FakeDriver, size: int) -> None:
    with memory(fake) as made:
        made.free(made.alloc(size))
        calls = len(fake.calls())
        for _ in range(10):
            made.free(made.alloc(size))
        assert len(fake.calls()) == calls


def test_streams_wait_for_new_memory_only(gpu: Direct) -> None:
    """New memory is zeroed, and each stream is ordered behind that once; reused memory can be used at once."""
    for _ in range(3):
        address = gpu.alloc(5 * MIB)
        gpu.wait(*(gpu.fill(address, 5 * MIB, stream, stream=stream) for stream in range(4)))
        free = gpu._allocations.pop()
        assert gpu.handle.ops.free(gpu.handle, free, 1) == 0
    assert gpu.driver.count("cuStreamWaitEvent") == 4


# ---- kept and released memory --------------------------------------------------------------------


def test_freed_memory_up_to_half_of_the_bound_is_kept(fake: FakeDriver) -> None:
    with memory(fake) as made:
        addresses = [made.alloc(4 * MIB) for _ in range(32 - 1)]
        assert made.held == BOUND
        made.free(*addresses)
        assert made.held == SCRATCH + BOUND // 2


def test_nothing_is_unmapped_while_a_kernel_runs(gpu: Direct) -> None:
    """The driver may wait for the kernel."""
    addresses = [gpu.alloc(4 * MIB) for _ in range(16)] + [gpu.alloc(30 * MIB), gpu.alloc(20 * MIB)]
    gpu._allocations.clear()
    hang = gpu.launch("hang")
    gpu.driver.await_hanging()
    for address in addresses[1:]:
        assert gpu.handle.ops.free(gpu.handle, address, 1) == 0
    assert gpu.driver.count("cuMemUnmap") == 0
    gpu.driver.release()
    gpu.wait(hang)
    assert gpu.handle.ops.free(gpu.handle, addresses[0], 1) == 0
    assert gpu.driver.count("cuMemUnmap") > 0
    assert gpu.driver.number("device_bytes") <= SCRATCH + BOUND // 2 + MIB


def test_kept_pieces_make_room_for_new_allocations(fake: FakeDriver) -> None:
    """Allocations of other sizes at other addresses take their place; the bound holds."""
    with memory(fake) as made:
        for size in (GRANULE, 5 * MIB, 12 * MIB, 30 * MIB, 60 * MIB, 64 * MIB - ALIGN):
            addresses = [made.alloc(size) for _ in range(QUOTA // size)]
            assert made.held <= BOUND
            made.free(*addresses)


def test_a_few_bytes_do_not_hold_the_rest_of_a_kept_piece(fake: FakeDriver) -> None:
    with memory(fake) as made:
        base, _ = made.engine.addresses
        assert made.alloc_at(base, 16 * GRANULE) == 0
        made.free(base)
        assert made.alloc_at(base + 3 * GRANULE, 100) == 0
        assert made.held == SCRATCH + GRANULE


def test_kept_memory_is_released_when_the_gpu_has_no_more(fake: FakeDriver) -> None:
    """Other VMs may use the GPU's memory."""
    with memory(fake) as made:
        first = made.alloc(12 * MIB)
        second = made.alloc(3 * GRANULE)
        made.free(first)
        fake.inject("cuMemCreate", 2)
        made.alloc(30 * MIB)
        assert made.held == SCRATCH + 30 * MIB + 3 * GRANULE
        made.free(second)


@pytest.mark.parametrize("function", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_failed_allocation_changes_nothing(fake: FakeDriver, function: str, nth: int) -> None:
    with memory(fake) as made:
        other = made.alloc(3 * MIB + ALIGN)
        before = (made.held, fake.number("mappings"))
        fake.inject(function, 1, nth=nth)
        assert made.code(10 * MIB)[0] == -errno.ENOMEM
        after = (made.held, fake.number("mappings"))
        assert after == before or (nth == 2 and made.held <= before[0] + 10 * MIB)
        made.free(made.alloc(10 * MIB), other)


def test_memory_that_cannot_be_unmapped_is_reused(fake: FakeDriver) -> None:
    with memory(fake) as made:
        addresses = [made.alloc(4 * MIB) for _ in range(24)]
        fake.inject("cuMemUnmap", 1, times=ENDLESS)
        for address in addresses:
            made.handle.ops.free(made.handle, address, 1)
        assert made.held == SCRATCH + 24 * 4 * MIB
        assert [made.alloc(4 * MIB) for _ in range(24)] == addresses
        fake.inject("cuMemUnmap", 1, times=0)
        fake.clear()


# ---- bounds --------------------------------------------------------------------------------------


def test_fragmented_memory_holds_no_more_than_the_bound(fake: FakeDriver) -> None:
    """Allocations fail before the quota is used up; once the fragments are freed, the whole quota is available."""
    with memory(fake) as made:
        addresses = [made.alloc(64 << 10) for _ in range(QUOTA // (64 << 10))]
        crumbs = addresses[:: GRANULE // (64 << 10)]
        made.free(*(address for address in addresses if address not in set(crumbs)))
        code, large = made.code(QUOTA - SCRATCH)
        assert code == 0
        assert made.held <= BOUND
        assert made.code(16 * MIB)[0] == -errno.ENOMEM
        assert made.held <= BOUND
        made.free(large, *crumbs)
        made.free(made.alloc(QUOTA))


def granules_of(spans: dict[int, int]) -> set[int]:
    return {
        granule
        for address, size in spans.items()
        for granule in range(address // GRANULE, (address + size - 1) // GRANULE + 1)
    }


def rounded(size: int, to: int = ALIGN) -> int:
    return -(-size // to) * to


class Model:
    """Model of the engine: live spans, and the physical memory that they need."""

    def __init__(self, made: Memory) -> None:
        self.made = made
        self.base, self.size = made.engine.addresses
        self.live: dict[int, int] = {}

    @property
    def room(self) -> int:
        """Bytes of the quota that are free, as the data plane counts."""
        return QUOTA - sum(self.live.values())

    def alloc(self, size: int) -> None:
        size = rounded(size)
        if size > self.room:
            return
        code, address = self.made.code(size)
        needed = len(granules_of(self.live)) + SCRATCH // GRANULE + rounded(size, GRANULE) // GRANULE
        assert (code == 0) or needed > BOUND // GRANULE, "there was room"
        if code == 0:
            self.add(address, size)

    def place(self, offset: int, size: int) -> None:
        address, size = self.base + offset * ALIGN, rounded(size)
        if size > self.room or self.made.alloc_at(address, size) != 0:
            return
        self.add(address, size)

    def add(self, address: int, size: int) -> None:
        assert address % ALIGN == 0
        assert self.base <= address <= self.base + self.size - size
        assert all(address + size <= other or other + length <= address for other, length in self.live.items())
        self.live[address] = size

    def free(self, which: int) -> None:
        if self.live:
            address = sorted(self.live)[which % len(self.live)]
            self.made.free(address)
            del self.live[address]

    def check(self) -> None:
        assert len(granules_of(self.live)) * GRANULE <= self.made.held <= BOUND


ANY_SIZE: Final = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * GRANULE),
    st.integers(1, 24).map(lambda mib: mib * MIB),
    st.integers(1, 12).map(lambda granules: granules * GRANULE + ALIGN),
    st.integers(1, QUOTA),
)
STEPS: Final = st.one_of(
    st.tuples(st.just("alloc"), ANY_SIZE),
    st.tuples(st.just("alloc"), ANY_SIZE),
    st.tuples(st.just("free"), st.integers(0, 1000)),
    st.tuples(st.just("place"), st.integers(0, 64 * GRANULE // ALIGN), ANY_SIZE),
)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=60))
def test_random_sessions_agree_with_the_model(steps: list[tuple[Any, ...]]) -> None:
    """Spans do not overlap, the bound holds, and nothing fails while the granules in use leave room for it."""
    with fake_driver() as driver, memory(driver) as made:
        model = Model(made)
        for name, *arguments in steps:
            getattr(model, name)(*arguments)
            model.check()
        while model.live:
            model.free(0)
        model.alloc(QUOTA)
        assert model.room == 0


@settings(max_examples=20)
@given(steps=st.lists(STEPS, max_size=25))
def test_contents_survive_random_sessions(steps: list[tuple[Any, ...]]) -> None:
    """Neighbours share granules, pieces come and go; every allocation keeps its first and last bytes."""
    with direct(memory_kind=lib.VGC_CUDA_MAPPED) as gpu:
        model = Model(Memory(gpu.driver, gpu.engine))
        marks: dict[int, int] = {}
        for number, (name, *arguments) in enumerate(steps):
            getattr(model, name)(*arguments)
            for address in model.live.keys() - marks.keys():
                marks[address] = number + 1
                gpu.wait(
                    gpu.fill(address, ALIGN, number + 1),
                    gpu.fill(address + model.live[address] - ALIGN, ALIGN, number + 1),
                )
            marks = {address: mark for address, mark in marks.items() if address in model.live}
        for address, size in model.live.items():
            mark = bytes([marks[address]]) * ALIGN
            assert gpu.read(address, ALIGN) == gpu.read(address + size - ALIGN, ALIGN) == mark
        gpu.wait()
        while model.live:
            model.free(0)
