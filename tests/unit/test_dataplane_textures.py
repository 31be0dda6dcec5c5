"""Arrays, boxes, textures and surfaces in the data plane: answers and refusals, with an engine that stores nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from virtio_proto import schema
from virtio_proto.schema import ArrayFlag, ChannelKind, Opcode, Status, TextureFlag, TextureResource

GRANULARITY = 4096
FLOATS = {"width": 16, "height": 8, "levels": 1, "kind": ChannelKind.FLOAT, "bits": 32, "channels": 1}
LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}
OPCODES = [op for op in Opcode if Opcode.ARRAY_CREATE <= op <= Opcode.OBJECT_DESTROY]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


@pytest.fixture
def context(rig: Rig) -> int:
    return rig.context()


def array(rig: Rig, context: int, **changes: Any) -> int:
    return rig.ok(Opcode.ARRAY_CREATE, FLOATS | changes, context=context).value


def refused(rig: Rig, context: int, opcode: Opcode, body: dict[str, Any]) -> tuple[Status, str]:
    reply = rig.driver.request(opcode, body, writable_len=1024, context=context)
    assert reply.status is not Status.OK
    assert reply.text
    return reply.status, reply.text


# ---- arrays ---------------------------------------------------------------------------------------------------------

SHAPES: list[tuple[dict[str, Any], int]] = [
    ({"height": 0}, 16 * 4),
    ({}, 16 * 8 * 4),
    ({"channels": 4, "bits": 16}, 16 * 8 * 8),
    ({"depth": 5}, 16 * 8 * 5 * 4),
    ({"height": 0, "depth": 3, "flags": ArrayFlag.LAYERED}, 16 * 3 * 4),
    ({"width": 8, "depth": 6, "flags": ArrayFlag.CUBEMAP}, 8 * 8 * 6 * 4),
    ({"width": 8, "depth": 12, "flags": ArrayFlag.CUBEMAP | ArrayFlag.LAYERED}, 8 * 8 * 12 * 4),
    ({"levels": 5}, (16 * 8 + 8 * 4 + 4 * 2 + 2 * 1 + 1) * 4),
    ({"depth": 4, "levels": 2}, (16 * 8 * 4 + 8 * 4 * 2) * 4),
    ({"depth": 4, "levels": 2, "flags": ArrayFlag.LAYERED}, (16 * 8 * 4 + 8 * 4 * 4) * 4),
]


@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_an_array_takes_its_texels_from_the_quota_until_it_is_destroyed(
    rig: Rig, context: int, shape: dict[str, Any], size: int
) -> None:
    reply = rig.ok(Opcode.ARRAY_CREATE, FLOATS | shape, context=context)
    charged = -(-size // GRANULARITY) * GRANULARITY
    assert (reply.aux, rig.usage().memory_used_bytes) == (charged, charged)
    rig.ok(Opcode.ARRAY_DESTROY, {"array": reply.value}, context=context)
    assert rig.usage().memory_used_bytes == 0


@pytest.mark.parametrize("shape", [
    {"width": 0}, {"width": 131073}, {"height": 131073}, {"depth": 16385}, {"levels": 0}, {"levels": 6},
    {"levels": 0xFFFFFFFF}, {"kind": 3}, {"bits": 0}, {"bits": 64}, {"bits": 8}, {"channels": 0}, {"channels": 3},
    {"channels": 0x40000001}, {"flags": 16}, {"flags": ArrayFlag.LAYERED}, {"flags": ArrayFlag.CUBEMAP},
    {"width": 8, "depth": 5, "flags": ArrayFlag.CUBEMAP}, {"depth": 6, "flags": ArrayFlag.CUBEMAP},
    {"width": 8, "depth": 7, "flags": ArrayFlag.CUBEMAP | ArrayFlag.LAYERED}, {"height": 0, "depth": 4},
])  # fmt: skip
def test_shapes_that_do_not_exist_are_refused(rig: Rig, context: int, shape: dict[str, Any]) -> None:
    status, text = refused(rig, context, Opcode.ARRAY_CREATE, FLOATS | shape)
    assert status is Status.INVALID_ARGUMENT
    assert "an array of" in text


def test_the_largest_array_exceeds_the_quota_and_nothing_else(rig: Rig, context: int) -> None:
    shape = FLOATS | {"width": 131072, "height": 131072, "depth": 16384, "levels": 18, "channels": 4}
    status, text = refused(rig, context, Opcode.ARRAY_CREATE, shape)
    assert status is Status.OUT_OF_MEMORY
    assert f"of {LIMITS.memory_bytes} bytes free" in text


def test_array_memory_is_no_memory_of_the_guest(rig: Rig, context: int) -> None:
    array(rig, context)
    first = 1 << 32
    assert refused(rig, context, Opcode.FREE, {"address": first})[0] is Status.INVALID_ADDRESS
    copy = {"dst": first, "size": 4}
    reply = rig.driver.request(Opcode.COPY_IN, copy, payload_in=bytes(4), context=context)
    assert reply.status is Status.INVALID_ADDRESS


def test_arrays_belong_to_their_context(rig: Rig, context: int) -> None:
    other = rig.context()
    made = array(rig, context)
    for opcode, body in (
        (Opcode.ARRAY_DESTROY, {"array": made}),
        (Opcode.SURFACE_CREATE, {"array": made}),
        (Opcode.TEXTURE_CREATE, {"array": made}),
        (Opcode.COPY_BOX, {"dst_array": made, "src_array": made, "dst_y": 4, "width": 4, "height": 1, "depth": 1}),
    ):
        assert refused(rig, other, opcode, body)[0] is Status.NOT_FOUND
        assert refused(rig, context, opcode, body | {name: made + 1 for name in body if "array" in name})[0] is (
            Status.NOT_FOUND
        )


def test_a_destroyed_array_is_gone_and_its_id_not_used_again_soon(rig: Rig, context: int) -> None:
    made = array(rig, context)
    rig.ok(Opcode.ARRAY_DESTROY, {"array": made}, context=context)
    assert array(rig, context) != made
    assert refused(rig, context, Opcode.ARRAY_DESTROY, {"array": made})[0] is Status.NOT_FOUND
    assert refused(rig, context, Opcode.TEXTURE_CREATE, {"array": made})[0] is Status.NOT_FOUND


def _hold(rig: Rig, context: int) -> tuple[Any, int]:
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    return rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context), ids["release"]


@pytest.mark.parametrize("what", ["array", "object"])
def test_what_is_in_use_is_destroyed_after_earlier_work(rig: Rig, context: int, what: str) -> None:
    made = array(rig, context, flags=ArrayFlag.SURFACE)
    if what == "object":
        made = rig.ok(Opcode.SURFACE_CREATE, {"array": made}, context=context).value
    opcode = Opcode.ARRAY_DESTROY if what == "array" else Opcode.OBJECT_DESTROY
    held, release = _hold(rig, context)
    destroy = rig.driver.submit(opcode, {what: made}, context=context, stream=1)
    assert refused(rig, context, opcode, {what: made})[0] is Status.NOT_FOUND
    assert destroy.reply is None
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": release}, context=context, stream=2)
    assert rig.driver.wait(held).status is Status.OK
    assert rig.driver.wait(destroy).status is Status.OK


def test_a_context_takes_its_arrays_and_objects_along(rig: Rig, context: int) -> None:
    made = array(rig, context)
    rig.ok(Opcode.TEXTURE_CREATE, {"array": made}, context=context)
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
    assert rig.usage().memory_used_bytes == 0
    again = rig.context()
    assert refused(rig, again, Opcode.TEXTURE_CREATE, {"array": made})[0] is Status.NOT_FOUND


# ---- boxes ----------------------------------------------------------------------------------------------------------

MEMORY_BYTES = 4096
BOX = {"src_pitch": 64, "src_slice": 512, "width": 64, "height": 8, "depth": 1}


@pytest.fixture
def box(rig: Rig, context: int) -> dict[str, int]:
    """A copy of `MEMORY_BYTES` of memory to an array of 16 x 8 x 3 texels, in 2 levels."""
    made = array(rig, context, depth=3, levels=2)
    return BOX | {"src": rig.alloc(context, MEMORY_BYTES), "dst_array": made}


def test_boxes_inside_are_copied(rig: Rig, context: int, box: dict[str, int]) -> None:
    for change in (
        {},
        {"depth": 3},
        {"width": 4, "dst_x": 60, "height": 1, "dst_y": 7, "dst_z": 2},
        {"dst_level": 1, "width": 32, "height": 4},
        {"width": 0, "dst_x": 1 << 31},
        {"src": box["src"] + MEMORY_BYTES - 512},
        {"src": box["src"] + MEMORY_BYTES - 64, "height": 1, "src_pitch": 0, "src_slice": 0},
    ):
        rig.ok(Opcode.COPY_BOX, box | change, context=context)
    back = {"dst": box["src"], "dst_pitch": 64, "src_array": box["dst_array"], "width": 64, "height": 8, "depth": 1}
    rig.ok(Opcode.COPY_BOX, back, context=context)


def test_boxes_of_memory_are_copied(rig: Rig, context: int, box: dict[str, int]) -> None:
    apart = {"dst_array": 0, "dst": rig.alloc(context, MEMORY_BYTES), "dst_pitch": 128, "height": 4}
    rig.ok(Opcode.COPY_BOX, box | apart, context=context)
    rig.ok(Opcode.COPY_BOX, box | apart | {"dst": box["src"] + 64, "dst_pitch": 64}, context=context)
    for change in ({"dst_pitch": 63}, {"depth": 2, "dst_slice": 511}):
        assert refused(rig, context, Opcode.COPY_BOX, box | apart | change)[0] is Status.INVALID_ARGUMENT
    beyond = {"dst": apart["dst"] + MEMORY_BYTES - 3 * 128 - 63}
    assert refused(rig, context, Opcode.COPY_BOX, box | apart | beyond)[0] is Status.INVALID_ADDRESS


@pytest.mark.parametrize(("change", "status"), [
    ({"dst_x": 1}, Status.INVALID_ADDRESS),
    ({"dst_x": 0xFFFFFFFF}, Status.INVALID_ADDRESS),
    ({"width": 0xFFFFFFFF}, Status.INVALID_ARGUMENT),
    ({"dst_y": 1}, Status.INVALID_ADDRESS),
    ({"height": 0xFFFFFFFF}, Status.INVALID_ARGUMENT),
    ({"height": 9}, Status.INVALID_ADDRESS),
    ({"dst_z": 3}, Status.INVALID_ADDRESS),
    ({"depth": 4}, Status.INVALID_ADDRESS),
    ({"dst_level": 1}, Status.INVALID_ADDRESS),
    ({"dst_level": 2}, Status.INVALID_ARGUMENT),
    ({"dst_level": 0xFFFFFFFF}, Status.INVALID_ARGUMENT),
    ({"src_pitch": 63}, Status.INVALID_ARGUMENT),
    ({"depth": 2, "src_slice": 511}, Status.INVALID_ARGUMENT),
    ({"depth": 3, "src_slice": 2048}, Status.INVALID_ADDRESS),
    ({"depth": 3, "src_slice": (1 << 64) - 1}, Status.INVALID_ADDRESS),
    ({"src_pitch": (1 << 64) - 1}, Status.INVALID_ADDRESS),
    ({"src_pitch": 1 << 61}, Status.INVALID_ADDRESS),
    ({"dst": 1}, Status.BAD_REQUEST),
    ({"dst_pitch": 64}, Status.BAD_REQUEST),
    ({"dst_slice": 64}, Status.BAD_REQUEST),
    ({"src_x": 4}, Status.BAD_REQUEST),
    ({"src_level": 1}, Status.BAD_REQUEST),
    ({"reserved": 1}, Status.BAD_REQUEST),
    ({"src_reserved": 1}, Status.BAD_REQUEST),
    ({"dst_reserved": 1}, Status.BAD_REQUEST),
    ({"dst_array": 0, "dst_pitch": 64}, Status.INVALID_ADDRESS),
])  # fmt: skip
def test_other_boxes_are_refused(
    rig: Rig, context: int, box: dict[str, int], change: dict[str, int], status: Status
) -> None:
    found, text = refused(rig, context, Opcode.COPY_BOX, box | change)
    refusals = {status, Status.INVALID_ADDRESS} if status is Status.INVALID_ARGUMENT else {status}
    assert found in refusals, text


def test_boxes_of_one_array_must_not_overlap(rig: Rig, context: int) -> None:
    made = array(rig, context)
    body = {"dst_array": made, "src_array": made, "width": 16, "height": 4, "depth": 1, "dst_x": 8}
    assert refused(rig, context, Opcode.COPY_BOX, body)[0] is Status.INVALID_ARGUMENT
    assert refused(rig, context, Opcode.COPY_BOX, body | {"dst_y": 3})[0] is Status.INVALID_ARGUMENT
    rig.ok(Opcode.COPY_BOX, body | {"dst_y": 4}, context=context)
    rig.ok(Opcode.COPY_BOX, body | {"dst_x": 16}, context=context)


def test_memory_of_another_context_is_no_side_of_a_box(rig: Rig, context: int, box: dict[str, int]) -> None:
    foreign = rig.alloc(rig.context(), MEMORY_BYTES)
    assert refused(rig, context, Opcode.COPY_BOX, box | {"src": foreign})[0] is Status.INVALID_ADDRESS


# ---- objects --------------------------------------------------------------------------------------------------------


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def test_textures_and_surfaces_are_apart_and_go_once(rig: Rig, context: int) -> None:
    made = array(rig, context, flags=ArrayFlag.SURFACE)
    texture = rig.ok(Opcode.TEXTURE_CREATE, {"array": made, "border": [bits(0.5)] * 4}, context=context).value
    surface = rig.ok(Opcode.SURFACE_CREATE, {"array": made}, context=context).value
    assert len({0, texture, surface}) == 3
    foreign = rig.context()
    for handle in (texture, surface):
        assert refused(rig, foreign, Opcode.OBJECT_DESTROY, {"object": handle})[0] is Status.NOT_FOUND
        assert refused(rig, context, Opcode.FREE, {"address": handle})[0] is Status.INVALID_ADDRESS
        rig.ok(Opcode.OBJECT_DESTROY, {"object": handle}, context=context)
        assert refused(rig, context, Opcode.OBJECT_DESTROY, {"object": handle})[0] is Status.NOT_FOUND
    memory = rig.alloc(context, 64)
    assert refused(rig, context, Opcode.OBJECT_DESTROY, {"object": memory})[0] is Status.NOT_FOUND


@pytest.mark.parametrize(("change", "status"), [
    ({"resource": 3}, Status.INVALID_ARGUMENT),
    ({"reserved": 1}, Status.BAD_REQUEST),
    ({"address": 4096}, Status.BAD_REQUEST),
    ({"pitch": 64}, Status.BAD_REQUEST),
    ({"width": 16}, Status.BAD_REQUEST),
    ({"bits": 16, "channels": 1}, Status.INVALID_ARGUMENT),
    ({"kind": 2}, Status.INVALID_ARGUMENT),
    ({"bits": 0x80000000, "channels": 2}, Status.INVALID_ARGUMENT),
    ({"flags": 32}, Status.INVALID_ARGUMENT),
    ({"modes": [4, 0, 0]}, Status.INVALID_ARGUMENT),
    ({"max_anisotropy": 17}, Status.INVALID_ARGUMENT),
    ({"kind": 1, "bits": 32, "channels": 1, "flags": TextureFlag.LINEAR}, Status.INVALID_ARGUMENT),
    ({"kind": 1, "bits": 8, "channels": 4, "flags": TextureFlag.LINEAR}, Status.INVALID_ARGUMENT),
    ({"first_level": 2}, Status.INVALID_ARGUMENT),
    ({"num_levels": 3}, Status.INVALID_ARGUMENT),
    ({"first_level": 1, "num_levels": 0xFFFFFFFF}, Status.INVALID_ARGUMENT),
    ({"first_layer": 3, "num_levels": 1}, Status.INVALID_ARGUMENT),
    ({"first_layer": 1, "num_layers": 3, "num_levels": 1}, Status.INVALID_ARGUMENT),
    ({"num_layers": 2}, Status.INVALID_ARGUMENT),
])  # fmt: skip
def test_textures_that_do_not_fit_their_array_are_refused(
    rig: Rig, context: int, change: dict[str, Any], status: Status
) -> None:
    made = array(rig, context, depth=3, levels=2, flags=ArrayFlag.LAYERED)
    assert refused(rig, context, Opcode.TEXTURE_CREATE, {"array": made} | change)[0] is status


def test_views_of_an_array_may_have_other_channels_levels_and_layers(rig: Rig, context: int) -> None:
    made = array(rig, context, depth=3, levels=2, flags=ArrayFlag.LAYERED)
    for view in (
        {"kind": ChannelKind.UNSIGNED, "bits": 8, "channels": 4},
        {"kind": 1, "bits": 8, "channels": 4, "flags": TextureFlag.AS_FLOAT | TextureFlag.LINEAR},
        {"first_level": 1, "first_layer": 2, "num_layers": 1},
    ):
        rig.ok(Opcode.TEXTURE_CREATE, {"array": made} | view, context=context)


LINEAR = {"resource": TextureResource.LINEAR, "width": 64, "height": 1, "kind": 2, "bits": 32, "channels": 1}
PITCH = {"resource": TextureResource.PITCH, "width": 16, "height": 4, "pitch": 64, "kind": 2, "bits": 32, "channels": 1}


@pytest.mark.parametrize(("body", "change", "status"), [
    (LINEAR, {"width": 65}, Status.INVALID_ADDRESS),
    (LINEAR, {"width": 0}, Status.INVALID_ARGUMENT),
    (LINEAR, {"width": (1 << 27) + 1}, Status.INVALID_ARGUMENT),
    (LINEAR, {"height": 2}, Status.INVALID_ARGUMENT),
    (LINEAR, {"channels": 3}, Status.INVALID_ARGUMENT),
    (LINEAR, {"bits": 0}, Status.INVALID_ARGUMENT),
    (LINEAR, {"array": 1}, Status.BAD_REQUEST),
    (LINEAR, {"num_levels": 1}, Status.BAD_REQUEST),
    (LINEAR, {"address": 2}, Status.INVALID_ARGUMENT),
    (PITCH, {"height": 5}, Status.INVALID_ADDRESS),
    (PITCH, {"pitch": 65}, Status.INVALID_ADDRESS),
    (PITCH, {"pitch": 63}, Status.INVALID_ARGUMENT),
    (PITCH, {"pitch": (1 << 64) - 1}, Status.INVALID_ARGUMENT),
    (PITCH, {"height": 0}, Status.INVALID_ARGUMENT),
    (PITCH, {"height": 0xFFFFFFFF}, Status.INVALID_ARGUMENT),
])  # fmt: skip
def test_textures_over_memory_must_lie_in_one_allocation(
    rig: Rig, context: int, body: dict[str, Any], change: dict[str, Any], status: Status
) -> None:
    address = rig.alloc(context, 256)
    rig.ok(Opcode.TEXTURE_CREATE, body | {"address": address}, context=context)
    wrong = body | change | {"address": address + change.get("address", 0)}
    assert refused(rig, context, Opcode.TEXTURE_CREATE, wrong)[0] is status


def test_surfaces_need_an_array_that_allows_them(rig: Rig, context: int) -> None:
    plain, mipmap = array(rig, context), array(rig, context, flags=ArrayFlag.SURFACE, levels=2)
    assert refused(rig, context, Opcode.SURFACE_CREATE, {"array": plain})[0] is Status.INVALID_ARGUMENT
    assert refused(rig, context, Opcode.SURFACE_CREATE, {"array": mipmap, "level": 2})[0] is Status.INVALID_ARGUMENT
    rig.ok(Opcode.SURFACE_CREATE, {"array": mipmap, "level": 1}, context=context)


def test_objects_count_against_the_quota(rig: Rig, context: int) -> None:
    made = array(rig, context)
    room = LIMITS.memory_bytes // GRANULARITY - 1
    for _ in range(room):
        rig.ok(Opcode.TEXTURE_CREATE, {"array": made}, context=context)
    assert refused(rig, context, Opcode.TEXTURE_CREATE, {"array": made})[0] is Status.OUT_OF_MEMORY


# ---- whatever a guest sends -----------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.integers(0, 20), st.sampled_from([64, 4096, 1 << 31, (1 << 32) - 1]))


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Opcode, dict[str, Any]]:
    opcode = draw(st.sampled_from(OPCODES))
    body: dict[str, Any] = {}
    for field in schema.fields(schema.BODIES[opcode]):
        values = [draw(NUMBERS) for _ in range(field.count)]
        body[field.name] = values if field.count > 1 else values[0]
    return opcode, body


@given(st.lists(bodies(), min_size=1, max_size=24))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_requests_are_answered_once_and_leave_nothing_behind(
    rig: Rig, requests: list[tuple[Opcode, dict[str, Any]]]
) -> None:
    context = rig.context()
    known = {"array": array(rig, context, depth=4, levels=2, flags=ArrayFlag.LAYERED | ArrayFlag.SURFACE)}
    memory = rig.alloc(context, 4096)
    pending = []
    for opcode, body in requests:
        for name in body:
            if name.endswith("array") and body[name] % 3 == 0:
                body[name] = known["array"]
            if name in ("dst", "src", "address") and body[name] % 3 == 0:
                body[name] = memory
        pending.append(rig.driver.submit(opcode, body, context=context, writable_len=512))
    for each in pending:
        assert rig.driver.wait(each).status in Status
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
    assert rig.usage().memory_used_bytes == 0
