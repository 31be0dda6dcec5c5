"""The rules of the fake CUDA driver: reserved addresses, physical memory, and mappings of one in the other."""

from __future__ import annotations

import ctypes
import struct
import threading

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.fake_cuda_rig import (
    ILLEGAL_ADDRESS,
    INVALID_DEVICE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    SUCCESS,
    Rig,
    fake,
)

__all__ = ["fake"]

MIB = 1 << 20
GRANULE = 2 * MIB
SUPPORTED = 102
READ, READ_WRITE = 1, 3
WISH = 0x2345_4000_0000


class Prop(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int))


@pytest.fixture
def rig(fake: FakeDriver) -> Rig:
    made = Rig(fake)
    fake.set(f"memory {64 * MIB}", "devices 2")
    made.start()
    return made


def reserve(rig: Rig, size: int = 4 * GRANULE, wish: int = 0) -> int:
    return rig.get("cuMemAddressReserve", size, 0, wish, 0)


def prop(device: int = 0) -> object:
    return ctypes.byref(Prop(1, 0, 1, device, None, 0))


def create(rig: Rig, size: int = GRANULE) -> int:
    return rig.get("cuMemCreate", size, prop(), 0)


def allow_code(rig: Rig, address: int, size: int = GRANULE, flags: int = READ_WRITE, device: int = 0) -> int:
    return rig.code("cuMemSetAccess", address, size, ctypes.byref(Access(1, device, flags)), 1)


def mapped(rig: Rig, address: int, size: int = GRANULE) -> int:
    """Maps fresh memory with access at a reserved address; returns its handle."""
    handle = create(rig, size)
    rig.call("cuMemMap", address, size, 0, handle, 0)
    assert allow_code(rig, address, size) == SUCCESS
    return handle


def wrong(rig: Rig, address: int, size: int, words: str) -> None:
    """Asserts that this was the last recorded misuse."""
    assert rig.fake.misuses()[-1] == f"{address:#x} ({size} bytes) {words}"


# ---- addresses -----------------------------------------------------------------------------------


def test_a_requested_free_address_is_granted(rig: Rig) -> None:
    assert reserve(rig, wish=WISH) == WISH
    other = reserve(rig, wish=WISH)
    assert other not in range(WISH, WISH + 4 * GRANULE)
    assert other % GRANULE == 0


def test_a_requested_address_in_use_by_the_host_is_not_granted(rig: Rig) -> None:
    host = rig.pinned(4096)
    wish = ctypes.addressof(host) // GRANULE * GRANULE
    assert reserve(rig, wish=wish) != wish


def test_a_driver_may_refuse_a_requested_address(fake: FakeDriver) -> None:
    rig = Rig(fake)
    fake.set("reserve_elsewhere 1")
    rig.start()
    assert reserve(rig, wish=WISH) != WISH
    assert reserve(rig, wish=WISH) == WISH


def test_the_host_cannot_access_reserved_addresses(rig: Rig) -> None:
    address = reserve(rig)
    mapped(rig, address)
    with open("/proc/self/maps", encoding="ascii") as lines:
        (line,) = (line for line in lines if line.startswith(f"{address:x}-"))
    assert line.split()[1] == "---p"


@pytest.mark.parametrize(("size", "alignment", "wish", "flags"), [(0, 0, 0, 0), (100, 0, 0, 0), (4096, 3, 0, 0), (4096, 0, 5, 0), (4096, 0, 0, 1)])  # fmt: skip
def test_invalid_reservations_are_refused(rig: Rig, size: int, alignment: int, wish: int, flags: int) -> None:
    found = ctypes.byref(ctypes.c_uint64())
    assert rig.code("cuMemAddressReserve", found, size, alignment, wish, flags) == INVALID_VALUE
    assert "cannot be reserved" in rig.fake.misuses()[-1]


