"""Fourier transforms and convolutions among the built-in functions, compared with numpy in doubles."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

FLOATS: Final = ("f32", "f64")
COMPLEX: Final = {"f32": np.complex64, "f64": np.complex128}
TOLERANCE: Final = {"f32": 5e-6, "f64": 1e-14}
SHAPES: Final = (
    (1, 1),
    (2, 2),
    (1, 8),
    (7, 30),
    (2, 1009),
    (1, 30_011),
    (300, 64),
    (1, 1 << 17),
    (2, 150_000),
    (1, 1 << 19),
    (2, 262_146),
    (2, 3, 1 << 18),
    (1, 3, 1 << 17),
    (1, 131_101),
    (3, 17, 30),
    (1, 256, 255),
    (2, 12, 34, 35),
    (1, 1, 1, 5),
    (0, 8),
)


def numbers(shape: tuple[int, ...], dtype: str) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(DTYPES[dtype])


def shape_values(shape: tuple[int, ...]) -> dict[str, int]:
    lengths = (*shape[1:], 1, 1)
    return {"batch": shape[0], "n0": lengths[0], "n1": lengths[1], "n2": lengths[2], "rank": len(shape) - 1}


def axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(1, len(shape)))


def assert_close(found: Array, wanted: Array, dtype: str) -> None:
    assert found.shape == wanted.shape
    if wanted.size:
        assert np.abs(found - wanted).max() <= TOLERANCE[dtype] * np.sqrt((np.abs(wanted) ** 2).mean())


def workspaces(length: int, *pes: int) -> list[int]:
    """Bytes of scratch memory of a single transform, by numbers of threads."""
    values = {"in": 1 << 40, "out": 1 << 41} | shape_values((1, length))
    builtin = rig.named("fft.c2c_f32")
    block = rig.pack(builtin, values)
    return [rig.lib().vgc_cpu_builtin_workspace(builtin, block, number) for number in pes]


def test_single_transform_works_in_the_memory_of_one() -> None:
    one, many = workspaces(524_287, 1, 32)  # a prime
    assert many < 1.1 * one


def test_long_transform_takes_memory_for_some_lines_for_each_thread() -> None:
    one, many = workspaces(1 << 19, 1, 32)
    assert one < 2 * 8 * (1 << 19)
    assert many - one < 31 * (4 << 20)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_complex_transforms_are_those_of_numpy(dtype: str, shape: tuple[int, ...], pes: int) -> None:
    x: Array = (numbers(shape, dtype) + 1j * numbers((*shape, 1), dtype)[..., 0]).astype(COMPLEX[dtype])
    for inverse, transform in enumerate((np.fft.fftn, np.fft.ifftn)):
        values = {"in": x, "out": np.zeros_like(x), "inverse": inverse} | shape_values(shape)
        found = rig.call(f"fft.c2c_{dtype}", pes, **values)["out"]
        wanted = transform(x.astype(complex), axes=axes(shape)) if shape[0] else x
        assert_close(found, wanted, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_real_transforms_are_those_of_numpy(dtype: str, shape: tuple[int, ...], pes: int) -> None:
    x = numbers(shape, dtype)
    half = (*shape[:-1], shape[-1] // 2 + 1)
    wanted = np.fft.rfftn(x.astype(float), axes=axes(shape)) if shape[0] else np.zeros(half, complex)
    values = {"in": x, "out": np.zeros(half, COMPLEX[dtype])} | shape_values(shape)
    assert_close(rig.call(f"fft.r2c_{dtype}", pes, **values)["out"], wanted, dtype)
    values = {"in": wanted.astype(COMPLEX[dtype]), "out": np.zeros_like(x)} | shape_values(shape)
    assert_close(rig.call(f"fft.c2r_{dtype}", pes, **values)["out"], x.astype(float), dtype)


@pytest.mark.parametrize("n", [8, 1 << 17])
def test_inverse_real_transform_ignores_imaginary_parts_that_cannot_be(n: int) -> None:
    half = (numbers((2, n // 2 + 1), "f64") + 1j * numbers((2, n // 2 + 1, 1), "f64")[..., 0]).astype(np.complex128)
    values = {"in": half, "out": np.zeros((2, n))} | shape_values((2, n))
    assert_close(rig.call("fft.c2r_f64", **values)["out"], np.fft.irfft(half, n), "f64")


@pytest.mark.parametrize("shape", [(3, 100), (1, 60, 70), (1, 1 << 15), (2, 1 << 17)])
def test_complex_transform_in_place(shape: tuple[int, ...]) -> None:
    x = numbers((*shape, 2), "f64").view(complex)[..., 0]
    buffer = rig.Buffer(x.tobytes())
    builtin = rig.named("fft.c2c_f64")
    block = rig.pack(builtin, {"in": buffer.address, "out": buffer.address} | shape_values(shape))
    rig.check(builtin, block)
    rig.run(builtin, block)
    found = np.frombuffer(buffer.content(), complex).reshape(shape)
    assert_close(found, np.fft.fftn(x, axes=axes(shape)), "f64")


def resident_bytes() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer keeps memory that is given back")
def test_tables_that_are_kept_have_one_bound_for_all_functions() -> None:
    """Without the bound, 24 tables of 9 MiB would stay; with it, 64 MiB of them, and what malloc keeps."""
    before = resident_bytes()
    primes = (299_993, 299_983, 299_977, 299_969, 299_951, 299_941)
    for length in (*primes, 299_933, 299_909, 299_903, 299_891, 299_881, 299_861):
        for name, complex_in in (("c2c", True), ("r2c", False)):
            x: Array = np.ones((1, length), np.complex128 if complex_in else np.float64)
            out: Array = np.ones((1, length if complex_in else length // 2 + 1), np.complex128)
            rig.call(f"fft.{name}_f64", 1, **{"in": x, "out": out} | shape_values((1, length)))
    assert resident_bytes() - before < 128 << 20


def test_real_transforms_have_one_direction() -> None:
    values = {"in": np.zeros((1, 8)), "out": np.zeros((1, 5), complex), "inverse": 1} | shape_values((1, 8))
    with pytest.raises(rig.RefusedError, match="inverse is 1; allowed: 0"):
        rig.call("fft.r2c_f64", **values)


# ---- convolutions --------------------------------------------------------------------------------

CONVOLUTIONS: Final = (
    {"batch": 1, "channels": 1, "height": 5, "width": 5, "filters": 1, "kernel_h": 3, "kernel_w": 3},
    {"batch": 2, "channels": 3, "height": 17, "width": 19, "filters": 5, "kernel_h": 3, "kernel_w": 2, "pad_h": 1},
    {
        "batch": 2,
        "channels": 4,
        "height": 20,
        "width": 21,
        "filters": 6,
        "kernel_h": 5,
        "kernel_w": 3,
        "pad_h": 2,
        "pad_w": 3,
    }
    | {"stride_h": 2, "stride_w": 3, "dilation_h": 2, "dilation_w": 1, "groups": 2},
    {"batch": 1, "channels": 64, "height": 40, "width": 41, "filters": 48, "kernel_h": 1, "kernel_w": 1},
    {
        "batch": 2,
        "channels": 64,
        "height": 56,
        "width": 56,
        "filters": 64,
        "kernel_h": 3,
        "kernel_w": 3,
        "pad_h": 1,
        "pad_w": 1,
    },
    {"batch": 1, "channels": 8, "height": 30, "width": 30, "filters": 8, "kernel_h": 3, "kernel_w": 3, "groups": 8},
    {"batch": 1, "channels": 200, "height": 6, "width": 6, "filters": 300, "kernel_h": 5, "kernel_w": 5},
    {"batch": 0, "channels": 3, "height": 5, "width": 5, "filters": 2, "kernel_h": 3, "kernel_w": 3},
    {"batch": 2, "channels": 0, "height": 5, "width": 5, "filters": 2, "kernel_h": 3, "kernel_w": 3},
    {
        "batch": 2,
        "channels": 3,
        "height": 0,
        "width": 2,
        "filters": 2,
        "kernel_h": 2,
        "kernel_w": 2,
        "pad_h": 1,
        "pad_w": 9,
    },
)
DEFAULTS: Final = {"stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0, "dilation_h": 1, "dilation_w": 1, "groups": 1}


def convolve(x: Array, weights: Array, v: dict[str, int]) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (v["pad_h"],) * 2, (v["pad_w"],) * 2))
    span = ((v["kernel_h"] - 1) * v["dilation_h"] + 1, (v["kernel_w"] - 1) * v["dilation_w"] + 1)
    views = sliding_window_view(padded, span, (2, 3))
    views = views[:, :, :: v["stride_h"], :: v["stride_w"], :: v["dilation_h"], :: v["dilation_w"]]
    per_group, filters = x.shape[1] // v["groups"], weights.shape[0] // v["groups"]
    groups = [
        np.einsum(
            "nchwij,ocij->nohw",
            views[:, g * per_group : (g + 1) * per_group],
            weights[g * filters : (g + 1) * filters],
            optimize=True,
        )
        for g in range(v["groups"])
    ]
    return np.concatenate(groups, axis=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("values", CONVOLUTIONS)
@pytest.mark.parametrize("pes", rig.PES)
def test_convolution_slides_filters_over_images(dtype: str, values: dict[str, int], pes: int) -> None:
    v: dict[str, Any] = DEFAULTS | values
    x = numbers((v["batch"], v["channels"], v["height"], v["width"]), dtype)
    weights = numbers((v["filters"], v["channels"] // v["groups"], v["kernel_h"], v["kernel_w"]), dtype)
    wanted = convolve(x.astype(float), weights.astype(float), v)
    scale = convolve(np.abs(x.astype(float)), np.abs(weights.astype(float)), v)
    y = np.full(wanted.shape, np.nan, DTYPES[dtype])
    found = rig.call(f"conv.conv2d_{dtype}", pes, x=x, weights=weights, y=y, **v)["y"]
    assert np.all(np.abs(found - wanted) <= TOLERANCE[dtype] * scale)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"groups": 2}, "channels is 3; allowed: multiples of groups"),
        ({"kernel_h": 8}, "kernel_h is 8; allowed: at most the rows of the image with its padding"),
        ({"stride_w": 0}, "stride_w is 0; allowed: 1 to"),
        ({"pad_h": -1}, "pad_h is -1; allowed: 0 to"),
    ],
)
def test_impossible_convolution_is_refused(change: dict[str, int], why: str) -> None:
    v = (
        DEFAULTS
        | {"batch": 1, "channels": 3, "height": 5, "width": 5, "filters": 2, "kernel_h": 3, "kernel_w": 3}
        | change
    )
    with pytest.raises(rig.RefusedError, match=why):
        rig.call("conv.conv2d_f32", x=np.zeros(75, "f4"), weights=np.zeros(54, "f4"), y=np.zeros(18, "f4"), **v)
