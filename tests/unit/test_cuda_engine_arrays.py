"""Arrays on the CUDA engine: shapes, zeroes, charges, limits, lifetimes, on the fake driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.cuda_arrays import FLOATS, SHAPES, Body, Guest, guest, level_size
from tests.unit.cuda_rig import CUDA_LIMITS, MIB
from vhost_backend._dataplane import lib
from virtio_proto.schema import Opcode, Status

PAGE = 64 << 10
DEFERRED = "attribute.121"
"""CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED"""


@pytest.fixture(params=["pool", "mapped"])
def at(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A guest with each kind of memory."""
    with guest(memory_kind=lib.VGC_CUDA_MAPPED if request.param == "mapped" else lib.VGC_CUDA_POOL) as made:
        yield made


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_new_arrays_hold_zeroes_in_all_levels(at: Guest, shape: Body) -> None:
    """The fake's arrays are full of other bytes at first."""
    made = at.array(**shape)
    for level in range(shape.get("levels", 1)):
        row, rows, slices = level_size(shape, level)
        assert at.read(made, (row, rows, slices), src_level=level) == bytes(row * rows * slices)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_copied_into_a_level_stays_there(at: Guest, shape: Body) -> None:
    made = at.array(**shape)
    last = shape.get("levels", 1) - 1
    row, rows, slices = level_size(shape, last)
    data = bytes(i * 7 % 251 for i in range(row * rows * slices))
    at.write(made, data, (row, rows, slices), dst_level=last)
    assert at.read(made, (row, rows, slices), src_level=last) == data


def test_a_box_lies_where_its_place_says(at: Guest) -> None:
    made = at.array(depth=5)
    at.write(made, b"12345678abcdefgh", (8, 2, 1), dst_x=4, dst_y=3, dst_z=2)
    whole = at.read(made, (64, 8, 5))
    begin = 2 * 64 * 8 + 3 * 64 + 4
    assert (whole[begin : begin + 8], whole[begin + 64 : begin + 72]) == (b"12345678", b"abcdefgh")
    assert at.read(made, (8, 2, 1), src_x=4, src_y=3, src_z=2) == b"12345678abcdefgh"
    assert whole.count(b"\0") == len(whole) - 16


# ---- size -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deferred", [1, 0])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_arrays_are_charged_at_least_what_the_driver_takes_for_them(shape: Body, deferred: int) -> None:
    with guest(f"{DEFERRED} {deferred}") as made:
        made.array()  # with it come the zeroes that arrays get
        before, charged = made.driver.number("device_bytes"), made.rig.usage().memory_used_bytes
        reply = made.ok(Opcode.ARRAY_CREATE, dict(FLOATS) | dict(shape))
        taken = made.driver.number("device_bytes") - before
        assert made.rig.usage().memory_used_bytes - charged == reply.aux
        assert PAGE <= taken <= reply.aux
        made.ok(Opcode.ARRAY_DESTROY, {"array": reply.value})
        assert made.rig.usage().memory_used_bytes == charged
        assert made.driver.number("device_bytes") == before


def test_the_drivers_size_is_charged_where_it_tells_one(at: Guest) -> None:
    assert at.ok(Opcode.ARRAY_CREATE, dict(FLOATS) | {"width": 3, "height": 3}).aux == PAGE
    assert at.ok(Opcode.ARRAY_CREATE, dict(FLOATS) | {"width": 256, "height": 256}).aux == 256 << 10


def test_an_array_beyond_the_quota_is_not_made() -> None:
    with guest(limits=replace(CUDA_LIMITS, memory_bytes=16 * MIB)) as made:
        before = made.driver.count("cuArray3DCreate_v2")
        status, text = made.refused(Opcode.ARRAY_CREATE, dict(FLOATS) | {"width": 4096, "height": 2048})
        assert (status, "of 16777216 bytes free" in text) == (Status.OUT_OF_MEMORY, True)
        assert made.driver.count("cuArray3DCreate_v2") == before
        assert made.rig.usage().memory_used_bytes == 0


def test_the_largest_extents_of_the_wire_do_not_overflow(at: Guest) -> None:
    shape = dict(FLOATS) | {"width": 131072, "height": 131072, "depth": 16384, "levels": 18, "channels": 4}
    assert at.refused(Opcode.ARRAY_CREATE, shape)[0] is Status.OUT_OF_MEMORY
    assert at.driver.count("cuMipmappedArrayCreate") == 0


