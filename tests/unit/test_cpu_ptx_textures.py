"""Textures and surfaces in PTX on the CPU engine: what NVRTC makes of a source fetches the same bits as the source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit import cpu_textures
from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_ptx, rig
from tests.unit.ptx_compilers import needs_nvrtc, nvrtc_ptx
from tests.unit.test_cpu_ptx_modules import HEADER, entry
from tests.unit.texture_reference import BORDER, CLAMP, MIRROR, WRAP, Model

Array = np.ndarray[Any, Any]
PLACE = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("layer", "i4"), ("detail", "f4")])
SITE = np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4"), ("value", "i4")])
PLACES = 64
MORE = """
FETCH(grad_1d, tex1DGrad<T>(t, at.x, at.z, at.detail))
FETCH(grad_3d, tex3DGrad<T>(t, at.x, at.y, at.z, make_float4(at.x, at.y, at.z, 0), make_float4(0, at.detail, 0, 0)))
FETCH(grad_layered, tex2DLayeredGrad<T>(t, at.x, at.y, at.layer, make_float2(at.z, 0), make_float2(0, at.detail)))
FETCH(layered_lod_1d, tex1DLayeredLod<T>(t, at.x, at.layer, at.detail))
FETCH(cube_lod, texCubemapLod<T>(t, at.x, at.y, at.z, at.detail))
FETCH(cubes_lod, texCubemapLayeredLod<T>(t, at.x, at.y, at.z, at.layer, at.detail))
"""
HAND_MADE = r"""
#define EXPORT extern "C" __global__ void
EXPORT sizes(unsigned *out, cudaTextureObject_t t, cudaSurfaceObject_t s) {
    asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
    asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t));
    asm("txq.depth.b32 %0, [%1];" : "=r"(out[2]) : "l"(t));
    asm("txq.normalized_coords.b32 %0, [%1];" : "=r"(out[3]) : "l"(t));
    asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(out[4]) : "l"(t));
    asm("suq.width.b32 %0, [%1];" : "=r"(out[5]) : "l"(s));
    asm("suq.depth.b32 %0, [%1];" : "=r"(out[6]) : "l"(s));
}
EXPORT by_numbers(float *out, cudaTextureObject_t t, int x, int y) {
    float rest;
    asm("tex.2d.v4.f32.s32 {%0, %1, _, _}, [%2, {%3, %4}];" : "=f"(out[0]), "=f"(rest) : "l"(t), "r"(x), "r"(y));
    asm("{ .reg .b32 low; tex.2d.v2.f16x2.s32 {low, _}, [%1, {%2, %3}]; mov.b32 %0, low; }"
        : "=f"(out[1]) : "l"(t), "r"(x), "r"(y));
}
"""


def _source() -> str:
    """Kernels of cpu_textures.cu without its references, which CUDA has no more."""
    text = Path(__file__).with_name("cpu_textures.cu").read_text()
    return text[: text.index("texture<float, 2")] + MORE + text[text.index("struct site") :]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Rig, Rig]]:
    """Engines with the kernels from CUDA C and from PTX; they share the memory of this process."""
    with rig() as from_cuda, rig() as from_ptx:
        from_cuda.load(_source())
        from_ptx.load_ptx(nvrtc_ptx(_source()))
        yield from_cuda, from_ptx


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(HAND_MADE)
        yield made


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


def _texels(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random texels of shape (layer, z, y, x, channel)."""
    if dtype[0] == "f":
        return random.uniform(-2, 2, shape).astype(dtype)
    return random.integers(0, 120, shape).astype(dtype)


def _places(random: np.random.Generator, model: Model) -> Array:
    places = np.zeros(PLACES, PLACE)
    for name in "xyz":
        places[name] = random.uniform(-1, 2, PLACES) if model.normalised else random.uniform(-4, 20, PLACES)
    places["layer"] = random.integers(-1, 8, PLACES)
    places["detail"] = random.uniform(-1, 3, PLACES)
    return places


def _same(both: tuple[Rig, Rig], kernel: str, texture: np.uint64, places: Array, width: int = 4) -> None:
    if kernel.startswith("gather"):
        places["layer"] %= 4  # there are no other channels
    found = []
    for gpu in both:
        out = gpu.array((PLACES, width), np.uint32)
        gpu.launch(kernel, 2, 32, out, texture, gpu.array(PLACES, PLACE, places), np.int32(PLACES))
        found.append(out)
    assert np.array_equal(found[0], found[1])
    assert found[0].any()


MODES = list(itertools.product((False, True), (False, True), (WRAP, CLAMP, MIRROR, BORDER)))
SHAPES = {
    1: ["plain_1d", "lod_1d", "layered_1d", "grad_1d", "layered_lod_1d"],
    2: ["plain_2d", "lod_2d", "layered_2d", "layered_lod", "grad_2d", "gather", "grad_layered"],
    3: ["plain_3d", "lod_3d", "grad_3d"],
}


