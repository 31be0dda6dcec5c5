"""Copies of boxes on the CUDA engine: arrays, memory, the region, odd distances, graphs, on the fake driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.graph import node, nodes_request
from tests.unit.cuda_arrays import Guest, guest
from virtio_proto.schema import Opcode, Status

ROW = 16
PITCH_LIMIT = "attribute.11"
"""CU_DEVICE_ATTRIBUTE_MAX_PITCH"""


@pytest.fixture
def at() -> Iterator[Guest]:
    with guest() as made:
        yield made


def texts(width: int, height: int, depth: int) -> list[list[bytes]]:
    """Rows of letters, all different."""
    return [[bytes([65 + (z * height + y) % 180]) * width for y in range(height)] for z in range(depth)]


def laid_out(rows: list[list[bytes]], pitch: int, slice_: int) -> bytes:
    """Rows at these distances, with dots between them."""
    size = (len(rows) - 1) * slice_ + (len(rows[0]) - 1) * pitch + len(rows[0][0])
    data = bytearray(b"." * size)
    for z, plane in enumerate(rows):
        for y, row in enumerate(plane):
            data[z * slice_ + y * pitch : z * slice_ + y * pitch + len(row)] = row
    return bytes(data)


DISTANCES = {
    "close together": (ROW, 3 * ROW),
    "padded rows": (24, 3 * 24),
    "padded slices": (ROW, 5 * ROW),
    "slices that are no whole rows": (24, 3 * 24 + 7),
}


@pytest.mark.parametrize("distances", DISTANCES.values(), ids=DISTANCES)
def test_rows_are_taken_and_left_where_the_distances_say(at: Guest, distances: tuple[int, int]) -> None:
    pitch, slice_ = distances
    rows = texts(ROW, 3, 40)
    data = laid_out(rows, pitch, slice_)
    src, dst = at.upload(data), at.upload(b"." * len(data))
    box = {"width": ROW, "height": 3, "depth": 40, "src": src, "src_pitch": pitch, "src_slice": slice_}
    at.ok(Opcode.COPY_BOX, box | {"dst": dst, "dst_pitch": pitch, "dst_slice": slice_})
    assert at.download(dst, len(data)) == data


@pytest.mark.parametrize("distances", DISTANCES.values(), ids=DISTANCES)
def test_arrays_take_and_give_rows_at_any_distances(at: Guest, distances: tuple[int, int]) -> None:
    pitch, slice_ = distances
    rows = texts(ROW, 3, 5)
    data = laid_out(rows, pitch, slice_)
    made = at.array(width=4, height=3, depth=5)
    src, dst = at.upload(data), at.upload(b"." * len(data))
    box = {"width": ROW, "height": 3, "depth": 5}
    at.ok(Opcode.COPY_BOX, box | {"src": src, "src_pitch": pitch, "src_slice": slice_, "dst_array": made})
    at.ok(Opcode.COPY_BOX, box | {"dst": dst, "dst_pitch": pitch, "dst_slice": slice_, "src_array": made})
    assert at.download(dst, len(data)) == data


def test_slices_of_one_row_are_one_copy(at: Guest) -> None:
    """Their distance need not be a multiple of that of rows, which has no meaning then."""
    data = laid_out(texts(ROW, 1, 40), 0, 29)
    src, dst = at.upload(data), at.upload(b"." * len(data))
    before = at.driver.count("cuMemcpy3DAsync_v2")
    box = {"width": ROW, "height": 1, "depth": 40, "src": src, "src_slice": 29, "dst": dst, "dst_slice": 29}
    at.ok(Opcode.COPY_BOX, box)
    assert at.driver.count("cuMemcpy3DAsync_v2") == before + 1
    assert at.download(dst, len(data)) == data


def test_slices_that_are_no_whole_rows_are_copied_one_by_one(at: Guest) -> None:
    src = at.upload(bytes(4096))
    before = at.driver.count("cuMemcpy3DAsync_v2")
    made = at.array(width=4, height=3, depth=5)
    zeroes = at.driver.count("cuMemcpy3DAsync_v2") - before
    box = {"width": ROW, "height": 3, "depth": 5, "src": src, "src_pitch": 24, "src_slice": 79, "dst_array": made}
    at.ok(Opcode.COPY_BOX, box)
    assert at.driver.count("cuMemcpy3DAsync_v2") == before + zeroes + 5


def test_rows_beyond_the_drivers_largest_pitch_are_copied_one_by_one() -> None:
    with guest(f"{PITCH_LIMIT} 1000") as at:
        rows = texts(ROW, 20, 2)
        data = laid_out(rows, 1001, 20 * 1001)
        src, dst = at.upload(data), at.upload(b"." * len(data))
        before = at.driver.count("cuMemcpy3DAsync_v2")
        box = {"width": ROW, "height": 20, "depth": 2, "src": src, "src_pitch": 1001, "src_slice": 20020}
        at.ok(Opcode.COPY_BOX, box | {"dst": dst, "dst_pitch": 1001, "dst_slice": 20020})
        assert at.driver.count("cuMemcpy3DAsync_v2") == before + 40
        assert at.download(dst, len(data)) == data


# ---- arrays and the region ------------------------------------------------------------------------------------------


def test_boxes_are_copied_between_arrays(at: Guest) -> None:
    one, other = at.array(depth=4), at.array(depth=4, kind=1)
    at.write(one, laid_out(texts(64, 8, 4), 64, 512), (64, 8, 4))
    box = {"src_array": one, "src_x": 8, "src_y": 2, "src_z": 1, "dst_array": other, "dst_z": 3}
    at.ok(Opcode.COPY_BOX, box | {"width": 32, "height": 4, "depth": 1})
    assert at.read(other, (32, 4, 1), dst_array=0, src_z=3) == at.read(one, (32, 4, 1), src_x=8, src_y=2, src_z=1)


def test_arrays_of_different_texels_are_not_copied_between(at: Guest) -> None:
    box = {"src_array": at.array(), "dst_array": at.array(channels=2), "width": 8, "height": 1, "depth": 1}
    status, text = at.refused(Opcode.COPY_BOX, box)
    assert (status, text[:6]) == (Status.INVALID_ARGUMENT, "a copy")
    assert "CUDA_ERROR_INVALID_VALUE" in text


@pytest.mark.parametrize("place", [{"dst_x": 2}, {"width": 6}])
def test_boxes_are_of_whole_texels(at: Guest, place: dict[str, int]) -> None:
    box = {"src": at.upload(bytes(64)), "dst_array": at.array(), "width": 8, "height": 1, "depth": 1}
    status, text = at.refused(Opcode.COPY_BOX, box | place)
    assert (status, "texels have 4 bytes" in text) == (Status.INVALID_ARGUMENT, True)


def test_the_region_is_a_side_of_boxes(at: Guest) -> None:
    region, address = at.rig.region, at.rig.plane.region_address
    block, back = region.allocate(4 * 24), region.allocate(4 * 24)
    data = laid_out(texts(ROW, 4, 1), 24, 0)
    region.write(block, data)
    made = at.array(width=4, height=4)
    box = {"width": ROW, "height": 4, "depth": 1}
    at.ok(Opcode.COPY_BOX, box | {"src": address + block.offset, "src_pitch": 24, "dst_array": made})
    at.ok(Opcode.COPY_BOX, box | {"dst": address + back.offset, "dst_pitch": 24, "src_array": made})
    assert region.read(back)[:16] == data[:16]
    assert region.read(back)[72:88] == data[72:88]


def test_boxes_within_the_region_keep_the_streams_order(at: Guest) -> None:
    """The driver would copy host memory at once, before what was submitted earlier."""
    region, address = at.rig.region, at.rig.plane.region_address
    memory = at.upload(b"x" * 96)
    one, other = region.allocate(96), region.allocate(96)
    hang = at.rig.driver.submit(
        Opcode.LAUNCH,
        {"function": at.functions["hang"], "grid": [1, 1, 1], "block": [1, 1, 1]},
        context=at.context,
    )
    first = at.rig.driver.submit(
        Opcode.COPY_DEVICE, {"src": memory, "dst": address + one.offset, "size": 96}, context=at.context
    )
    box = {"src": address + one.offset, "dst": address + other.offset, "width": 16, "height": 4, "depth": 1}
    second = at.rig.driver.submit(Opcode.COPY_BOX, box | {"src_pitch": 24, "dst_pitch": 24}, context=at.context)
    at.driver.await_hanging()
    at.driver.release()
    for pending in (hang, first, second):
        assert at.rig.driver.wait(pending).status is Status.OK
    assert region.read(other)[72:88] == b"x" * 16


# ---- graphs ---------------------------------------------------------------------------------------------------------


def test_graphs_have_boxes_fills_copies_and_kernels(at: Guest) -> None:
    made, other = at.array(width=4, height=2), at.array(width=4, height=2)
    src, dst = at.upload(bytes(32)), at.upload(bytes(32))
    box = {"width": ROW, "height": 2, "depth": 1}
    nodes = [
        node(Opcode.FILL, {"dst": src, "size": 32, "value": 0x41, "unit": 1}),
        node(Opcode.COPY_BOX, box | {"src": src, "src_pitch": ROW, "dst_array": made}, deps=[0]),
        node(Opcode.COPY_BOX, box | {"src_array": made, "dst_array": other}, deps=[1]),
        node(Opcode.COPY_BOX, box | {"src_array": other, "dst": dst, "dst_pitch": ROW}, deps=[2]),
        node(Opcode.COPY_DEVICE, {"src": dst, "dst": src, "size": 16}, deps=[3]),
        node(Opcode.NOP, deps=[4]),
    ]
    body, data = nodes_request(nodes)
    graph = at.ok(Opcode.GRAPH_CREATE, body, data).value
    for _ in range(2):
        at.ok(Opcode.GRAPH_LAUNCH, {"graph": graph})
    assert at.download(dst, 32) == b"A" * 32
    at.ok(Opcode.ARRAY_DESTROY, {"array": other})
    assert at.refused(Opcode.GRAPH_LAUNCH, {"graph": graph})[0] is Status.NOT_FOUND


def test_a_box_of_a_graph_may_need_steps(at: Guest) -> None:
    data = laid_out(texts(ROW, 3, 40), 24, 79)
    src, dst = at.upload(data), at.upload(b"." * len(data))
    box = {"width": ROW, "height": 3, "depth": 40, "src": src, "src_pitch": 24, "src_slice": 79}
    last = node(Opcode.FILL, {"dst": dst, "size": 1, "value": 0x21, "unit": 1}, deps=[0])
    body, nodes = nodes_request([node(Opcode.COPY_BOX, box | {"dst": dst, "dst_pitch": 24, "dst_slice": 79}), last])
    at.ok(Opcode.GRAPH_LAUNCH, {"graph": at.ok(Opcode.GRAPH_CREATE, body, nodes).value})
    assert at.download(dst, len(data)) == b"!" + data[1:]
