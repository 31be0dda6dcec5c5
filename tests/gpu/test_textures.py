"""Arrays, textures and surfaces on hardware: the tests of the software GPU's guests, and what only a GPU can tell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from guest_driver._lib import check, ffi, lib
from tests.gpu.gpu_host import gpu_host, vm
from tests.limits import HANGS_AFTER_S
from tests.protocol.test_guest_textures import (  # noqa: F401  collected here, with the fixtures of this module
    SOURCE,
    test_levels_and_layers,
    test_references_are_bound_by_name,
    test_texture_of_an_array,
    test_textures_of_memory,
)
from tests.vm.vgcd import VmSettings

MIB = 1 << 20
COUNT, SPARE_MIB = 48, 6
FILTER = """
extern "C" __global__ void sample(cudaTextureObject_t t, const float2 *at, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = tex2D<float>(t, at[i].x, at[i].y);
}
"""


@pytest.fixture(params=[pytest.param("real_gpu", marks=pytest.mark.gpu), "cpu"])
def dev(request: pytest.FixtureRequest) -> Iterator[vgc.Device]:
    """A GPU; or the CPU engine below the same stack, which shows that the tests are right."""
    if request.param == "cpu":
        settings = VmSettings("a", extra={"engine": "cpu", "sandbox": "best-effort"})
    else:
        settings = vm(request.getfixturevalue(request.param))
    with gpu_host(settings) as host:
        yield host.open()


@pytest.fixture
def program(dev: vgc.Device) -> vgc.Program:
    return dev.compile(SOURCE)


def texture(dev: vgc.Device, array: vgc.TextureArray, **fields: Any) -> np.uint64:
    """A texture with fields of the request that the Python binding does not set."""
    number = ffi.new("uint64_t *")
    form = ffi.new("struct vgc_texture_form *", {"array": array.pointer} | fields)
    check(lib.vgc_texture_create(dev._handle.pointer, form, number))
    return np.uint64(number[0])


def test_surfaces_are_written_and_read_back(dev: vgc.Device, program: vgc.Program) -> None:
    array = dev.texture_array((4, 8), surface=True)
    program.number[4, 8](array.surface())
    assert np.array_equal(array.get(), 10 * np.arange(4)[:, None] + np.arange(8))


def test_views_show_layers_and_levels(dev: vgc.Device, program: vgc.Program) -> None:
    layers = dev.texture_array((5, 16), layered=True)
    layers.set(np.arange(80, dtype=np.float32).reshape(5, 16))
    row = dev.zeros(16)
    program.layer[1, 16](texture(dev, layers, first_layer=2, num_layers=2), 1, row)
    assert np.array_equal(row.get(), np.arange(48, 64))
    mipmap = dev.texture_array((4, 8, 8), channels=2, levels=4)
    for number in range(4):
        mipmap.set(np.full(mipmap.level_shape(number), number, np.float32), number)
    out = dev.zeros(2)
    flags = lib.VGC_TEXTURE_NORMALISED | lib.VGC_TEXTURE_LINEAR_LEVELS
    view = texture(dev, mipmap, first_level=1, num_levels=2, flags=flags, max_level=8.0)
    program.level[1, 1](view, 0.5, out)
    assert list(out.get()) == [1.5, 1.5]


def test_linear_filters_agree_to_eight_bits(dev: vgc.Device) -> None:
    """Weights have 8 bits after the point on GPUs [CUDA C++ Programming Guide: Texture Fetching]."""
    random = np.random.default_rng(7)
    texels = random.random((32, 32), np.float32)
    at = random.random((256, 2), np.float32) * 30 + 1
    array, places, out = dev.texture_array((32, 32)), dev.to_device(at.reshape(-1)), dev.zeros(256)
    array.set(texels)
    dev.compile(FILTER).sample[2, 128](dev.texture(array, linear=True), places, out, 256)
    x, y = at[:, 0] - 0.5, at[:, 1] - 0.5
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    right, down = x - column, y - row
    above = texels[row, column] * (1 - right) + texels[row, column + 1] * right
    below = texels[row + 1, column] * (1 - right) + texels[row + 1, column + 1] * right
    assert np.abs(out.get() - (above * (1 - down) + below * down)).max() < 3 / 256


def used_mib() -> int:
    """Memory of the first GPU that is in use, by all processes."""
    asks = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(asks, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S).stdout)


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="nvidia-smi is not installed")
@pytest.mark.parametrize("shape", [(1000, 1000), (3, 2000), (40, 50, 60), (17,)], ids=str)
def test_arrays_take_no_more_than_is_charged(real_gpu: Gpu, shape: tuple[int, ...]) -> None:
    """The driver takes memory from the GPU in blocks of 2 MiB, of which there may be some more."""
    with gpu_host(vm(real_gpu, memory="1G")) as host:
        dev = host.open()
        kept = [dev.texture_array(shape, channels=4)]  # with it come the zeroes that arrays get
        before, charged = used_mib(), dev.usage().memory_used_bytes
        kept += [dev.texture_array(shape, channels=4) for _ in range(COUNT)]
        assert used_mib() - before <= (dev.usage().memory_used_bytes - charged) / MIB + SPARE_MIB
        assert len(kept) == COUNT + 1