@needs_nvrtc
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_floats(both: tuple[Rig, Rig], random: np.random.Generator, axes: int, mode: tuple[bool, bool, int]) -> None:
    normalised, linear, address = mode
    sizes = (7, 13, 5)
    layers = 1 if axes == 3 else 3
    shape = (layers, *(size if axes > 2 - i else 1 for i, size in enumerate(sizes[::-1])), 4)
    model = Model([_texels(random, "f4", shape)], axes, normalised, linear, address=(address,) * 3, border=(1, 2, 3, 4))
    texture = cpu_textures.texture(both[0], model)
    for kernel in SHAPES[axes]:
        _same(both, f"{kernel}_float", texture, _places(random, model))


@needs_nvrtc
@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
def test_integers(both: tuple[Rig, Rig], random: np.random.Generator, dtype: str, channels: int) -> None:
    texels = _texels(random, dtype, (1, 1, 6, 9, channels))
    for sample, address in ((cpu_textures.OTHER, BORDER), (cpu_textures.NEAREST, CLAMP)):
        model = Model([texels], address=(address, CLAMP, CLAMP))
        texture = cpu_textures.texture(both[0], model, sample)
        for kernel in ("plain_2d_int", "gather_int", "fetch_int"):
            _same(both, kernel, texture, _places(random, model))


@needs_nvrtc
@pytest.mark.parametrize("sample", [cpu_textures.OTHER, cpu_textures.NEAREST, cpu_textures.LINEAR])
@pytest.mark.parametrize("normalised", [False, True])
def test_fetches_of_one_float(
    both: tuple[Rig, Rig], random: np.random.Generator, sample: int, *, normalised: bool
) -> None:
    for axes, kernel in enumerate(("hot_1d", "hot_2d", "hot_3d"), 1):
        shape = (1, *(8 if axes > axis else 1 for axis in (2, 1, 0)), 1)
        model = Model([_texels(random, "f4", shape)], axes, normalised, linear=sample == cpu_textures.LINEAR)
        places = _places(random, model)
        places["x"][:6] = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40]
        texture = cpu_textures.texture(both[0], model, sample)
        _same(both, kernel, texture, places, 1)
        _same(both, "hot_fetch", texture, places, 1)


@needs_nvrtc
@pytest.mark.parametrize("linear", [False, True])
def test_cubemaps_and_levels(both: tuple[Rig, Rig], random: np.random.Generator, *, linear: bool) -> None:
    levels = [_texels(random, "f4", (12, 1, size, size, 4)) for size in (8, 4, 2, 1)]
    model = Model(levels, 2, normalised=True, linear=linear, linear_levels=linear, level_range=(0, 3))
    texture = cpu_textures.texture(both[0], model)
    for kernel in ("cube", "cubes", "cube_lod", "cubes_lod", "lod_2d", "layered_lod", "grad_2d"):
        _same(both, f"{kernel}_float", texture, _places(random, model))


@needs_nvrtc
@pytest.mark.parametrize("name", ["1D", "2D", "3D", "1DLayered", "2DLayered", "Cubemap"])
@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_surfaces(both: tuple[Rig, Rig], random: np.random.Generator, name: str, mode: str) -> None:
    """Sites differ from each other, so that the order of stores does not count, and some lie outside."""
    layers, height = {"1D": (1, 1), "2D": (1, 4), "1DLayered": (6, 1)}.get(name, (6, 4))
    sites = np.zeros(64, SITE)
    sites["x"] = 4 * (np.arange(64) % 8)
    sites["y"], sites["z"] = np.arange(64) // 8 % height, np.arange(64) // 8 // height % layers
    sites["value"] = np.where(np.arange(64) < 8 * height * layers, np.arange(64) + 1, 0)
    sites["x"][-4:], sites["value"][-4:] = [-4, 32, 1 << 28, -(1 << 28)], 0
    found = []
    texels = _texels(random, "i4", (layers, 1, height, 8, 1)) + 1
    for gpu in both:
        handle, memory = cpu_textures.surface(gpu, texels)
        out = gpu.array(64, np.int32)
        gpu.launch(f"{mode}_{name}", 1, 64, out, handle, gpu.array(64, SITE, sites))
        found.append((out, memory))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])
    assert not np.array_equal(found[1][1], texels)


@needs_nvrtc
def test_surface_accesses_of_other_sizes(both: tuple[Rig, Rig]) -> None:
    memories = []
    for gpu in both:
        handle, memory = cpu_textures.surface(gpu, np.arange(128, dtype=np.float32).reshape(1, 1, 4, 32, 1))
        gpu.launch("odd_sizes", 1, 8, handle)
        memories.append(memory.view(np.uint32))
    assert np.array_equal(memories[0], memories[1])


