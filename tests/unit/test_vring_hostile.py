"""Rings with contents by a hostile driver or device, and their treatment.

A malformed chain is answered (pushed with length 0) and the queue goes on; a queue whose indices cannot be
trusted any more is refused with EIO, again and again, until it is set up anew.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from tests.fakes.region import DEFAULT_GPA, Region
from tests.fakes.ring import INDIRECT, NEXT, WRITE, Desc, DeviceRing, RawRing, RingPlacement, memory_of
from virtio_proto._vring import ffi, lib

NUM = 8
HERE = DEFAULT_GPA + 0x800
"""A buffer's address inside the region, away from the rings."""


@pytest.fixture
def region() -> Iterator[Region]:
    with Region(1 << 20) as region:
        yield region


@pytest.fixture
def at(region: Region) -> RingPlacement:
    return RingPlacement.allocate(region, NUM)


@pytest.fixture
def raw(region: Region, at: RingPlacement) -> RawRing:
    return RawRing(region, at)


@pytest.fixture
def device(region: Region, at: RingPlacement) -> DeviceRing:
    return DeviceRing(region, at, event_idx=True, indirect=True)


def assert_answered(raw: RawRing, device: DeviceRing, head: int = 0) -> None:
    """Asserts that the malformed chain at `head` is returned once, and that the queue serves the next one."""
    assert device.pop() == -errno.EBADMSG
    assert device.in_flight == {head}
    assert device.chain.head == head
    assert device.push(head, 0) == 0
    assert raw.used_entry(raw.used_idx - 1) == (head, 0)
    raw.set_desc(7, Desc(HERE, 16))
    raw.publish(7)
    assert device.pop() == 1
    assert device.push(7, 0) == 0


def assert_broken(raw: RawRing, device: DeviceRing) -> None:
    """Asserts that the queue is refused from now on, that nothing is returned and that in-flight chains are kept."""
    used, in_flight = raw.used_idx, device.in_flight
    for _ in range(3):
        assert device.pop() == -errno.EIO
    assert raw.used_idx == used
    assert device.in_flight == in_flight


# ---- the avail ring


@pytest.mark.parametrize("jump", [NUM + 1, 1000, 0x7FFF])
def test_avail_index_jumping_more_than_the_queue_breaks_it(raw: RawRing, device: DeviceRing, jump: int) -> None:
    raw.avail_idx = jump

    assert_broken(raw, device)


def test_avail_index_going_backwards_breaks_the_queue(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 16))
    raw.publish(0)
    assert device.pop() == 1
    raw.avail_idx = 0

    assert_broken(raw, device)


def test_avail_index_going_backwards_under_entries_already_seen_is_noticed(raw: RawRing, device: DeviceRing) -> None:
    for head in range(3):
        raw.set_desc(head, Desc(HERE, 16))
        raw.publish(head)
    assert device.pop() == 1
    raw.avail_idx = 1
    assert device.pop() == 1
    assert device.pop() == 1

    assert_broken(raw, device)


@pytest.mark.parametrize("head", [NUM, 255, 0xFFFF])
def test_head_out_of_range_breaks_the_queue(raw: RawRing, device: DeviceRing, head: int) -> None:
    raw.publish(head)

    assert_broken(raw, device)


