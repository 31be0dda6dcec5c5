"""The guest's driver makes arrays, textures and surfaces on the real daemon, worker and CPU engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver._lib import check, ffi, lib
from tests.fakes.guest import open_device
from tests.protocol.guest_host import guest_host

SOURCE = r"""
texture<float, 2> bound;
extern "C" __global__ void at(cudaTextureObject_t t, float x, float y, float *out) { *out = tex2D<float>(t, x, y); }
extern "C" __global__ void fetch(cudaTextureObject_t t, int *out) { out[threadIdx.x] = tex1Dfetch<int>(t, threadIdx.x); }
extern "C" __global__ void layer(cudaTextureObject_t t, int number, float *out)
{
    out[threadIdx.x] = tex1DLayered<float>(t, threadIdx.x + 0.5f, number);
}
extern "C" __global__ void level(cudaTextureObject_t t, float number, float2 *out)
{
    out[0] = tex3DLod<float2>(t, 0, 0, 0, number);
}
extern "C" __global__ void number(cudaSurfaceObject_t s)
{
    surf2Dwrite((float)(10 * blockIdx.x + threadIdx.x), s, 4 * threadIdx.x, blockIdx.x);
}
extern "C" __global__ void outside(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, 0, 1000); }
extern "C" __global__ void by_reference(float *out) { *out = tex2D(bound, 1.5f, 2.5f); }
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[vgc.Device]:
    with guest_host(tmp_path) as host, open_device(host.link, tmp_path / "state") as dev:
        yield dev


@pytest.fixture
def program(dev: vgc.Device) -> vgc.Program:
    return dev.compile(SOURCE)


def test_texture_of_an_array(dev: vgc.Device, program: vgc.Program) -> None:
    texels = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = dev.zeros(1)
    with dev.texture_array((3, 4)) as array:
        array.set(texels)
        assert np.array_equal(array.get(), texels)
        with dev.texture(array, linear=True) as texture:
            program.at[1, 1](texture, 2.0, 1.0, out)
        assert out.get()[0] == texels[:2, 1:3].mean()
        with dev.texture(array, edge="border", border=(7, 0, 0, 0), normalised=True) as texture:
            program.at[1, 1](texture, 1.1, 0.5, out)
            assert out.get()[0] == 7
            program.at[1, 1](texture, 0.3, 0.5, out)
            assert out.get()[0] == texels[1, 1]
        with pytest.raises(ValueError, match="was freed"):
            program.at[1, 1](texture, 0.3, 0.5, out)


def test_levels_and_layers(dev: vgc.Device, program: vgc.Program) -> None:
    mipmap = dev.texture_array((4, 8, 8), channels=2, levels=4)
    for number in range(4):
        level = np.full(mipmap.level_shape(number), number, np.float32)
        mipmap.set(level, number)
        assert np.array_equal(mipmap.get(number), level)
    out = dev.zeros(2)
    program.level[1, 1](dev.texture(mipmap, normalised=True, linear_levels=True), 1.25, out)
    assert list(out.get()) == [1.25, 1.25]
    layers = dev.texture_array((3, 16), layered=True)
    layers.set(np.arange(48, dtype=np.float32).reshape(3, 16))
    row = dev.zeros(16)
    program.layer[1, 16](dev.texture(layers), 2, row)
    assert np.array_equal(row.get(), np.arange(32, 48))


def test_textures_of_memory(dev: vgc.Device, program: vgc.Program) -> None:
    numbers = dev.to_device(np.arange(100, dtype=np.int32))
    fetched = dev.empty(8, "int32")
    program.fetch[1, 8](dev.texture(numbers), fetched)
    assert np.array_equal(fetched.get(), np.arange(8))
    rows = dev.to_device(np.arange(64, dtype=np.float32))
    out = dev.zeros(1)
    program.at[1, 1](dev.texture(rows, pitch=(10, 4, 64)), 3.5, 2.5, out)
    assert out.get()[0] == 2 * 16 + 3


def test_surfaces(dev: vgc.Device, program: vgc.Program) -> None:
    array = dev.texture_array((4, 8), surface=True)
    program.number[4, 8](array.surface())
    assert np.array_equal(array.get(), 10 * np.arange(4)[:, None] + np.arange(8))
    with pytest.raises(vgc.KernelFault, match=r"row 1000 of slice 0 is outside of surface .* in kernel 'outside'"):
        program.outside[1, 1](array.surface())
    with pytest.raises(vgc.InvalidArgument, match="SURFACE"):
        dev.texture_array((4, 8)).surface()


def test_references_are_bound_by_name(dev: vgc.Device, program: vgc.Program) -> None:
    array, out = dev.texture_array((4, 8)), dev.zeros(1)
    array.set(np.arange(32, dtype=np.float32).reshape(4, 8))
    program.bind("bound", dev.texture(array))
    program.by_reference[1, 1](out)
    assert out.get()[0] == 2 * 8 + 1
    with pytest.raises(vgc.NotFound):
        program.bind("unbound", dev.texture(array))
    freed = dev.texture(array)
    freed.free()
    with pytest.raises(ValueError, match="was freed"):
        program.bind("bound", freed)


def test_arrays_use_the_quota_until_they_are_freed(dev: vgc.Device) -> None:
    before = dev.usage().memory_used_bytes
    array = dev.texture_array((256, 256), channels=4)
    assert dev.usage().memory_used_bytes == before + 256 * 256 * 16
    array.free()
    assert dev.usage().memory_used_bytes == before
    with pytest.raises(vgc.OutOfMemory, match="bytes free"):
        dev.texture_array((1 << 14, 1 << 16), channels=4)
    with pytest.raises(ValueError, match="was freed"):
        array.get()


def test_texels_that_do_not_exist_are_refused(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match="allowed: integers of 1, 2, 4 bytes"):
        dev.texture_array(16, "float64")
    with pytest.raises(vgc.InvalidArgument, match="a format that does not exist"):
        dev.texture_array(16, channels=3)
    array = dev.texture_array((4, 8))
    with pytest.raises(ValueError, match="level 0 is float32 of shape"):
        array.set(np.zeros((8, 4), np.float32))
    with pytest.raises(ValueError, match="allowed: wrap, clamp, mirror, border"):
        dev.texture(array, edge="repeat")
    with pytest.raises(TypeError, match="name the texels' dtype"):
        dev.texture(dev.alloc(64))


def test_boxes_of_this_process_are_copied_though_the_region_is_full(dev: vgc.Device) -> None:
    texels = np.random.default_rng(0).random((60, 5000), np.float32)
    back = np.zeros_like(texels)
    row_bytes = texels.shape[1] * texels.itemsize
    held: list[object] = []
    for size in (1 << 20, 64 << 10, 256):
        with suppress(vgc.ResourcesExhausted):
            while True:
                held.append(dev.region_buffer(size))
    with dev.texture_array(texels.shape) as array:
        there = ffi.new("struct vgc_side *", {"array": array.pointer})
        for numbers, is_out in ((texels, False), (back, True)):
            here = ffi.new("struct vgc_side *", {"host": ffi.cast("void *", numbers.ctypes.data), "pitch": row_bytes})
            sides = (here, there) if is_out else (there, here)
            check(lib.vgc_copy_box(array._handle.pointer, *sides, row_bytes, texels.shape[0], 1, 0, ffi.NULL))
        assert np.array_equal(array.get(), texels)
    assert np.array_equal(back, texels)
    assert held
