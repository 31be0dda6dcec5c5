"""Textures and surfaces on the CPU engine: each fetch gives what the model of the CUDA guide gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit import cpu_textures
from tests.unit.cpu_rig import LaunchError, Rig, compile_image, rig
from tests.unit.texture_reference import BORDER, CLAMP, MIRROR, WRAP, Model, cube_face
from virtio_proto.schema import Status

SOURCE = Path(__file__).with_name("cpu_textures.cu").read_text()
Array = np.ndarray[Any, Any]
PLACE = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("layer", "i4"), ("detail", "f4")])
PLACES = 64


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


def _texels(random: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Random texels of shape (layer, z, y, x, channel)."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.uniform(-2, 2, shape).astype(kind)
    info = np.iinfo(kind)
    return random.integers(max(info.min, -(1 << 20)), min(info.max, 1 << 20), shape, endpoint=True).astype(kind)


def _places(random: np.random.Generator, model: Model) -> Array:
    """Random places, a third of them outside, at fractions of texels that floats hold exactly."""
    places = np.zeros(PLACES, PLACE)
    for axis, name in enumerate("xyz"[: model.axes]):
        size = model.levels[0].shape[3 - axis]
        texels = random.integers(-64 * size, 128 * size, PLACES) / 64
        places[name] = texels / size if model.normalised else texels
    places["layer"] = random.integers(-1, len(model.levels[0]) + 1, PLACES)
    places["detail"] = random.integers(-64, 64 * (len(model.levels) + 1), PLACES) / 64
    return places


def _fetched(
    gpu: Rig, kernel: str, texture: np.uint64, places: Array, *, dtype: Any = np.float32, width: int = 4
) -> Array:
    out = gpu.array((PLACES, width), dtype)
    gpu.launch(kernel, 2, 32, out, texture, gpu.array(PLACES, PLACE, places), np.int32(PLACES))
    return out


def _close(got: Array, expected: Array, scale: float = 1) -> None:
    assert np.allclose(got, expected, rtol=2e-5, atol=2e-5 * scale), np.abs(got - expected).max()


MODES = list(itertools.product((False, True), (False, True), (WRAP, CLAMP, MIRROR, BORDER)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_coordinates_filters_and_address_modes(
    gpu: Rig, random: np.random.Generator, axes: int, mode: tuple[bool, bool, int]
) -> None:
    normalised, linear, address = mode
    sizes = (8, 16, 4) if normalised else (7, 13, 5)  # powers of two keep normalised places exact
    shape = (1, *(size if axes > 2 - i else 1 for i, size in enumerate(sizes[::-1])), 4)
    model = Model([_texels(random, np.float32, shape)], axes, normalised, linear,
                  address=(address, (address + 1) % 4, address), border=(0.5, -1, 2, 3))  # fmt: skip
    places = _places(random, model)
    got = _fetched(gpu, f"plain_{axes}d_float", cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"], p["z"]]) for p in places]))


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "f2", "f4"])
@pytest.mark.parametrize("as_float", [False, True])
def test_formats(gpu: Rig, random: np.random.Generator, dtype: str, channels: int, as_float: bool) -> None:
    model = Model([_texels(random, dtype, (1, 1, 6, 9, channels))], as_float=as_float, address=(BORDER, CLAMP, CLAMP))
    places = _places(random, model)
    is_float = dtype[0] == "f" or (as_float and dtype[1] in "12")
    kernel = "plain_2d_float" if is_float else "plain_2d_int"
    got = _fetched(gpu, kernel, cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"]]) for p in places]))


@pytest.mark.parametrize("linear", [False, True])
def test_srgb(gpu: Rig, random: np.random.Generator, linear: bool) -> None:
    model = Model([_texels(random, "u1", (1, 1, 6, 9, 4))], linear=linear, as_float=True, srgb=True)
    places = _places(random, model)
    got = _fetched(gpu, "plain_2d_float", cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"]]) for p in places]))


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
def test_fetches_by_index_are_zero_outside(gpu: Rig, random: np.random.Generator, dtype: str) -> None:
    texels = _texels(random, dtype, (1, 1, 1, 40, 4))
    places = np.zeros(PLACES, PLACE)
    places["layer"] = np.arange(PLACES) - 10
    kernel = "fetch_float" if dtype == "f4" else "fetch_int"
    got = _fetched(gpu, kernel, cpu_textures.texture(gpu, Model([texels], 1)), places)
    assert np.array_equal(got[10:50], texels[0, 0, 0])
    assert not got[:10].any()
    assert not got[50:].any()


@pytest.mark.parametrize("sample", [cpu_textures.NEAREST, cpu_textures.LINEAR])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_samples_that_kernels_compute_themselves(
    gpu: Rig, random: np.random.Generator, sample: int, axes: int, normalised: bool
) -> None:
    shape = (1, *(8 if axes > axis else 1 for axis in (2, 1, 0)), 1)
    model = Model([_texels(random, np.float32, shape)], axes, normalised, linear=sample == cpu_textures.LINEAR)
    places = _places(random, model)
    got = _fetched(gpu, f"hot_{axes}d", cpu_textures.texture(gpu, model, sample), places, width=1)[:, 0]
    _close(got, np.array([model.sample([p["x"], p["y"], p["z"]])[0] for p in places]))


@pytest.mark.parametrize(("kernel", "dtype", "width"), [("hot_bytes", "u1", 4), ("hot_shorts", "i2", 2)])
def test_whole_texels_are_read_at_once(
    gpu: Rig, random: np.random.Generator, kernel: str, dtype: str, width: int
) -> None:
    model = Model([_texels(random, dtype, (1, 1, 6, 9, width))])
    places = _places(random, model)
    for sample in (cpu_textures.NEAREST, cpu_textures.OTHER):
        got = _fetched(gpu, kernel, cpu_textures.texture(gpu, model, sample), places, dtype=dtype, width=width)
        assert np.array_equal(got, np.array([model.sample([p["x"], p["y"]]) for p in places])[:, :width])


@pytest.mark.parametrize("sample", [cpu_textures.NEAREST, cpu_textures.OTHER])
def test_fetches_in_loops(gpu: Rig, random: np.random.Generator, sample: int) -> None:
    texels = _texels(random, np.float32, (1, 1, 5, 200, 1)).round(2)
    out = gpu.array(PLACES, np.float32)
    gpu.launch("sums", 2, 32, out, cpu_textures.texture(gpu, Model([texels]), sample), np.int32(5))
    rows = texels[0, 0, :, :, 0].astype(np.float64)
    expected = []
    for i in range(PLACES):
        total = sum((k + 1) * rows[:, i + k].sum() for k in range(i % 7 + 1))
        halves = [i >> shift for shift in range(8) if i >> shift]
        expected.append(total - sum(rows[0, j] for j in halves))
    _close(out, np.array(expected), 50)


def test_fewer_channels_than_the_texture_has(gpu: Rig, random: np.random.Generator) -> None:
    model = Model([_texels(random, "u1", (1, 1, 6, 9, 4))])
    places = _places(random, model)
    texture = cpu_textures.texture(gpu, model, cpu_textures.NEAREST)
    got = _fetched(gpu, "narrow", texture, places, dtype=np.uint8, width=1)[:, 0]
    assert np.array_equal(got, np.array([model.sample([p["x"], p["y"]])[0] for p in places]))


def test_places_that_are_no_numbers_give_a_texel_or_the_border(gpu: Rig) -> None:
    texels = np.ones((1, 1, 4, 4, 1), np.float32)
    places = np.zeros(PLACES, PLACE)
    places["x"] = np.resize([np.nan, np.inf, -np.inf, 3e38, -3e38, 2**31, 1e-40], PLACES)
    for normalised, linear, address, sample in itertools.product((False, True), (False, True), range(4), (0, 1, 2)):
        model = Model([texels], 2, normalised, linear, address=(address,) * 3)
        got = _fetched(gpu, "hot_2d", cpu_textures.texture(gpu, model, sample), places, width=1)
        assert np.all((got >= 0) & (got <= 1))


@pytest.mark.parametrize("kernel", ["layered_1d", "layered_2d"])
def test_layers(gpu: Rig, random: np.random.Generator, kernel: str) -> None:
    axes = int(kernel[-2])
    model = Model([_texels(random, np.float32, (3, 1, 4 if axes == 2 else 1, 8, 4))], axes, linear=True)
    places = _places(random, model)
    got = _fetched(gpu, f"{kernel}_float", cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"]], p["layer"]) for p in places]))


def _mipmap(random: np.random.Generator, sizes: tuple[int, int, int], layers: int = 1) -> list[Array]:
    levels = []
    while True:
        levels.append(_texels(random, np.float32, (layers, *sizes[::-1], 4)))
        if max(sizes) == 1:
            return levels
        sizes = (max(sizes[0] // 2, 1), max(sizes[1] // 2, 1), max(sizes[2] // 2, 1))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("linear_levels", [False, True])
@pytest.mark.parametrize("limits", [(0, (0, 9)), (0.75, (0.5, 1.5))])
def test_levels_of_detail(
    gpu: Rig,
    random: np.random.Generator,
    axes: int,
    linear_levels: bool,
    limits: tuple[float, tuple[float, float]],
) -> None:
    bias, level_range = limits
    sizes = (16, 8 if axes > 1 else 1, 4 if axes > 2 else 1)
    model = Model(_mipmap(random, sizes), axes, True, True, linear_levels=linear_levels, bias=bias,
                  level_range=level_range)  # fmt: skip
    places = _places(random, model)
    got = _fetched(gpu, f"lod_{axes}d_float", cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"], p["z"]], detail=p["detail"]) for p in places]))


def test_levels_of_layers(gpu: Rig, random: np.random.Generator) -> None:
    model = Model(_mipmap(random, (8, 16, 1), 3), 2, True, linear_levels=True, level_range=(0, 9))
    places = _places(random, model)
    got = _fetched(gpu, "layered_lod_float", cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.sample([p["x"], p["y"]], p["layer"], p["detail"]) for p in places]))


def test_derivatives_choose_the_level(gpu: Rig, random: np.random.Generator) -> None:
    model = Model(_mipmap(random, (16, 16, 1)), 2, True, level_range=(0, 9))
    places = _places(random, model)
    places["z"], places["detail"] = 2.0 ** random.integers(-5, 1, PLACES), 2.0 ** random.integers(-5, 1, PLACES)
    got = _fetched(gpu, "grad_2d_float", cpu_textures.texture(gpu, model), places)
    details = np.log2(16 * np.maximum(places["z"], places["detail"]))
    _close(
        got,
        np.array([model.sample([p["x"], p["y"]], detail=detail) for p, detail in zip(places, details, strict=True)]),
    )


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("cubes", [1, 2])
def test_cubemaps(gpu: Rig, random: np.random.Generator, cubes: int, linear: bool) -> None:
    model = Model([_texels(random, np.float32, (6 * cubes, 1, 8, 8, 4))], 2, True, linear)
    places = np.zeros(PLACES, PLACE)
    for name in "xyz":
        places[name] = random.uniform(-3, 3, PLACES)
    places["layer"] = random.integers(0, cubes, PLACES)
    kernel = "cube_float" if cubes == 1 else "cubes_float"
    got = _fetched(gpu, kernel, cpu_textures.texture(gpu, model), places)
    faces = [cube_face(p["x"], p["y"], p["z"]) for p in places]
    expected = [model.sample((s, t), 6 * p["layer"] + face) for p, (face, s, t) in zip(places, faces, strict=True)]
    if linear:  # a place between two fractions of 1/256 may be rounded either way
        assert np.abs(got - np.array(expected)).max() < 4 / 256 * 2
    else:
        _close(got, np.array(expected))


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_gather(gpu: Rig, random: np.random.Generator, dtype: str) -> None:
    model = Model([_texels(random, dtype, (1, 1, 6, 9, 4))])
    places = _places(random, model)
    places["layer"] = random.integers(0, 4, PLACES)
    kernel = "gather_float" if dtype == "f4" else "gather_int"
    got = _fetched(gpu, kernel, cpu_textures.texture(gpu, model), places)
    _close(got, np.array([model.gather([p["x"], p["y"]], p["layer"]) for p in places]))


# ---- references -----------------------------------------------------------------------------------------------------


def test_references_are_variables_that_hold_the_object(gpu: Rig, random: np.random.Generator) -> None:
    bytes_, floats = _texels(random, "u1", (1, 1, 1, 8, 4)), _texels(random, "f4", (1, 1, 4, 8, 1))
    surface, written = cpu_textures.surface(gpu, np.zeros((1, 1, 4, 8, 1), np.float32))
    objects = {
        "reference_1d": cpu_textures.texture(gpu, Model([bytes_], 1, as_float=True)),
        "reference_2d": cpu_textures.texture(gpu, Model([floats]), cpu_textures.NEAREST),
        "surface_reference": surface,
    }
    for name, handle in objects.items():
        gpu.variable(name)[:8].view(np.uint64)[0] = handle
    out, out2 = gpu.array((8, 4), np.float32), gpu.array(8, np.float32)
    gpu.launch("by_reference", 1, 8, out, out2, np.int32(8))
    _close(out, bytes_[0, 0, 0] / 255)
    assert np.array_equal(out2, floats[0, 0, 0, :, 0])
    assert np.array_equal(written[0, 0, 1, :, 0], out2 + 1)


# ---- surfaces -------------------------------------------------------------------------------------------------------

SITE = np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4"), ("value", "i4")])
SHAPES = {
    "1D": (1, 1, 1, 8), "2D": (1, 1, 4, 8), "3D": (1, 3, 4, 8), "1DLayered": (3, 1, 1, 8), "2DLayered": (3, 1, 4, 8),
    "Cubemap": (6, 1, 4, 4), "CubemapLayered": (12, 1, 4, 4),
}  # fmt: skip


def _sites(random: np.random.Generator, name: str, outside: int) -> Array:
    """One site per value of the surface, in random order, and then some outside of it."""
    layers, depth, height, width = SHAPES[name]
    grid = np.array(list(itertools.product(range(layers * depth), range(height), range(width))))[:, ::-1]
    grid = random.permutation(grid)[: 64 - outside]
    sites = np.zeros(64, SITE)
    inside = len(grid)
    for axis, key in enumerate("xyz"):
        sites[key][:inside] = grid[:, axis]
    sites["x"][inside:] = np.resize([-1, width, 1 << 28, -(1 << 28)], 64 - inside)
    sites["x"] *= 4
    sites["value"][:inside] = np.arange(1, inside + 1)
    return sites


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_surfaces(gpu: Rig, random: np.random.Generator, name: str, mode: str) -> None:
    texels = _texels(random, "i4", (*SHAPES[name], 1))
    handle, memory = cpu_textures.surface(gpu, texels)
    sites = _sites(random, name, 8)
    out = gpu.array(64, np.int32)
    gpu.launch(f"{mode}_{name}", 1, 64, out, handle, gpu.array(64, SITE, sites))
    flat = texels.reshape(-1, *SHAPES[name][2:])
    width = flat.shape[2]
    columns = np.clip(sites["x"] // 4, 0, width - 1)
    expected = flat[sites["z"], sites["y"], columns]
    is_inside = columns == sites["x"] // 4
    assert np.array_equal(out, np.where(is_inside, expected, 0) if mode == "zero" else expected)
    written = sites["value"] != 0
    flat[sites["z"][written], sites["y"][written], columns[written]] = sites["value"][written]
    assert np.array_equal(memory.reshape(flat.shape), flat)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("key", ["x", "y", "z"])
def test_an_access_outside_of_a_surface_ends_the_launch(
    gpu: Rig, random: np.random.Generator, name: str, key: str
) -> None:
    handle, _ = cpu_textures.surface(gpu, _texels(random, "i4", (*SHAPES[name], 1)))
    sites = np.zeros(1, SITE)
    out = gpu.array(1, np.int32)
    gpu.launch(f"trap_{name}", 1, 1, out, handle, gpu.array(1, SITE, sites))
    sites[key] = -4
    if (key == "y" and "1D" in name) or (key == "z" and name in ("1D", "2D")):
        return  # the access has no such coordinate
    with pytest.raises(LaunchError, match=r"outside of surface 0x.* in kernel 'trap_.*', block \(0,0,0\)") as caught:
        gpu.launch(f"trap_{name}", 1, 1, out, handle, gpu.array(1, SITE, sites))
    assert caught.value.status == Status.FAULT


def test_surface_accesses_of_other_sizes(gpu: Rig) -> None:
    texels = np.arange(4 * 32, dtype=np.float32).reshape(1, 1, 4, 32, 1)
    handle, memory = cpu_textures.surface(gpu, texels)
    gpu.launch("odd_sizes", 1, 8, handle)
    rows = memory[0, 0, :, :, 0]
    assert np.array_equal(rows[0, :8].view(np.uint8).reshape(8, 4)[:, 0], np.arange(8))
    assert np.array_equal(rows[1, :4].view(np.uint16), 300 + np.arange(8))
    pairs = np.arange(64, 80).reshape(8, 2)
    expected = np.column_stack([pairs[:, 1], pairs[:, 0], np.arange(8), np.full(8, 0.5)])
    assert np.array_equal(rows[3].reshape(8, 4), expected)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "what"), [("plain_2d_float", "texture"), ("hot_2d", "texture")])
def test_an_address_of_something_else_is_no_texture(gpu: Rig, kernel: str, what: str) -> None:
    memory = gpu.array(64, np.uint64)
    with pytest.raises(LaunchError, match=f"is not a {what} object in kernel '{kernel}'") as caught:
        _fetched(gpu, kernel, np.uint64(memory.ctypes.data), np.zeros(PLACES, PLACE))
    assert caught.value.status == Status.FAULT


def test_an_address_of_something_else_is_no_surface(gpu: Rig) -> None:
    memory = gpu.array(64, np.uint64)
    with pytest.raises(LaunchError, match="is not a surface object in kernel 'clamp_2D'"):
        gpu.launch("clamp_2D", 1, 1, gpu.array(1, np.int32), np.uint64(memory.ctypes.data), gpu.array(1, SITE))


def test_descriptors_of_any_contents_leave_the_runtime_standing(gpu: Rig, random: np.random.Generator) -> None:
    """Forged descriptors whose texels lie in mapped memory: whatever the other fields say, a launch ends."""
    texels = gpu.array(1 << 20, np.uint8)
    for _ in range(64):
        made = gpu.array(1, cpu_textures.DESCRIPTOR)
        made.view(np.uint8)[:] = random.integers(0, 256, made.itemsize)
        made["magic"], made["data"] = cpu_textures.TEXTURE, texels.ctypes.data
        for name, most in (("width", 8), ("height", 8), ("depth", 4), ("layers", 12), ("pitch", 128), ("slice", 1024)):
            made[name] = random.integers(0, most)
        made["levels"], made["level_layers"] = random.integers(0, 4), random.integers(0, 12)
        made["bits"], made["channels"] = random.choice([8, 16, 32]), random.choice([1, 2, 4])
        places = _places(random, Model([np.zeros((3, 2, 8, 8, 4), np.float32)], 3))
        for kernel in ("plain_3d_float", "lod_2d_int", "cubes_float", "gather_int"):
            _fetched(gpu, kernel, np.uint64(made.ctypes.data), places)


# ---- compilation ----------------------------------------------------------------------------------------------------


def test_types_and_descriptions_of_channels_are_known_without_headers() -> None:
    compile_image("""
        template <class A, class B> struct same { static const bool value = false; };
        template <class A> struct same<A, A> { static const bool value = true; };
        static_assert(cudaCreateChannelDesc<uchar4>().w == 8 && cudaCreateChannelDesc<uchar4>().f == cudaChannelFormatKindUnsigned, "");
        static_assert(cudaCreateChannelDesc<float2>().y == 32 && cudaCreateChannelDesc<float2>().z == 0, "");
        static_assert(cudaCreateChannelDesc<char>().f == cudaChannelFormatKindSigned, "");
        static_assert(cudaCreateChannelDescHalf4().z == 16, "");
        static_assert(sizeof(cudaTextureObject_t) == 8, "");
        __global__ void k(cudaTextureObject_t t, float *out) { *out = 0; }
        void host() {
            cudaResourceDesc resource = {};
            resource.resType = cudaResourceTypePitch2D;
            resource.res.pitch2D.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
            cudaTextureDesc texture = {};
            texture.addressMode[0] = cudaAddressModeWrap;
            texture.readMode = cudaReadModeNormalizedFloat;
        }""")


@pytest.mark.parametrize("header", [
    "texture_types.h", "texture_fetch_functions.h", "texture_indirect_functions.h", "surface_types.h",
    "surface_functions.h", "surface_indirect_functions.h", "channel_descriptor.h",
])  # fmt: skip
def test_headers_can_be_included(header: str) -> None:
    compile_image(f"#include <{header}>\n__global__ void k(int *out) {{ *out = 0; }}")


@pytest.mark.parametrize("source", [
    "#define FETCH(n) tex##n##Dfetch<float>\n__global__ void k(float *o, cudaTextureObject_t t) { *o = FETCH(1)(t, 3); }",
    "__global__ void k(float *o, cudaTextureObject_t t) { *o = FETCH(t, 3); }",
])  # fmt: skip
def test_names_that_macros_make(source: str) -> None:
    compile_image(source, ["-DFETCH=tex1Dfetch<float>"] if "##" not in source else [])


def test_programs_that_use_no_textures_may_have_their_names() -> None:
    compile_image(
        "__device__ float tex2Ds; struct context { int tex; }; __global__ void k(context c, float *o) { *o = c.tex; }"
    )