def test_duplicate_head_in_flight_breaks_the_queue(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(3, Desc(HERE, 16))
    raw.publish(3)
    raw.publish(3)
    assert device.pop() == 1

    assert_broken(raw, device)


def test_head_may_come_again_after_its_return(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(3, Desc(HERE, 16))
    for _ in range(5):
        raw.publish(3)
        assert device.pop() == 1
        assert device.push(3, 0) == 0


# ---- chains


@pytest.mark.parametrize("following", [NUM, 0x100, 0x8000])
def test_next_out_of_range_is_answered(region: Region, raw: RawRing, device: DeviceRing, following: int) -> None:
    """Even if the bytes there look like a descriptor."""
    beyond = raw.at.desc + 16 * following
    if following != NUM:  # the avail ring begins there
        region.memory[beyond : beyond + 16] = Desc(HERE, 16).pack()
    raw.set_desc(0, Desc(HERE, 16, NEXT, following))
    raw.publish(0)

    assert_answered(raw, device)


@pytest.mark.parametrize("back", [0, 1], ids=["to-itself", "to-an-earlier-one"])
def test_looping_chain_is_answered(raw: RawRing, device: DeviceRing, back: int) -> None:
    raw.set_desc(0, Desc(HERE, 16, NEXT, back))
    raw.set_desc(1, Desc(HERE, 16, NEXT, 0))
    raw.publish(0)

    assert_answered(raw, device)


def test_chain_longer_than_the_queue_is_answered(raw: RawRing, device: DeviceRing) -> None:
    """The chain has all descriptors once, and then one of them again."""
    for index in range(NUM):
        raw.set_desc(index, Desc(HERE, 16, NEXT, (index + 1) % NUM))
    raw.publish(0)

    assert_answered(raw, device)


def test_chain_as_long_as_the_queue_is_served(raw: RawRing, device: DeviceRing) -> None:
    for index in range(NUM):
        raw.set_desc(index, Desc(HERE, 16, NEXT if index < NUM - 1 else 0, index + 1))
    raw.publish(0)

    assert device.pop() == 1
    assert device.chain.num_readable == NUM


def test_readable_after_writable_is_answered(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 16, NEXT | WRITE, 1))
    raw.set_desc(1, Desc(HERE, 16))
    raw.publish(0)

    assert_answered(raw, device)


def test_chain_of_more_than_four_gibibytes_is_answered(region: Region, raw: RawRing, device: DeviceRing) -> None:
    """[virtio 1.3 §2.7.5.2] The region is only said to be this large: its buffers are never touched."""
    device.mem.regions[0].size = 1 << 33
    raw.set_desc(0, Desc(region.gpa, 0xFFFF_FFFF, NEXT, 1))
    raw.set_desc(1, Desc(region.gpa, 2))
    raw.publish(0)

    assert_answered(raw, device)


def test_chain_of_exactly_four_gibibytes_is_served(region: Region, raw: RawRing, device: DeviceRing) -> None:
    device.mem.regions[0].size = 1 << 33
    raw.set_desc(0, Desc(region.gpa, 0xFFFF_FFFF, NEXT, 1))
    raw.set_desc(1, Desc(region.gpa, 1))
    raw.publish(0)

    assert device.pop() == 1
    assert device.chain.readable_len == 1 << 32


def test_unknown_descriptor_flags_are_ignored(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 16, 0xFFF8))
    raw.publish(0)

    assert device.pop() == 1
    assert device.popped().readable != ()


# ---- addresses and lengths


def test_zero_length_is_answered(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 0))
    raw.publish(0)

    assert_answered(raw, device)


