"""Arrays, textures and surfaces by a guest's requests, sampled by kernels on the CPU engine."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import compile_image
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from tests.unit.test_migration_transfer import ARENA, loaded, saved
from tests.unit.texture_reference import BORDER, CLAMP, MIRROR, WRAP, Model
from vhost_backend._dataplane import ffi
from vhost_backend.engines.base import Engine
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.worker.plane import DataPlaneError
from virtio_proto.schema import ArrayFlag, Opcode, TextureFlag, TextureResource

SOURCE = """
texture<float, 2> bound;
extern "C" __global__ void sample(float *out, cudaTextureObject_t t, const float4 *at, int dimensions)
{
    const float4 p = at[threadIdx.x];
    float4 v = dimensions == 1   ? tex1DLod<float4>(t, p.x, p.w)
               : dimensions == 2 ? tex2DLod<float4>(t, p.x, p.y, p.w)
               : dimensions == 3 ? tex3DLod<float4>(t, p.x, p.y, p.z, p.w)
               : dimensions == 4 ? tex2DLayeredLod<float4>(t, p.x, p.y, (int)p.z, p.w)
                                 : tex1Dfetch<float4>(t, (int)p.x);
    out[4 * threadIdx.x] = v.x;
    out[4 * threadIdx.x + 1] = v.y;
    out[4 * threadIdx.x + 2] = v.z;
    out[4 * threadIdx.x + 3] = v.w;
}
extern "C" __global__ void write(cudaSurfaceObject_t s, float value)
{
    surf2Dwrite(value + threadIdx.x, s, 4 * (int)threadIdx.x, (int)blockIdx.x);
}
extern "C" __global__ void by_reference(float *out) { out[threadIdx.x] = tex2D(bound, threadIdx.x + 0.5f, 0.5f); }
"""
PLACES = 64
Array = np.ndarray[Any, Any]


def make_engine() -> Engine:
    engine = CpuEngine(2)
    engine.set_arena(*ARENA)
    engine.start()
    return engine


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(SOURCE)[0]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig(replace(LIMITS, memory_bytes=16 << 20), engine=make_engine()) as made:
        yield made


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


class Guest:
    """Short ways to requests of one context."""

    def __init__(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        self.rig, self.context, self.functions = rig, context, functions

    @classmethod
    def begin(cls, rig: Rig, image: bytes) -> Guest:
        context = rig.context()
        return cls(rig, context, rig.load(context, image))

    def ok(self, opcode: Opcode, body: Any, **options: Any) -> Any:
        return self.rig.ok(opcode, body, context=self.context, **options)

    def upload(self, data: Array) -> int:
        address = self.rig.alloc(self.context, data.nbytes)
        self.ok(Opcode.COPY_IN, {"dst": address, "size": data.nbytes}, payload_in=data.tobytes())
        return address

    def download(self, address: int, shape: tuple[int, ...]) -> Array:
        size = 4 * int(np.prod(shape))
        reply = self.ok(Opcode.COPY_OUT, {"src": address, "size": size}, writable_len=size)
        return np.frombuffer(reply.payload, np.float32).reshape(shape)

    def launch(self, name: str, params: bytes, threads: int, blocks: int = 1) -> None:
        body = {"function": self.functions[name], "grid": [blocks, 1, 1], "block": [threads, 1, 1]}
        reply = self.rig.driver.request(
            Opcode.LAUNCH, body | {"param_len": len(params)}, params, context=self.context, writable_len=512
        )
        assert reply.status == 0, reply.text

    def array(self, levels: list[Array], flags: int = 0) -> int:
        """Array with the contents of levels of shape (layer, z, y, x, channel)."""
        layers, depth, height, width, channels = levels[0].shape
        layered = bool(flags & ArrayFlag.LAYERED)
        shape = {
            "width": width, "height": height if height > 1 else 0, "depth": layers if layered else depth * (depth > 1),
            "levels": len(levels), "kind": {"i": 0, "u": 1, "f": 2}[levels[0].dtype.kind],
            "bits": 8 * levels[0].itemsize, "channels": channels, "flags": flags,
        }  # fmt: skip
        made = int(self.ok(Opcode.ARRAY_CREATE, shape).value)
        for number, level in enumerate(levels):
            row = level.shape[3] * level.shape[4] * level.itemsize
            box = {"src": self.upload(level), "src_pitch": row, "src_slice": row * level.shape[2], "dst_array": made,
                   "dst_level": number, "width": row, "height": level.shape[2],
                   "depth": level.shape[0] * level.shape[1]}  # fmt: skip
            self.ok(Opcode.COPY_BOX, box)
        return made

    def texture(self, model: Model, array: int, **changes: Any) -> int:
        flags = TextureFlag.NORMALISED * model.normalised | TextureFlag.AS_FLOAT * model.as_float
        flags |= TextureFlag.LINEAR * model.linear | TextureFlag.LINEAR_LEVELS * model.linear_levels
        body = {"array": array, "flags": flags, "modes": list(model.address), "bias": _bits(model.bias),
                "border": [_bits(value) for value in model.border], "min_level": _bits(model.level_range[0]),
                "max_level": _bits(model.level_range[1])}  # fmt: skip
        return int(self.ok(Opcode.TEXTURE_CREATE, body | changes).value)

    def sample(self, texture: int, places: Array, dimensions: int) -> Array:
        out = self.upload(np.zeros((PLACES, 4), np.float32))
        self.launch("sample", struct.pack("<QQQi", out, texture, self.upload(places), dimensions), PLACES)
        return self.download(out, (PLACES, 4))


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _texels(random: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Array:
    return random.integers(-100, 100, shape).astype(dtype)


def _places(random: np.random.Generator, model: Model, last: int = 0) -> Array:
    """Random places; `last` is the largest z of layers."""
    places = np.zeros((PLACES, 4), np.float32)
    for axis in range(model.axes):
        size = model.levels[0].shape[3 - axis]
        places[:, axis] = random.integers(-32 * size, 64 * size, PLACES) / 32 / (size if model.normalised else 1)
    if last:
        places[:, 2] = random.integers(0, last + 1, PLACES)
    places[:, 3] = random.integers(0, 64 * len(model.levels), PLACES) / 64
    return places


HOW = [
    (False, False, CLAMP), (True, True, WRAP), (True, False, MIRROR), (False, True, BORDER), (True, True, CLAMP),
]  # fmt: skip
SHAPES = [(1, 1, 1, 16, 4), (1, 1, 8, 16, 2), (1, 4, 8, 16, 1)]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("how", HOW)
def test_textures_of_arrays(
    rig: Rig, image: bytes, random: np.random.Generator, axes: int, how: tuple[bool, bool, int]
) -> None:
    guest = Guest.begin(rig, image)
    normalised, linear, mode = how
    texels = _texels(random, *SHAPES[axes - 1])
    model = Model([texels], axes, normalised, linear, address=(mode,) * 3, border=(5, 6, 7, 8))
    places = _places(random, model)
    got = guest.sample(guest.texture(model, guest.array([texels])), places, axes)
    assert np.allclose(got, [model.sample(place[:3]) for place in places], rtol=1e-5, atol=1e-3)


def _mipmap(random: np.random.Generator, layers: int = 1) -> list[Array]:
    return [_texels(random, layers, 1, 8 >> level or 1, 16 >> level, 2) for level in range(5)]


@pytest.mark.parametrize("layers", [1, 3])
def test_mipmaps_and_their_views(rig: Rig, image: bytes, random: np.random.Generator, layers: int) -> None:
    guest = Guest.begin(rig, image)
    levels = _mipmap(random, layers)
    array = guest.array(levels, ArrayFlag.LAYERED if layers > 1 else 0)
    for first, count in ((0, 0), (1, 3)):
        seen = levels[first : first + count if count else None]
        model = Model(seen, 2, True, linear_levels=True, level_range=(0, 9))
        places = _places(random, model, layers - 1)
        texture = guest.texture(model, array, first_level=first, num_levels=count)
        got = guest.sample(texture, places, 4 if layers > 1 else 2)
        expected = [model.sample(place[:2], int(place[2]), place[3]) for place in places]
        assert np.allclose(got, expected, rtol=1e-5, atol=1e-3)


def test_views_of_layers_and_channels(rig: Rig, image: bytes, random: np.random.Generator) -> None:
    guest = Guest.begin(rig, image)
    texels = random.integers(0, 256, (4, 1, 8, 16, 4)).astype(np.uint8)
    array = guest.array([texels], ArrayFlag.LAYERED)
    model = Model([texels[1:3]], as_float=True, linear=True, address=(CLAMP,) * 3)
    places = _places(random, model, 1)
    got = guest.sample(guest.texture(model, array, first_layer=1, num_layers=2), places, 4)
    assert np.allclose(got, [model.sample(place[:2], int(place[2])) for place in places], atol=1e-5)
    halves = Model([texels.view(np.float16)[:1]], address=(CLAMP,) * 3)
    texture = guest.texture(halves, array, kind=2, bits=16, channels=2, num_layers=1)
    got = guest.sample(texture, places, 2)
    expected = np.array([halves.sample(place[:2]) for place in places])
    assert np.allclose(got, expected, equal_nan=True)


def test_textures_of_memory(rig: Rig, image: bytes, random: np.random.Generator) -> None:
    guest = Guest.begin(rig, image)
    texels = _texels(random, 1, 1, 8, 16, 1)
    padded = np.zeros((8, 20), np.float32)
    padded[:, :16] = texels[0, 0, :, :, 0]
    address = guest.upload(padded)
    model = Model([texels], linear=True)
    memory = {"address": address, "width": 16, "kind": 2, "bits": 32, "channels": 1}
    rows = memory | {"resource": TextureResource.PITCH, "height": 8, "pitch": 80}
    places = _places(random, model)
    got = guest.sample(guest.texture(model, 0, **rows), places, 2)
    assert np.allclose(got, [model.sample(place[:2]) for place in places], atol=1e-3)
    places[:, 0] = np.arange(PLACES) - 8
    linear = memory | {"resource": TextureResource.LINEAR, "height": 1}
    got = guest.sample(guest.texture(Model([texels], 1), 0, **linear), places, 5)[:, 0]
    expected = np.zeros(PLACES)
    expected[8:24] = padded.ravel()[:16]
    assert np.array_equal(got, expected)


def test_new_arrays_hold_zeroes(rig: Rig, image: bytes) -> None:
    guest = Guest.begin(rig, image)
    for _ in range(2):
        array = guest.array([np.ones((1, 1, 64, 64, 1), np.float32)])
        guest.ok(Opcode.ARRAY_DESTROY, {"array": array})
        shape = {"width": 64, "height": 64, "levels": 1, "kind": 2, "bits": 32, "channels": 1}
        array = guest.ok(Opcode.ARRAY_CREATE, shape).value
        back = guest.upload(np.ones((64, 64), np.float32))
        box = {"dst": back, "dst_pitch": 256, "src_array": array, "width": 256, "height": 64, "depth": 1}
        guest.ok(Opcode.COPY_BOX, box)
        assert not guest.download(back, (64, 64)).any()


def _surface(guest: Guest) -> tuple[int, int]:
    """Array of 16 x 4 floats and a surface of it."""
    shape = {"width": 16, "height": 4, "levels": 1, "kind": 2, "bits": 32, "channels": 1}
    array = guest.ok(Opcode.ARRAY_CREATE, shape | {"flags": ArrayFlag.SURFACE}).value
    return array, guest.ok(Opcode.SURFACE_CREATE, {"array": array}).value


def test_kernels_write_surfaces_and_boxes_are_copied_behind_them(rig: Rig, image: bytes) -> None:
    guest = Guest.begin(rig, image)
    array, surface = _surface(guest)
    guest.launch("write", struct.pack("<Qf", surface, 100), 16, 4)
    other = guest.array([np.zeros((1, 1, 4, 16, 1), np.float32)])
    middle = {"src_array": array, "src_x": 16, "src_y": 1, "width": 32, "height": 2, "depth": 1}
    guest.ok(Opcode.COPY_BOX, middle | {"dst_array": other, "dst_x": 0, "dst_y": 2})
    back = guest.upload(np.zeros((4, 16), np.float32))
    whole = {"src_array": other, "dst": back, "dst_pitch": 64, "width": 64, "height": 4, "depth": 1}
    guest.ok(Opcode.COPY_BOX, whole)
    expected = np.zeros((4, 16), np.float32)
    expected[2:, :8] = 100 + np.arange(4, 12)
    assert np.array_equal(guest.download(back, (4, 16)), expected)


def test_long_boxes_are_copied_whole(rig: Rig, image: bytes, random: np.random.Generator) -> None:
    guest = Guest.begin(rig, image)
    texels = _texels(random, 1, 8, 128, 128, 1)
    array = guest.array([texels])
    back = guest.upload(np.zeros(texels.shape, np.float32))
    box = {"dst": back, "dst_pitch": 512, "dst_slice": 65536, "src_array": array, "width": 512, "height": 128}
    guest.ok(Opcode.COPY_BOX, box | {"depth": 8})
    assert np.array_equal(guest.download(back, texels.shape[1:4]), texels[0, :, :, :, 0])


def test_a_reference_is_bound_by_its_name(rig: Rig, image: bytes, random: np.random.Generator) -> None:
    guest = Guest.begin(rig, image)
    texels = _texels(random, 1, 1, 4, 16, 1)
    texture = guest.texture(Model([texels], address=(CLAMP,) * 3), guest.array([texels]))
    name = {"name_len": len("bound")}
    pending = rig.driver.submit(Opcode.GLOBAL_LOOKUP, name, b"bound", context=guest.context, writable_len=64)
    rig.serve_cold()
    variable = rig.driver.wait(pending).value
    guest.ok(Opcode.COPY_IN, {"dst": variable, "size": 8}, payload_in=struct.pack("<Q", texture))
    out = guest.upload(np.zeros(16, np.float32))
    guest.launch("by_reference", struct.pack("<Q", out), 16)
    assert np.array_equal(guest.download(out, (16,)), texels[0, 0, 0, :, 0])


def test_arrays_and_objects_are_migrated(image: bytes, random: np.random.Generator) -> None:
    texels = _texels(random, 1, 1, 8, 16, 2)
    model = Model([texels], linear=True, address=(CLAMP,) * 3)
    places = _places(random, model)
    kept: dict[str, Any] = {}

    def work(rig: Rig) -> None:
        guest = Guest.begin(rig, image)
        array = guest.array([texels])
        kept.update(context=guest.context, functions=guest.functions, array=array, texture=guest.texture(model, array))
        kept.update(used=rig.usage().memory_used_bytes)

    with saved(make_engine, work) as file, loaded(make_engine, file.fd) as rig:
        assert rig.usage().memory_used_bytes == kept["used"]
        guest = Guest(rig, kept["context"], kept["functions"])
        for texture in (kept["texture"], guest.texture(model, kept["array"])):
            got = guest.sample(texture, places, 2)
            assert np.allclose(got, [model.sample(place[:2]) for place in places], atol=1e-3)
        guest.ok(Opcode.OBJECT_DESTROY, {"object": kept["texture"]})
        guest.ok(Opcode.ARRAY_DESTROY, {"array": kept["array"]})


def test_migrated_arrays_that_share_memory_are_refused(image: bytes, random: np.random.Generator) -> None:
    """The worker that saved them may have been captured by its guest's code."""

    def work(rig: Rig) -> None:
        guest = Guest.begin(rig, image)
        for _ in range(2):
            guest.array([_texels(random, 1, 1, 4, 16, 1)])

    entry, offset = ffi.sizeof("struct vgc_migration_array"), ffi.offsetof("struct vgc_migration_array", "address")
    with saved(make_engine, work) as file:
        first = file.manifest["objects_at"] + ffi.offsetof("struct vgc_migration_state", "arrays")
        file.put(first + entry + offset, os.pread(file.fd, 8, first + offset))
        with pytest.raises(DataPlaneError, match="array"), loaded(make_engine, file.fd):
            pass