def test_other_memory_avoids_reserved_addresses(rig: Rig) -> None:
    first = rig.alloc(100)
    address = reserve(rig, wish=(first + MIB) // GRANULE * GRANULE + GRANULE)
    later = [rig.alloc(MIB) for _ in range(8)]
    assert all(not address - MIB < held < address + 4 * GRANULE for held in later)


def test_reservations_must_be_freed_whole(rig: Rig) -> None:
    address = reserve(rig)
    assert rig.code("cuMemAddressFree", address, GRANULE) == INVALID_VALUE
    wrong(rig, address, GRANULE, "is not a range that was reserved")
    rig.call("cuMemAddressFree", address, 4 * GRANULE)
    assert rig.fake.number("reservations") == 0


def test_reservations_cannot_be_freed_while_memory_is_mapped(rig: Rig) -> None:
    address = reserve(rig)
    mapped(rig, address + GRANULE)
    assert rig.code("cuMemAddressFree", address, 4 * GRANULE) == INVALID_VALUE
    wrong(rig, address, 4 * GRANULE, "is to be freed with something mapped in it")


# ---- physical memory -----------------------------------------------------------------------------


def test_memory_has_a_granularity(rig: Rig) -> None:
    assert [rig.get("cuMemGetAllocationGranularity", prop(), option) for option in (0, 1)] == [GRANULE, GRANULE]
    assert rig.code("cuMemCreate", ctypes.byref(ctypes.c_uint64()), GRANULE + 4096, prop(), 0) == INVALID_VALUE


def test_physical_memory_is_the_devices(rig: Rig) -> None:
    handle = create(rig, 40 * MIB)
    found = ctypes.byref(ctypes.c_uint64())
    assert rig.code("cuMemCreate", found, 26 * MIB, prop(), 0) == OUT_OF_MEMORY
    assert rig.fake.number("device_bytes") == 40 * MIB
    rig.call("cuMemRelease", handle)
    assert rig.code("cuMemCreate", found, 64 * MIB, prop(), 0) == SUCCESS


def test_properties_are_checked(rig: Rig) -> None:
    found = ctypes.byref(ctypes.c_uint64())
    for bad in (Prop(0, 0, 1, 0), Prop(1, 1, 1, 0), Prop(1, 0, 2, 0), Prop(1, 0, 1, 0, None, 1)):
        assert rig.code("cuMemCreate", found, GRANULE, ctypes.byref(bad), 0) == INVALID_VALUE
    assert rig.code("cuMemCreate", found, GRANULE, prop(7), 0) == INVALID_DEVICE


def test_memory_lives_until_handle_and_mappings_are_gone(rig: Rig) -> None:
    address = reserve(rig)
    handle = mapped(rig, address)
    rig.call("cuMemRelease", handle)
    rig.write(address, b"still here")
    assert rig.fake.number("device_bytes") == GRANULE
    rig.call("cuMemUnmap", address, GRANULE)
    assert (rig.fake.number("device_bytes"), rig.fake.number("physical")) == (0, 0)


def test_a_handle_can_be_released_only_once(rig: Rig) -> None:
    handle = create(rig)
    rig.call("cuMemRelease", handle)
    assert rig.code("cuMemRelease", handle) == INVALID_VALUE
    assert "is a physical allocation that was destroyed" in rig.fake.misuses()[-1]


def test_contents_stay_with_the_physical_memory(rig: Rig) -> None:
    """Memory that is unmapped and mapped elsewhere keeps its bytes. Fresh memory is not zero."""
    address = reserve(rig)
    handle = mapped(rig, address)
    assert rig.read(address, 4) == b"\xcd" * 4
    rig.write(address + 5, b"moves")
    rig.call("cuMemUnmap", address, GRANULE)
    rig.call("cuMemMap", address + GRANULE, GRANULE, 0, handle, 0)
    allow_code(rig, address + GRANULE)
    assert rig.read(address + GRANULE + 5, 5) == b"moves"


# ---- mappings ------------------------------------------------------------------------------------


def test_neighbours_are_one_piece_of_memory(rig: Rig) -> None:
    address, stream = reserve(rig), rig.stream()
    mapped(rig, address)
    mapped(rig, address + GRANULE, 2 * GRANULE)
    data = bytes(range(200)) * 20_000
    rig.write(address + 5, data)
    assert rig.read(address + 5, len(data)) == data
    rig.call("cuMemsetD8Async", address + GRANULE - 5, 7, 10, stream)
    rig.add_one(rig.kernel("add_one"), address + GRANULE - 4, 2, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.read(address + GRANULE - 4, 8) == struct.pack("<2I", 0x07070708, 0x07070708)
    assert rig.fake.misuses() == []


@pytest.mark.parametrize(
    ("offset", "size", "words"),
    [
        (4096, GRANULE, "is to be mapped, and not aligned to the granularity"),
        (0, 2 * GRANULE, "is to be mapped, and not all of the allocation"),
        (4 * GRANULE, GRANULE, "is to be mapped, and not reserved"),
        (GRANULE, GRANULE, "is to be mapped, and is already"),
    ],
)
def test_mappings_must_lie_within_reservations(rig: Rig, offset: int, size: int, words: str) -> None:
    address = reserve(rig)
    mapped(rig, address + GRANULE)
    assert rig.code("cuMemMap", address + offset, size, 0, create(rig), 0) == INVALID_VALUE
    wrong(rig, address + offset, size, words)


def test_a_part_of_an_allocation_cannot_be_mapped(rig: Rig) -> None:
    """The documentation says that the offset "currently must be zero"."""
    address, handle = reserve(rig), create(rig, 2 * GRANULE)
    assert rig.code("cuMemMap", address, GRANULE, GRANULE, handle, 0) == INVALID_VALUE


@pytest.mark.parametrize(
    ("offset", "size"), [(0, GRANULE), (GRANULE, GRANULE), (0, 3 * GRANULE), (2 * GRANULE, GRANULE)]
)
def test_mappings_must_be_unmapped_whole(rig: Rig, offset: int, size: int) -> None:
    address = reserve(rig)
    mapped(rig, address, 2 * GRANULE)
    assert rig.code("cuMemUnmap", address + offset, size) == INVALID_VALUE
    wrong(rig, address + offset, size, "is to be unmapped, and is not one whole mapping")


def test_mapped_memory_is_not_accessible_without_access_rights(rig: Rig) -> None:
    address, stream = reserve(rig), rig.stream()
    rig.call("cuMemMap", address, GRANULE, 0, create(rig), 0)
    assert rig.code("cuMemsetD8Async", address, 7, 10, stream) == INVALID_VALUE
    wrong(rig, address, 10, "is reserved, and not all of it is mapped and accessible")
    rig.launch(rig.kernel("add_one"), struct.pack("<Q", address), struct.pack("<I", 1), stream=stream)
    assert rig.code("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS


def test_access_ends_with_the_mapping(rig: Rig) -> None:
    address = reserve(rig)
    handle = mapped(rig, address)
    rig.call("cuMemUnmap", address, GRANULE)
    rig.call("cuMemMap", address, GRANULE, 0, handle, 0)
    assert rig.code("cuMemsetD8_v2", address, 7, 10) == INVALID_VALUE


def test_access_rights_can_be_queried(rig: Rig) -> None:
    address = reserve(rig)
    mapped(rig, address)
    location = ctypes.byref((ctypes.c_int * 2)(1, 0))
    assert rig.get("cuMemGetAccess", location, address + 5) == READ_WRITE
    assert allow_code(rig, address, flags=READ) == SUCCESS
    assert rig.get("cuMemGetAccess", location, address) == READ
    assert rig.code("cuMemGetAccess", ctypes.byref(ctypes.c_uint64()), location, address + GRANULE) == INVALID_VALUE


@pytest.mark.parametrize(("size", "device"), [(GRANULE, 0), (3 * GRANULE, 0), (2 * GRANULE, 1)])
def test_access_is_given_to_whole_mappings_of_the_device(rig: Rig, size: int, device: int) -> None:
    address = reserve(rig)
    mapped(rig, address, 2 * GRANULE)
    assert allow_code(rig, address, size, device=device) == INVALID_VALUE
    wrong(rig, address, size, "is to be accessible, and not made of whole mappings of that device's memory")


def test_access_is_given_to_several_mappings_at_once(rig: Rig) -> None:
    address = reserve(rig)
    for offset, size in ((0, GRANULE), (GRANULE, 2 * GRANULE)):
        rig.call("cuMemMap", address + offset, size, 0, create(rig, size), 0)
    assert allow_code(rig, address, 3 * GRANULE) == SUCCESS
    rig.write(address, bytes(3 * GRANULE))


def test_unmapping_memory_of_a_running_kernel_is_misuse(rig: Rig) -> None:
    address, stream = reserve(rig), rig.stream()
    mapped(rig, address)
    mapped(rig, address + GRANULE)
    rig.launch(rig.kernel("hang_on"), struct.pack("<Q", address), stream=stream)
    rig.fake.await_hanging()
    rig.call("cuMemUnmap", address + GRANULE, GRANULE)
    assert rig.fake.misuses() == []
    unmapping = threading.Thread(target=rig.call, args=("cuMemUnmap", address, GRANULE))
    unmapping.start()
    while not rig.fake.misuses():
        pass
    wrong(rig, address, GRANULE, "was unmapped while operations used it")
    rig.fake.release()
    unmapping.join()
    assert rig.fake.number("mappings") == 0


def test_a_kernel_on_unmapped_memory_faults(rig: Rig) -> None:
    address, stream = reserve(rig), rig.stream()
    mapped(rig, address)
    kernel = rig.kernel("add_one")
    rig.fake.hold()
    rig.add_one(kernel, address, 1, stream)
    rig.call("cuMemUnmap", address, GRANULE)
    rig.fake.go_on()
    assert rig.code("cuStreamSynchronize", stream) == ILLEGAL_ADDRESS


# ---- a driver without ----------------------------------------------------------------------------


def test_a_device_may_lack_virtual_memory_management(fake: FakeDriver) -> None:
    rig = Rig(fake)
    fake.set("vmm 0")
    rig.start()
    assert rig.get("cuDeviceGetAttribute", SUPPORTED, 0, kind=ctypes.c_int) == 0
    found = ctypes.byref(ctypes.c_uint64())
    assert rig.code("cuMemAddressReserve", found, GRANULE, 0, 0, 0) == NOT_SUPPORTED
    assert rig.code("cuMemCreate", found, GRANULE, prop(), 0) == NOT_SUPPORTED