@pytest.mark.parametrize("length", [1 << 20, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_huge_length_is_answered(raw: RawRing, device: DeviceRing, length: int) -> None:
    raw.set_desc(0, Desc(HERE, length))
    raw.publish(0)

    assert_answered(raw, device)


@pytest.mark.parametrize("addr", [2**64 - 8, 2**64 - 1, 2**64 - 16])
def test_address_plus_length_overflow_is_answered(raw: RawRing, device: DeviceRing, addr: int) -> None:
    raw.set_desc(0, Desc(addr, 16, WRITE))
    raw.publish(0)

    assert_answered(raw, device)


@pytest.mark.parametrize("addr", [0, -1, -16, 1 << 20], ids=["null", "before", "just-before", "behind"])
def test_address_outside_the_region_is_answered(region: Region, raw: RawRing, device: DeviceRing, addr: int) -> None:
    raw.set_desc(0, Desc(0 if addr == 0 else region.gpa + addr, 16))
    raw.publish(0)

    assert_answered(raw, device)


def test_last_byte_of_the_region_is_served_and_one_more_is_not(
    region: Region, raw: RawRing, device: DeviceRing
) -> None:
    raw.set_desc(0, Desc(region.gpa + region.size - 16, 16))
    raw.set_desc(1, Desc(region.gpa + region.size - 16, 17))
    raw.publish(0)
    raw.publish(1)

    assert device.pop() == 1
    assert device.push(0, 0) == 0
    assert_answered(raw, device, head=1)


def test_buffer_over_a_memory_hole_is_answered(region: Region, raw: RawRing, device: DeviceRing) -> None:
    with Region(4096, gpa=region.gpa + region.size + 4096) as other:
        device.mem = memory_of(region, other)
        raw.set_desc(0, Desc(region.gpa + region.size - 8, 4096 + 16))
        raw.publish(0)
        assert_answered(raw, device)

        raw.set_desc(1, Desc(other.gpa + 4000, 96))
        raw.publish(1)
        assert device.pop() == 1


def test_buffer_over_two_adjacent_regions_is_answered(region: Region, raw: RawRing, device: DeviceRing) -> None:
    with Region(4096, gpa=region.gpa + region.size) as other:
        device.mem = memory_of(region, other)
        raw.set_desc(0, Desc(other.gpa - 8, 16))
        raw.publish(0)

        assert_answered(raw, device)


@pytest.mark.parametrize(
    ("address", "length", "found"),
    [
        (0, 4096, True),
        (4095, 1, True),
        (4095, 2, False),
        (4096, 1, False),
        (0, 0, False),
        (-1, 1, False),
        (-1, 2, False),
        (1, 2**64 - 1, False),
        (16, 2**64 - 16, False),
    ],
)
def test_memory_is_found_only_if_it_is_all_there(address: int, length: int, found: bool) -> None:
    with Region(4096) as region:
        mem = memory_of(region)
        for lookup, base in ((lib.vgc_mem_at_gpa, region.gpa), (lib.vgc_mem_at_uva, region.uva)):
            host = lookup(mem, (base + address) % 2**64, length)
            assert (host != ffi.NULL) == found
            if found:
                assert int(ffi.cast("uintptr_t", host)) == region.address + address


def test_region_at_the_end_of_the_address_space_does_not_wrap() -> None:
    with Region(4096, gpa=2**64 - 4096) as region:
        mem = memory_of(region)
        assert lib.vgc_mem_at_gpa(mem, 2**64 - 4096, 4096) != ffi.NULL
        assert lib.vgc_mem_at_gpa(mem, 2**64 - 1, 2) == ffi.NULL
        assert lib.vgc_mem_at_gpa(mem, 0, 1) == ffi.NULL


def test_writable_buffer_over_the_rings_harms_only_the_guest(
    region: Region, at: RingPlacement, raw: RawRing, device: DeviceRing
) -> None:
    """The rings are the guest's memory like any other: the buffer is served, and whatever it does to the
    indices is judged as if the driver had written it.
    """
    raw.set_desc(0, Desc(region.gpa + at.avail, 6 + 2 * NUM, NEXT | WRITE, 1))
    raw.set_desc(1, Desc(region.gpa + at.used, 6 + 8 * NUM, WRITE))
    raw.publish(0)
    assert device.pop() == 1
    for offset, size in device.popped().writable:
        region.memory[offset : offset + size] = b"\xff" * size

    assert device.push(0, 0) == 0
    assert raw.used_idx == 1, "the device's index is its own and is never read back"
    assert_broken(raw, device)


# ---- indirect tables


def indirect(raw: RawRing, *descs: Desc, length: int | None = None, flags: int = 0) -> None:
    """Publishes head 0, which refers to a table of `descs`."""
    block = raw.region.allocate(max(16 * len(descs), 16))
    raw.write_table(block, descs)
    raw.set_desc(0, Desc(block.gpa, 16 * len(descs) if length is None else length, INDIRECT | flags))
    raw.publish(0)


def test_indirect_table_inside_an_indirect_table_is_answered(raw: RawRing, device: DeviceRing) -> None:
    raw.region.memory[0x800:0x810] = Desc(HERE, 16).pack()
    indirect(raw, Desc(HERE, 16, INDIRECT))

    assert_answered(raw, device)


def test_indirect_descriptor_with_next_is_answered(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(1, Desc(HERE, 16))
    indirect(raw, Desc(HERE, 16), flags=NEXT)

    assert_answered(raw, device)


@pytest.mark.parametrize("length", [1, 15, 17, 31])
def test_indirect_length_that_is_no_multiple_of_16_is_answered(raw: RawRing, device: DeviceRing, length: int) -> None:
    indirect(raw, Desc(HERE, 16), Desc(HERE, 16), length=length)

    assert_answered(raw, device)


def test_empty_indirect_table_is_answered(raw: RawRing, device: DeviceRing) -> None:
    indirect(raw, length=0)

    assert_answered(raw, device)


@pytest.mark.parametrize("length", [16 * 257, 0xFFFF_FFF0])
def test_indirect_table_with_too_many_entries_is_answered(raw: RawRing, device: DeviceRing, length: int) -> None:
    indirect(raw, Desc(HERE, 16), length=length)

    assert_answered(raw, device)


@pytest.mark.parametrize("offset", [-16, (1 << 20) - 8, 1 << 20])
def test_indirect_table_out_of_bounds_is_answered(
    region: Region, raw: RawRing, device: DeviceRing, offset: int
) -> None:
    raw.set_desc(0, Desc(region.gpa + offset, 16, INDIRECT))
    raw.publish(0)

    assert_answered(raw, device)


def test_next_beyond_the_indirect_table_is_answered(raw: RawRing, device: DeviceRing) -> None:
    """Even if the memory behind the table holds a descriptor."""
    indirect(raw, Desc(HERE, 16, NEXT, 1), Desc(HERE, 16), length=16)

    assert_answered(raw, device)


def test_looping_indirect_table_is_answered(raw: RawRing, device: DeviceRing) -> None:
    indirect(raw, Desc(HERE, 16, NEXT, 1), Desc(HERE, 16, NEXT, 0))

    assert_answered(raw, device)


def test_indirect_without_the_feature_is_answered(region: Region, at: RingPlacement, raw: RawRing) -> None:
    indirect(raw, Desc(HERE, 16))

    assert_answered(raw, DeviceRing(region, at, indirect=False))


def test_direct_descriptors_before_an_indirect_one_are_served(raw: RawRing, device: DeviceRing) -> None:
    """[virtio 1.3 §2.7.5.3.2]"""
    indirect(raw, Desc(HERE, 32, WRITE))
    raw.set_desc(1, Desc(HERE, 16, NEXT, 0))
    raw.avail_idx = 0
    raw.publish(1)

    assert device.pop() == 1
    assert (device.chain.readable_len, device.chain.writable_len) == (16, 32)


def test_write_flag_of_the_indirect_descriptor_is_ignored(raw: RawRing, device: DeviceRing) -> None:
    """[virtio 1.3 §2.7.5.3.2]"""
    indirect(raw, Desc(HERE, 16), flags=WRITE)

    assert device.pop() == 1
    assert device.chain.num_readable == 1


def test_chain_of_more_than_256_buffers_is_answered(raw: RawRing, device: DeviceRing) -> None:
    """The chain has one direct descriptor and a full table."""
    indirect(raw, *(Desc(HERE, 1, NEXT if i < 255 else 0, i + 1) for i in range(256)))
    raw.set_desc(1, Desc(HERE, 16, NEXT, 0))
    raw.avail_idx = 0
    raw.publish(1)

    assert_answered(raw, device, head=1)


def test_unaligned_indirect_table_is_served(region: Region, raw: RawRing, device: DeviceRing) -> None:
    block = region.allocate(64)
    region.write(block, Desc(HERE, 16, NEXT, 1).pack() + Desc(HERE, 8, WRITE).pack(), at=3)
    raw.set_desc(0, Desc(block.gpa + 3, 32, INDIRECT))
    raw.publish(0)

    assert device.pop() == 1
    assert (device.chain.readable_len, device.chain.writable_len) == (16, 8)


# ---- placement


@pytest.mark.parametrize(
    ("desc", "avail", "used"),
    [(8, 0x400, 0x800), (0, 0x401, 0x800), (0, 0x400, 0x802)],
    ids=["desc", "avail", "used"],
)
def test_unaligned_ring_is_refused(region: Region, desc: int, avail: int, used: int) -> None:
    with pytest.raises(OSError, match=f"Errno {errno.EBADMSG}"):
        DeviceRing(region, RingPlacement(desc, avail, used, NUM))


def test_ring_unaligned_in_our_mapping_is_refused(region: Region) -> None:
    """A frontend may claim any address for a region: aligned there does not mean aligned in our mapping."""
    region.uva += 8

    with pytest.raises(OSError, match=f"Errno {errno.EBADMSG}"):
        DeviceRing(region, RingPlacement(0x8, 0x400, 0x800, NUM))


@pytest.mark.parametrize(
    ("desc", "avail", "used"),
    [(0, 16 * NUM - 2, 0x800), (0, 0x400, 16 * NUM - 4), (0, 0x400, 0x404), (0x400, 0x400, 0x400)],
    ids=["desc-avail", "desc-used", "avail-used", "all"],
)
def test_overlapping_rings_are_refused(region: Region, desc: int, avail: int, used: int) -> None:
    with pytest.raises(OSError, match=f"Errno {errno.EBADMSG}"):
        DeviceRing(region, RingPlacement(desc, avail, used, NUM))


def test_adjacent_rings_are_accepted(region: Region) -> None:
    avail = 16 * NUM
    used = -(-(avail + 6 + 2 * NUM) // 4) * 4

    assert DeviceRing(region, RingPlacement(0, avail, used, NUM)).pop() == 0


@pytest.mark.parametrize("part", ["desc", "avail", "used"])
@pytest.mark.parametrize("offset", [-0x1000, (1 << 20) - 16, 1 << 20, 1 << 40], ids=hex)
def test_ring_outside_the_region_is_refused(region: Region, part: str, offset: int) -> None:
    places = {"desc": 0, "avail": 0x400, "used": 0x800} | {part: offset}

    with pytest.raises(OSError, match=f"Errno {errno.EFAULT}"):
        DeviceRing(region, RingPlacement(**places, num=NUM))


# ---- changes after submission


def test_descriptors_changed_after_the_pop_change_nothing(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 24, NEXT, 1))
    raw.set_desc(1, Desc(HERE + 64, 48, WRITE))
    raw.publish(0)
    assert device.pop() == 1
    before = device.popped()
    for index in range(NUM):
        raw.set_desc(index, Desc(2**64 - 1, 2**32 - 1, 0xFFFF, 0xFFFF))
    raw.set_avail_entry(0, 0xFFFF)

    assert device.popped() == before
    assert before.readable == ((0x800, 24),)
    assert before.writable == ((0x840, 48),)
    assert device.push(0, 48) == 0
    assert raw.used_entry(0) == (0, 48)


def test_descriptors_changed_before_a_rewalk_are_judged_again(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 24))
    raw.publish(0)
    assert device.pop() == 1
    raw.set_desc(0, Desc(2**64 - 1, 24))
    heir = DeviceRing(raw.region, raw.at, base=device.vq.last_avail)

    assert heir.rewalk(0) == -errno.EBADMSG
    assert heir.push(0, 0) == 0


def test_used_index_written_by_the_driver_is_overwritten(raw: RawRing, device: DeviceRing) -> None:
    raw.set_desc(0, Desc(HERE, 24))
    raw.publish(0)
    assert device.pop() == 1
    raw.used_idx = 0x4242

    assert device.push(0, 7) == 0
    assert raw.used_idx == 1
    assert raw.used_entry(0) == (0, 7)


# ---- a hostile device


def taken(raw: RawRing, head: int) -> int:
    """Result of the driver's take when the device returns `head` while only head 0 is in flight."""
    ring = ffi.new("struct vgc_ring *")
    ring.desc = ffi.cast("struct vgc_desc *", raw.region.address + raw.at.desc)
    ring.avail = ffi.cast("uint16_t *", raw.region.address + raw.at.avail)
    ring.used = ffi.cast("uint16_t *", raw.region.address + raw.at.used)
    ring.num = raw.at.num
    vq = ffi.new("struct vgc_vq_driver *")
    assert lib.vgc_vq_driver_init(vq, ring[0], False) == 0
    sg = ffi.new("struct vgc_sg[]", [(HERE, 16), (HERE, 16)])
    assert lib.vgc_vq_add(vq, sg, 1, 1, ffi.NULL, 0, ffi.NULL) == 0
    raw.set_used_entry(0, head, 0)
    raw.used_idx = 1
    result: int = lib.vgc_vq_take(vq, ffi.new("void **"), ffi.new("uint32_t *"))
    assert vq.num_free == (NUM if result == 1 else NUM - 2)
    return result


@pytest.mark.parametrize("head", [1, 2, NUM, 0x10000, 0xFFFF_FFFF])
def test_driver_refuses_a_head_that_is_not_in_flight(raw: RawRing, head: int) -> None:
    assert taken(raw, 0) == 1
    raw.avail_idx = raw.used_idx = 0

    assert taken(raw, head) == -errno.EIO
