"""Textures and surfaces on the CUDA engine: what the driver is told, and what kernels get, on the fake driver."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.cuda_arrays import Guest, guest
from virtio_proto.schema import ArrayFlag, Opcode, Status, TextureFlag, TextureResource

LINEAR = {"resource": TextureResource.LINEAR, "height": 1, "kind": 1, "bits": 32, "channels": 1}
ROWS = {"resource": TextureResource.PITCH, "kind": 1, "bits": 32, "channels": 1}
COUNT = struct.pack("<128I", *range(128))


@pytest.fixture
def at() -> Iterator[Guest]:
    with guest() as made:
        yield made


def counted(at: Guest, **shape: Any) -> int:
    """A two-dimensional array whose texels have their number."""
    made = at.array(kind=1, **shape)
    at.write(made, COUNT, (64, 8, 1))
    return made


def number(texel: bytes) -> int:
    return int.from_bytes(texel, "little")


def told(at: Guest) -> str:
    """The last call that made a texture."""
    return at.driver.calls("cuTexObjectCreate")[-1]


# ---- what kernels get -----------------------------------------------------------------------------------------------


def test_kernels_read_arrays_through_textures_and_surfaces(at: Guest) -> None:
    made = counted(at, flags=ArrayFlag.SURFACE)
    texture = at.ok(Opcode.TEXTURE_CREATE, {"array": made}).value
    surface = at.ok(Opcode.SURFACE_CREATE, {"array": made}).value
    assert texture != surface
    assert [number(at.texel(texture, 3, 2)), number(at.texel(surface, 5, 7))] == [35, 117]


def test_textures_may_be_of_a_single_level(at: Guest) -> None:
    made = at.array(kind=1, levels=3, flags=ArrayFlag.SURFACE)
    at.write(made, COUNT[:32], (16, 2, 1), dst_level=2)
    texture = at.ok(Opcode.TEXTURE_CREATE, {"array": made, "first_level": 2, "num_levels": 1}).value
    surface = at.ok(Opcode.SURFACE_CREATE, {"array": made, "level": 2}).value
    assert [number(at.texel(texture, 3, 1)), number(at.texel(surface, 2, 1))] == [7, 6]


def test_textures_may_be_of_memory(at: Guest) -> None:
    address = at.upload(COUNT)
    linear = at.ok(Opcode.TEXTURE_CREATE, LINEAR | {"address": address, "width": 128}).value
    rows = at.ok(Opcode.TEXTURE_CREATE, ROWS | {"address": address, "pitch": 64, "width": 10, "height": 8}).value
    assert [number(at.texel(linear, 77)), number(at.texel(rows, 3, 2))] == [77, 35]


# ---- what the driver is told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "kind", "expected"), [
    (0, 1, "flags=0x1, filter=0"), (TextureFlag.AS_FLOAT, 1, "flags=0, filter=0"), (0, 2, "flags=0, filter=0"),
    (TextureFlag.NORMALISED, 2, "flags=0x2, filter=0"), (TextureFlag.LINEAR, 2, "flags=0, filter=1"),
    (TextureFlag.SRGB | TextureFlag.AS_FLOAT, 1, "flags=0x10, filter=0"),
])  # fmt: skip
def test_flags_are_the_drivers(at: Guest, flags: int, kind: int, expected: str) -> None:
    made = at.array(kind=kind, bits=8 if kind == 1 else 32)
    at.ok(Opcode.TEXTURE_CREATE, {"array": made, "flags": flags})
    assert f"{expected}, view=0)" in told(at)


FORMATS = {
    (1, 8, 1): 1, (1, 8, 2): 2, (1, 8, 4): 3, (0, 8, 1): 4, (0, 8, 4): 6, (1, 16, 1): 7, (1, 16, 4): 9, (0, 16, 2): 11,
    (1, 32, 1): 13, (1, 32, 4): 15, (0, 32, 2): 17, (2, 16, 1): 19, (2, 16, 4): 21, (2, 32, 1): 22, (2, 32, 4): 24,
}  # fmt: skip
"""CUresourceViewFormat of kind, bits and channels."""


@pytest.mark.parametrize(("named", "view"), FORMATS.items())
def test_channels_that_are_named_anew_are_a_view(at: Guest, named: tuple[int, int, int], view: int) -> None:
    kind, bits, channels = named
    texel = bits * channels // 8
    base = {1: (1, 8, 1), 2: (1, 8, 2), 4: (0, 16, 2), 8: (0, 16, 4), 16: (0, 32, 4)}[texel]
    made = at.array(kind=base[0], bits=base[1], channels=base[2])
    at.ok(Opcode.TEXTURE_CREATE, {"array": made, "kind": kind, "bits": bits, "channels": channels})
    assert f"view={view if base != named else 0})" in told(at)


@pytest.mark.parametrize(("shape", "chosen"), [
    ({"depth": 4, "flags": ArrayFlag.LAYERED}, {"first_layer": 1, "num_layers": 2}),
    ({"width": 8, "depth": 12, "flags": ArrayFlag.LAYERED | ArrayFlag.CUBEMAP}, {"first_layer": 6}),
    ({"levels": 4, "depth": 4, "flags": ArrayFlag.LAYERED},
     {"first_level": 2, "num_levels": 1, "first_layer": 3, "num_layers": 1}),
    ({"levels": 4}, {"first_level": 1, "num_levels": 2, "flags": 1}),
    ({"levels": 4, "depth": 8}, {"first_level": 1, "flags": 1}),
    ({"height": 0, "depth": 3, "flags": ArrayFlag.LAYERED}, {"num_layers": 1}),
])  # fmt: skip
def test_some_layers_or_levels_are_a_view_with_the_arrays_extents(
    at: Guest, shape: dict[str, Any], chosen: dict[str, int]
) -> None:
    """The fake takes no view with other extents."""
    at.ok(Opcode.TEXTURE_CREATE, {"array": at.array(**shape)} | chosen)
    assert "view=22)" in told(at)


def test_all_levels_are_the_mipmapped_array_itself(at: Guest) -> None:
    made = at.array(levels=5)
    at.ok(Opcode.TEXTURE_CREATE, {"array": made, "flags": TextureFlag.NORMALISED})
    assert told(at).startswith("cuTexObjectCreate(1, ")
    assert "view=0)" in told(at)


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    LINEAR | {"width": 4, "address": 4}, ROWS | {"width": 4, "height": 2, "pitch": 64, "address": 256},
    ROWS | {"width": 4, "height": 2, "pitch": 36, "address": 0},
])  # fmt: skip
def test_memory_that_the_gpu_cannot_sample_is_refused_in_its_words(at: Guest, change: dict[str, int]) -> None:
    address = at.upload(bytes(4096)) + change["address"]
    status, text = at.refused(Opcode.TEXTURE_CREATE, change | {"address": address})
    assert (status, text) == (Status.INVALID_ARGUMENT, "no texture: CUDA_ERROR_INVALID_VALUE (invalid argument)")


def test_levels_are_sampled_at_normalised_places_only(at: Guest) -> None:
    assert at.refused(Opcode.TEXTURE_CREATE, {"array": at.array(levels=2)})[0] is Status.INVALID_ARGUMENT


# ---- life -----------------------------------------------------------------------------------------------------------


def test_objects_are_charged_and_go_once(at: Guest) -> None:
    made = at.array(flags=ArrayFlag.SURFACE)
    before = at.rig.usage().memory_used_bytes
    for opcode in (Opcode.TEXTURE_CREATE, Opcode.SURFACE_CREATE):
        thing = at.ok(opcode, {"array": made}).value
        assert at.rig.usage().memory_used_bytes == before + 512
        at.ok(Opcode.OBJECT_DESTROY, {"object": thing})
        assert at.refused(Opcode.OBJECT_DESTROY, {"object": thing})[0] is Status.NOT_FOUND
        assert at.rig.usage().memory_used_bytes == before
    assert at.driver.number("objects") == 0


@pytest.mark.parametrize("change", [1 << 63, 3 << 62, 1 << 32])
def test_objects_have_one_number_each(at: Guest, change: int) -> None:
    thing = at.ok(Opcode.TEXTURE_CREATE, {"array": at.array()}).value
    assert at.refused(Opcode.OBJECT_DESTROY, {"object": thing | change})[0] is Status.NOT_FOUND


def test_arrays_and_objects_are_no_memory(at: Guest) -> None:
    thing = at.ok(Opcode.TEXTURE_CREATE, {"array": at.array()}).value
    for address in (thing, thing | 1 << 63, thing | 3 << 62):
        assert at.refused(Opcode.FREE, {"address": address})[0] is Status.INVALID_ADDRESS
        assert at.refused(Opcode.FILL, {"dst": address, "size": 1, "unit": 1})[0] is Status.INVALID_ADDRESS


def test_objects_belong_to_their_context(at: Guest) -> None:
    thing = at.ok(Opcode.TEXTURE_CREATE, {"array": at.array()}).value
    other = at.rig.context()
    assert at.refused(Opcode.OBJECT_DESTROY, {"object": thing}, context=other)[0] is Status.NOT_FOUND


def test_a_lack_of_memory_for_an_object_is_told(at: Guest) -> None:
    made = at.array()
    before = at.rig.usage().memory_used_bytes
    at.driver.inject("cuTexObjectCreate", 2)
    assert at.refused(Opcode.TEXTURE_CREATE, {"array": made})[0] is Status.OUT_OF_MEMORY
    assert at.rig.usage().memory_used_bytes == before