@needs_nvrtc
@pytest.mark.parametrize("key", ["x", "y"])
def test_an_access_outside_of_a_surface_ends_the_launch(both: tuple[Rig, Rig], key: str) -> None:
    gpu = both[1]
    handle, _ = cpu_textures.surface(gpu, np.zeros((1, 1, 4, 8, 1), np.int32))
    sites = np.zeros(1, SITE)
    sites[key] = -4
    with pytest.raises(LaunchError, match=r"outside of surface 0x.* in kernel 'trap_2D', block \(0,0,0\)"):
        gpu.launch("trap_2D", 1, 1, gpu.array(1, np.int32), handle, gpu.array(1, SITE, sites))


@needs_nvrtc
def test_an_address_of_something_else_is_no_object(both: tuple[Rig, Rig]) -> None:
    gpu = both[1]
    memory = np.uint64(gpu.array(64, np.uint64).ctypes.data)
    with pytest.raises(LaunchError, match="is not a texture object in kernel 'hot_2d'"):
        gpu.launch("hot_2d", 1, 1, gpu.array(1, np.float32), memory, gpu.array(1, PLACE), np.int32(1))
    with pytest.raises(LaunchError, match="is not a surface object in kernel 'clamp_2D'"):
        gpu.launch("clamp_2D", 1, 1, gpu.array(1, np.int32), memory, gpu.array(1, SITE))


def test_queries(gpu: Rig, random: np.random.Generator) -> None:
    levels = [_texels(random, "f4", (1, size, 2 * size, 4 * size, 1)) for size in (4, 2, 1)]
    texture = cpu_textures.texture(gpu, Model(levels, 3, normalised=True))
    surface, _ = cpu_textures.surface(gpu, np.zeros((1, 3, 4, 8, 2), np.float32))
    out = gpu.array(7, np.uint32)
    gpu.launch("sizes", 1, 1, out, texture, surface)
    assert list(out) == [16, 8, 4, 1, 3, 8, 3]


@pytest.mark.parametrize("normalised", [False, True])
def test_coordinates_that_are_numbers_of_texels(gpu: Rig, random: np.random.Generator, *, normalised: bool) -> None:
    texels = _texels(random, "f4", (1, 1, 6, 9, 2))
    texture = cpu_textures.texture(gpu, Model([texels], normalised=normalised, linear=True))
    out = gpu.array(2, np.float32)
    gpu.launch("by_numbers", 1, 1, out, texture, np.int32(7), np.int32(2))
    assert out[0] == texels[0, 0, 2, 7, 0]
    assert np.array_equal(out.view(np.float16)[2:], texels[0, 0, 2, 7].astype(np.float16))


REGISTERS = ".reg .b32 r<9>; .reg .b64 t, s; .reg .b16 h<4>;\n"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("tex.2d.v4.f32.f32 {r1,r2,r3,r4}, [t, s, {r5,r6}];", "samplers apart from textures are not supported"),
        ("tex.2d.v4.f32.f32 {r1,r2,r3,r4}, [t];", "expected coordinates after the object"),
        ("tex.2d.v4.f32.f32 {r1,r2,r3}, [t, {r5,r6}];", "expected 4 registers in braces"),
        ("tex.3d.v4.f32.f32 {r1,r2,r3,r4}, [t, {r5,r6}];", "expected 4 registers in braces"),
        ("tex.2d.v4.f32.f32 {r1,r2,r3,r4}, [r7, {r5,r6}];", "expected a register of 64 bits"),
        ("tex.2d.v4.f32.f32 {r1,r2,r3,r4}, [t, {r5,r6}], {r7,r8};", "offsets of texels and comparisons of depths"),
        ("tex.2d.v4.f64.f32 {r1,r2,r3,r4}, [t, {r5,r6}];", "is not known"),
        ("tex.2dms.v4.f32.f32 {r1,r2,r3,r4}, [t, {r5,r6}];", "expected one of .1d, .2d"),
        ("tld4.r.3d.v4.f32.f32 {r1,r2,r3,r4}, [t, {r5,r6,r7,r8}];", "is not known"),
        ("txq.channel_order.b32 r1, [t];", "expected one of .width"),
        ("suld.b.2d.v4.b64.trap {t,s,t,s}, [t, {r5,r6}];", "is not known"),
        ("suld.b.2d.b32 r1, [t, {r5,r6}];", "expected one of .trap"),
        ("sust.p.2d.b32.trap [t, {r5,r6}], r1;", "expected one of .b"),
        ("sust.b.2d.b32.trap [t+8, {r5,r6}], r1;", "expected a texture or surface object"),
    ],
)
def test_what_is_not_possible_is_refused(statement: str, message: str) -> None:
    with pytest.raises(CompileError, match=rf"module\.ptx:\d+:\d+: .*{message}"):
        compile_ptx(entry(REGISTERS + statement))


@pytest.mark.parametrize("kind", ["texref", "samplerref", "surfref"])
def test_references_are_refused(kind: str) -> None:
    text = HEADER + f".global .{kind} image;\n"
    with pytest.raises(CompileError, match=r"module\.ptx:4:\d+: references of textures and surfaces"):
        compile_ptx(text)
