"""Both sides of vring.c against each other on one region."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.region import Region
from tests.fakes.ring import INDIRECT, NEXT, WRITE, DeviceRing, RawRing, RingPlacement
from virtio_proto._vring import ffi, lib

NUM = 8


class DriverRing:
    """The driver side of vring.c, bare."""

    def __init__(self, region: Region, at: RingPlacement, *, event_idx: bool, attach: bool = False) -> None:
        self.region = region
        self.vq = ffi.new("struct vgc_vq_driver *")
        take_over = lib.vgc_vq_driver_attach if attach else lib.vgc_vq_driver_init
        self.error = take_over(self.vq, self.ring_at(at), event_idx)

    def ring_at(self, at: RingPlacement) -> Any:
        ring = ffi.new("struct vgc_ring *")
        ring.desc = ffi.cast("struct vgc_desc *", self.region.address + at.desc)
        ring.avail = ffi.cast("uint16_t *", self.region.address + at.avail)
        ring.used = ffi.cast("uint16_t *", self.region.address + at.used)
        ring.num = at.num
        return ring[0]

    def add(self, readable: list[int], writable: list[int], token: int = 0, table: int | None = None) -> int:
        """Publish buffers of the given sizes, from offset 4096 of the region on."""
        sizes = [*readable, *writable]
        sg = ffi.new("struct vgc_sg[]", len(sizes))
        gpa = self.region.gpa + 4096
        for entry, size in zip(sg, sizes, strict=True):
            entry.gpa, entry.len = gpa, size
            gpa += size
        desc = ffi.NULL if table is None else ffi.cast("struct vgc_desc *", self.region.address + table)
        gpa = self.region.gpa + (table or 0)
        result: int = lib.vgc_vq_add(self.vq, sg, len(readable), len(writable), desc, gpa, ffi.cast("void *", token))
        return result

    def take(self) -> tuple[int, int, int]:
        """Take a completion; returns result, token and length."""
        token, length = ffi.new("void **"), ffi.new("uint32_t *")
        result = lib.vgc_vq_take(self.vq, token, length)
        return result, int(ffi.cast("uintptr_t", token[0])), int(length[0])


@pytest.fixture
def region() -> Iterator[Region]:
    with Region(1 << 16) as region:
        yield region


@pytest.fixture
def at(region: Region) -> RingPlacement:
    return RingPlacement.allocate(region, NUM)


@pytest.fixture(params=[False, True], ids=["flags", "event_idx"])
def event_idx(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[None, 2048], ids=["direct", "indirect"])
def table(request: pytest.FixtureRequest) -> int | None:
    """Offset of the indirect table, or None without one."""
    where: int | None = request.param
    return where


@pytest.fixture
def driver(region: Region, at: RingPlacement, event_idx: bool) -> DriverRing:
    return DriverRing(region, at, event_idx=event_idx)


@pytest.fixture
def device(region: Region, at: RingPlacement, event_idx: bool) -> DeviceRing:
    return DeviceRing(region, at, event_idx=event_idx, indirect=True)


def serve(device: DeviceRing, length: int = 0) -> None:
    assert device.pop() == 1
    assert device.push(device.popped().head, length) == 0


def test_chain_arrives_as_it_was_added(driver: DriverRing, device: DeviceRing, table: int | None) -> None:
    head = driver.add([24, 100], [48, 7, 1], table=table)

    assert device.pop() == 1
    chain = device.popped()
    assert chain.head == head
    assert chain.readable == ((4096, 24), (4120, 100))
    assert chain.writable == ((4220, 48), (4268, 7), (4275, 1))
    assert (device.chain.readable_len, device.chain.writable_len) == (124, 56)


def test_used_chain_comes_back_with_token_and_length(driver: DriverRing, device: DeviceRing, table: int | None) -> None:
    driver.add([24], [48], token=0xBEEF, table=table)
    assert driver.take()[0] == 0
    serve(device, 48)

    assert driver.take() == (1, 0xBEEF, 48)
    assert driver.take()[0] == 0
    assert driver.vq.num_free == NUM


def test_nothing_available_pops_nothing(device: DeviceRing) -> None:
    assert device.pop() == 0
    assert not lib.vgc_vq_has_avail(device.vq)


def test_has_avail_sees_an_added_chain(driver: DriverRing, device: DeviceRing) -> None:
    driver.add([1], [])
    driver.add([1], [])

    assert lib.vgc_vq_has_avail(device.vq)
    serve(device)
    assert lib.vgc_vq_has_avail(device.vq)
    serve(device)
    assert not lib.vgc_vq_has_avail(device.vq)


def test_indices_wrap_around(driver: DriverRing, device: DeviceRing, table: int | None) -> None:
    for turn in range(0x10000 + 3 * NUM):
        assert driver.add([24], [48], token=turn, table=table) >= 0
        serve(device, turn)
        assert driver.take() == (1, turn, turn)
    assert device.vq.last_avail == device.vq.used_idx == 3 * NUM


def test_chains_may_return_in_any_order(driver: DriverRing, device: DeviceRing) -> None:
    for token in range(4):
        driver.add([8], [8], token=token)
    heads = []
    while device.pop() == 1:
        heads.append(device.popped().head)
    for order in (2, 0, 3, 1):
        device.push(heads[order], order)

    assert [driver.take() for _ in range(4)] == [(1, 2, 2), (1, 0, 0), (1, 3, 3), (1, 1, 1)]


def test_free_list_survives_chains_of_different_length(driver: DriverRing, device: DeviceRing) -> None:
    """Descriptors are freed in a different order; later chains reuse them."""
    for turn in range(200):
        sizes = [[1], [2, 3, 4], [5, 6]]
        for token, readable in enumerate(sizes):
            assert driver.add(readable, [9] * (turn % 2 if token == 0 else 0), token=token) >= 0
        heads = []
        while device.pop() == 1:
            heads.append(device.popped())
        assert [[size for _, size in chain.readable] for chain in heads] == sizes
        for pick in (turn % 3, (turn + 1) % 3, (turn + 2) % 3):
            device.push(heads[pick].head, 0)
        assert sorted(driver.take()[1] for _ in range(3)) == [0, 1, 2]
    assert driver.vq.num_free == NUM


def test_full_ring_takes_no_more(driver: DriverRing, device: DeviceRing) -> None:
    for _ in range(NUM // 2):
        assert driver.add([1], [1]) >= 0

    assert driver.add([1], []) == -errno.ENOSPC
    serve(device)
    assert driver.add([1], []) == -errno.ENOSPC
    assert driver.take()[0] == 1
    assert driver.add([1], [1]) >= 0


def test_full_ring_of_single_descriptors_is_served(driver: DriverRing, device: DeviceRing) -> None:
    for token in range(NUM):
        assert driver.add([1], [], token=token) >= 0
    for _ in range(NUM):
        serve(device)

    assert [driver.take()[1] for _ in range(NUM)] == list(range(NUM))
    assert device.pop() == 0


def test_indirect_chain_may_be_longer_than_the_queue(driver: DriverRing, device: DeviceRing) -> None:
    driver.add([1] * 255, [1], table=8192)

    assert device.pop() == 1
    assert (device.chain.num_readable, device.chain.num_writable) == (255, 1)


@pytest.mark.parametrize(
    ("readable", "writable", "table"),
    [(0, 0, None), (NUM, 1, None), (256, 1, 2048), (0, 0, 2048)],
    ids=["empty", "longer-than-ring", "longer-than-limit", "empty-indirect"],
)
def test_chain_of_impossible_length_is_not_added(
    driver: DriverRing, readable: int, writable: int, table: int | None
) -> None:
    assert driver.add([1] * readable, [1] * writable, table=table) == -errno.EINVAL
    assert driver.vq.num_free == NUM


def test_descriptor_flags_are_what_the_specification_says(
    region: Region, at: RingPlacement, driver: DriverRing
) -> None:
    driver.add([1], [2, 3])
    driver.add([1], [2], table=2048)

    def desc(offset: int) -> tuple[int, int, int]:
        data = region.memory[offset : offset + 16]
        return (
            int.from_bytes(data[8:12], "little"),
            int.from_bytes(data[12:14], "little"),
            int.from_bytes(data[14:], "little"),
        )

    assert [desc(at.desc + 16 * i) for i in range(4)] == [
        (1, NEXT, 1),
        (2, NEXT | WRITE, 2),
        (3, WRITE, 0),
        (32, INDIRECT, 0),
    ]
    assert [desc(2048 + 16 * i) for i in range(2)] == [(1, NEXT, 1), (2, WRITE, 0)]


def test_push_of_a_head_that_was_not_popped_is_refused(
    region: Region, at: RingPlacement, driver: DriverRing, device: DeviceRing
) -> None:
    head = driver.add([1], [])
    assert device.push(head, 0) == -errno.EINVAL
    assert device.push(NUM, 0) == -errno.EINVAL
    serve(device)
    assert device.push(head, 0) == -errno.EINVAL

    assert RawRing(region, at).used_idx == 1


# ---- notifications


def test_kick_is_due_once_per_batch(driver: DriverRing, device: DeviceRing) -> None:
    assert not lib.vgc_vq_should_kick(driver.vq)
    assert not lib.vgc_vq_enable_kick(device.vq)
    driver.add([1], [])
    driver.add([1], [])

    assert lib.vgc_vq_should_kick(driver.vq)
    assert not lib.vgc_vq_should_kick(driver.vq)


def test_disabled_kicks_are_not_sent(driver: DriverRing, device: DeviceRing) -> None:
    lib.vgc_vq_disable_kick(device.vq)
    for _ in range(NUM):
        driver.add([1], [])
        assert not lib.vgc_vq_should_kick(driver.vq)


def test_enabling_kicks_reports_what_came_meanwhile(driver: DriverRing, device: DeviceRing) -> None:
    lib.vgc_vq_disable_kick(device.vq)
    driver.add([1], [])

    assert not lib.vgc_vq_should_kick(driver.vq)
    assert lib.vgc_vq_enable_kick(device.vq)
    serve(device)
    assert not lib.vgc_vq_enable_kick(device.vq)
    driver.add([1], [])
    assert lib.vgc_vq_should_kick(driver.vq)


def test_call_is_due_once_per_batch(driver: DriverRing, device: DeviceRing) -> None:
    assert not lib.vgc_vq_should_call(device.vq)
    driver.add([1], [])
    driver.add([1], [])
    serve(device)
    serve(device)

    assert lib.vgc_vq_should_call(device.vq)
    assert not lib.vgc_vq_should_call(device.vq)


def test_disabled_calls_are_not_sent(driver: DriverRing, device: DeviceRing) -> None:
    driver.add([1], [])
    serve(device)
    lib.vgc_vq_should_call(device.vq)  # the first one after a start is always sent
    driver.take()
    lib.vgc_vq_disable_call(driver.vq)
    for _ in range(NUM):
        driver.add([1], [])
        serve(device)
        assert not lib.vgc_vq_should_call(device.vq)
        driver.take()


def test_calls_disabled_after_being_asked_for_are_not_sent(driver: DriverRing, device: DeviceRing) -> None:
    driver.add([1], [])
    serve(device)
    lib.vgc_vq_should_call(device.vq)
    driver.take()
    assert not lib.vgc_vq_enable_call(driver.vq)
    lib.vgc_vq_disable_call(driver.vq)
    driver.add([1], [])
    serve(device)

    assert not lib.vgc_vq_should_call(device.vq)


def test_enabling_calls_reports_what_came_meanwhile(driver: DriverRing, device: DeviceRing) -> None:
    lib.vgc_vq_disable_call(driver.vq)
    driver.add([1], [])
    serve(device)

    assert lib.vgc_vq_enable_call(driver.vq)
    driver.take()
    assert not lib.vgc_vq_enable_call(driver.vq)
    driver.add([1], [])
    serve(device)
    assert lib.vgc_vq_should_call(device.vq)


def test_first_call_after_a_restart_is_sent_even_if_the_old_event_says_no(region: Region, at: RingPlacement) -> None:
    driver = DriverRing(region, at, event_idx=True)
    lib.vgc_vq_disable_call(driver.vq)
    driver.add([1], [])
    device = DeviceRing(region, at, event_idx=True)
    serve(device)

    assert lib.vgc_vq_should_call(device.vq)


def test_event_words_and_flags_lie_where_the_specification_says(region: Region, at: RingPlacement) -> None:
    raw = RawRing(region, at)
    driver, device = DriverRing(region, at, event_idx=True), DeviceRing(region, at, event_idx=True)
    driver.add([1], [])
    serve(device)
    driver.take()
    lib.vgc_vq_enable_kick(device.vq)
    lib.vgc_vq_enable_call(driver.vq)
    assert (raw.avail_event, raw.used_event, raw.avail_flags, raw.used_flags) == (1, 1, 0, 0)

    old_driver, old_device = DriverRing(region, at, event_idx=False), DeviceRing(region, at, event_idx=False)
    lib.vgc_vq_disable_kick(old_device.vq)
    lib.vgc_vq_disable_call(old_driver.vq)
    assert (raw.avail_flags, raw.used_flags) == (1, 1)


# ---- starting, stopping, taking over


def test_device_goes_on_where_an_earlier_instance_stopped(region: Region, at: RingPlacement) -> None:
    driver, old = DriverRing(region, at, event_idx=True), DeviceRing(region, at, event_idx=True)
    for token in range(3):
        driver.add([1], [], token=token)
    serve(old)
    assert driver.take()[1] == 0
    new = DeviceRing(region, at, event_idx=True, base=old.vq.last_avail)
    serve(new)
    serve(new)

    assert (driver.take()[1], driver.take()[1]) == (1, 2)
    assert new.pop() == 0


def test_rewalk_completes_what_an_earlier_instance_popped(region: Region, at: RingPlacement) -> None:
    driver, old = (
        DriverRing(region, at, event_idx=False),
        DeviceRing(region, at, event_idx=False, indirect=True),
    )
    head = driver.add([24], [48], token=5, table=2048)
    assert old.pop() == 1
    popped = old.popped()
    new = DeviceRing(region, at, event_idx=False, indirect=True, base=old.vq.last_avail)

    assert new.rewalk(head) == 1
    assert new.popped() == popped
    assert new.in_flight == {head}
    assert new.push(head, 48) == 0
    assert driver.take() == (1, 5, 48)


def test_rewalk_of_a_head_out_of_range_does_nothing(device: DeviceRing) -> None:
    assert device.rewalk(NUM) == -errno.EIO
    assert device.in_flight == set()


def test_quiet_ring_may_change_hands(region: Region, at: RingPlacement) -> None:
    driver, device = DriverRing(region, at, event_idx=True), DeviceRing(region, at, event_idx=True)
    for _ in range(3):
        driver.add([1], [])
        serve(device)
        driver.take()
    heir = DriverRing(region, at, event_idx=True, attach=True)

    assert heir.error == 0
    lib.vgc_vq_enable_kick(device.vq)
    heir.add([1], [], token=9)
    assert lib.vgc_vq_should_kick(heir.vq)
    serve(device, 1)
    assert heir.take() == (1, 9, 1)


def test_busy_ring_does_not_change_hands(region: Region, at: RingPlacement) -> None:
    DriverRing(region, at, event_idx=True).add([1], [])

    assert DriverRing(region, at, event_idx=True, attach=True).error == -errno.EBUSY


@pytest.mark.parametrize("num", [0, 3, 512, 0x8000])
def test_size_that_is_no_power_of_two_up_to_256_is_refused(region: Region, num: int) -> None:
    at = RingPlacement(0, 0, 0, num)

    with pytest.raises(OSError, match=f"Errno {errno.EINVAL}"):
        DeviceRing(region, at)
    assert DriverRing(region, at, event_idx=True).error == -errno.EINVAL
    assert DriverRing(region, at, event_idx=True, attach=True).error == -errno.EINVAL


@pytest.mark.parametrize("num", [1, 2, 256])
def test_smallest_and_largest_queue_work(region: Region, num: int) -> None:
    at = RingPlacement.allocate(region, num)
    driver, device = DriverRing(region, at, event_idx=True), DeviceRing(region, at, event_idx=True)
    for turn in range(600):
        assert driver.add([1], [], token=turn) >= 0
        serve(device, turn)
        assert driver.take() == (1, turn, turn)