@pytest.mark.parametrize("shape", [
    {"height": 65537, "width": 1, "bits": 8, "kind": 1}, {"width": 32769, "height": 1, "depth": 1, "flags": 1},
    {"width": 1, "height": 0, "depth": 2049, "flags": 1}, {"width": 32769, "height": 0, "flags": 2},
    {"width": 32768, "height": 0, "levels": 17}, {"depth": 2, "flags": 8},
])  # fmt: skip
def test_a_shape_that_the_gpu_does_not_have_is_refused_in_its_words(at: Guest, shape: Body) -> None:
    status, text = at.refused(Opcode.ARRAY_CREATE, dict(FLOATS) | dict(shape))
    assert status is Status.INVALID_ARGUMENT
    assert "array of" in text
    assert at.rig.usage().memory_used_bytes == 0


def test_memory_that_a_pool_keeps_makes_way_for_arrays() -> None:
    """Both together stay within the quota, so that other VMs find their share."""
    with guest(limits=replace(CUDA_LIMITS, memory_bytes=128 * MIB)) as made:
        made.ok(Opcode.FREE, {"address": made.rig.alloc(made.context, 120 * MIB)})
        trims = made.driver.count("cuMemPoolTrimTo")
        made.array(width=4096, height=4096)
        assert made.driver.count("cuMemPoolTrimTo") > trims


# ---- life -----------------------------------------------------------------------------------------------------------


def test_a_context_takes_its_arrays_and_objects_along(at: Guest) -> None:
    other = at.rig.context()
    for shape in SHAPES.values():
        made = at.ok(Opcode.ARRAY_CREATE, dict(FLOATS) | dict(shape), context=other).value
        at.ok(Opcode.TEXTURE_CREATE, {"array": made, "flags": 1}, context=other)
    assert at.driver.number("objects") == len(SHAPES)
    assert at.rig.cold(Opcode.CONTEXT_DESTROY, context=other).status is Status.OK
    assert (at.driver.number("arrays"), at.driver.number("objects")) == (0, 0)
    assert at.rig.usage().memory_used_bytes == 0


def test_an_array_is_freed_behind_what_uses_it(at: Guest) -> None:
    """The fake records misuse if an array goes while a copy uses it."""
    made = at.array()
    memory = at.upload(bytes(64))
    launch = {"function": at.functions["hang"], "grid": [1, 1, 1], "block": [1, 1, 1]}
    hang = at.rig.driver.submit(Opcode.LAUNCH, launch, context=at.context)
    box = {"src": memory, "dst_array": made, "width": 64, "height": 1, "depth": 1}
    copy = at.rig.driver.submit(Opcode.COPY_BOX, box, context=at.context)
    destroy = at.rig.driver.submit(Opcode.ARRAY_DESTROY, {"array": made}, context=at.context, stream=1)
    at.driver.await_hanging()
    assert at.refused(Opcode.TEXTURE_CREATE, {"array": made})[0] is Status.NOT_FOUND
    assert at.driver.number("arrays") == 1
    at.driver.release()
    for pending in (hang, copy, destroy):
        assert at.rig.driver.wait(pending).status is Status.OK
    assert at.driver.number("arrays") == 0


def test_streams_are_ordered_behind_the_zeroes_of_an_array(at: Guest) -> None:
    at.array()
    waits = at.driver.count("cuStreamWaitEvent")
    made = at.array()
    at.read(made, (64, 8, 1))
    assert at.driver.count("cuStreamWaitEvent") > waits


@pytest.mark.parametrize("name", ["cuArray3DCreate_v2", "cuMemcpy3DAsync_v2"])
def test_an_array_that_cannot_be_made_leaves_nothing_behind(at: Guest, name: str) -> None:
    at.array()
    before = at.driver.number("device_bytes"), at.rig.usage().memory_used_bytes
    at.driver.inject(name, 2, nth=2 if name.startswith("cuArray") else 1)  # the first array has no memory
    assert at.refused(Opcode.ARRAY_CREATE, FLOATS)[0] is Status.OUT_OF_MEMORY
    assert (at.driver.number("device_bytes"), at.rig.usage().memory_used_bytes) == before


def test_a_size_that_the_driver_does_not_tell_is_bounded(at: Guest) -> None:
    at.driver.inject("cuArrayGetMemoryRequirements", 801)
    assert at.ok(Opcode.ARRAY_CREATE, FLOATS).aux >= PAGE
