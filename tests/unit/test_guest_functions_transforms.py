"""Fourier transforms, convolutions and random numbers of devices, on the CPU engine's library, compared with numpy."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import guest_driver as vgc
from tests.unit.builtins_device import BuiltinsDevice, Place, dev, fake, link, place
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake", "link", "place"]

COMPLEX: Final = {"float32": "complex64", "float64": "complex128"}
TOLERANCE: Final = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}
NORMS: Final = (None, "backward", "ortho", "forward")


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    random = np.random.default_rng(len(shape))
    return (random.uniform(-1, 1, shape) + 1j * random.uniform(-1, 1, shape)).astype(dtype)


def reals(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    return numbers(shape, "complex128").real.astype(dtype)


def assert_close(found: Any, wanted: Any, dtype: str) -> None:
    assert found.dtype == np.dtype(dtype)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * max(wanted.size, 1))


# ---- Fourier transforms --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("function", ["fft", "fft2", "fftn"])
def test_complex_transforms(dev: vgc.Device, place: Place, dtype: str, norm: Any, function: str) -> None:
    a = numbers((2, 6, 9), COMPLEX[dtype])
    for name in (function, f"i{function}"):
        wanted = getattr(np.fft, name)(a.astype(complex), norm=norm)
        assert_close(place.take(getattr(dev.fft, name)(place.put(a), norm=norm)), wanted, COMPLEX[dtype])


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("function", ["rfft", "rfft2", "rfftn"])
@pytest.mark.parametrize("length", [8, 9])
def test_real_transforms(dev: vgc.Device, place: Place, *, dtype: str, norm: Any, function: str, length: int) -> None:
    a = reals((2, 6, length), dtype)
    half = getattr(np.fft, function)(a.astype(float), norm=norm)
    assert_close(place.take(getattr(dev.fft, function)(place.put(a), norm=norm)), half, COMPLEX[dtype])
    inverse = getattr(dev.fft, f"i{function}")
    lengths = {"rfft": length, "rfft2": (6, length), "rfftn": (2, 6, length)}[function]
    stored = place.put(half.astype(COMPLEX[dtype]))
    assert_close(place.take(inverse(stored, lengths, norm=norm)), a.astype(float), dtype)
    if length == 8:
        assert_close(place.take(inverse(stored, norm=norm)), a.astype(float), dtype)


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16", "float32", "float64"])
def test_numpy_arrays_are_converted(dev: vgc.Device, dtype: str) -> None:
    a = (reals((6,)) * 9).astype(dtype)
    wanted = COMPLEX["float32" if dtype in ("float16", "float32") else "float64"]
    assert_close(dev.fft.fft(a), np.fft.fft(a.astype(float)), wanted)
    assert_close(dev.fft.rfft(a), np.fft.rfft(a.astype(float)), wanted)


def test_arguments_are_not_changed(dev: vgc.Device, place: Place) -> None:
    a = numbers((8,), "complex64")
    put = place.put(a.copy())
    dev.fft.fft(put, norm="ortho")
    assert np.array_equal(put.get() if isinstance(put, vgc.DeviceArray) else put, a)


@pytest.mark.parametrize(("axes", "lengths"), [((1, 2), None), ((-1,), (5,)), (None, (4, 5)), ((0, 1, 2), (3, 4, 5))])
def test_axes(dev: vgc.Device, place: Place, axes: Any, lengths: Any) -> None:
    a = numbers((3, 4, 5), "complex128")
    wanted = np.fft.fftn(a, lengths, axes or tuple(range(3 - len(lengths), 3)))
    assert_close(place.take(dev.fft.fftn(place.put(a), lengths, axes)), wanted, "complex128")


C = numbers((2, 3, 4), "complex64")


@pytest.mark.parametrize(
    ("function", "arguments", "error", "text"),
    [
        ("fft", ([1],), TypeError, "a is a list"),
        ("fft", (C, 5), ValueError, r"axes of \(5,\), and the array has \(4,\); .* not padded or cut"),
        ("fft", (C, None, 0), ValueError, r"axes \(0,\) of shape \(2, 3, 4\); allowed: the last one, two or three"),
        ("fft", (C, None, 3), ValueError, "axis 3 of an array"),
        ("fft", (C, None, -1, "half"), ValueError, "norm 'half'; allowed: backward, ortho, forward"),
        ("fftn", (C, None, (2, 1)), ValueError, r"axes \(2, 1\)"),
        ("fftn", (C, (4,), (1, 2)), ValueError, "1 lengths for 2 axes; allowed: one for each"),
        ("fftn", (C[None],), ValueError, r"axes None of shape \(1, 2, 3, 4\)"),
        ("fft", (C[..., :0],), ValueError, "an axis of length 0; allowed: 1 to 4194304"),
        ("irfft", (C, 5), ValueError, r"axes of \(3,\), and the array has \(4,\)"),
        ("irfft", (C[..., :1],), ValueError, "an axis of length 0"),
        ("rfft", (C,), TypeError, "a has elements of complex64; allowed: float32 and float64, and numbers that can"),
        ("fft", (np.array(["a"]),), TypeError, "a has elements of <U1"),
    ],
)
def test_refusals_of_transforms(
    dev: vgc.Device,
    fake: BuiltinsDevice,
    *,
    function: str,
    arguments: tuple[Any, ...],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        getattr(dev.fft, function)(*arguments)
    assert Opcode.CALL not in fake.opcodes()


def test_device_arrays_are_not_converted(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match="float32; allowed on the device: complex64 and complex128; rfft takes real"):
        dev.fft.fft(dev.zeros(4))
    with pytest.raises(TypeError, match="int32; allowed on the device: float32 and float64"):
        dev.fft.rfft(dev.zeros(4, "int32"))


# ---- convolutions --------------------------------------------------------------------------------


def convolve(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, *, groups: int) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    spans = [(w.shape[2 + i] - 1) * dilation[i] + 1 for i in range(2)]
    windows = sliding_window_view(padded, spans, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", part, filters) for part, filters in parts], axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), ((1, 3), (2, 0), (2, 1), 2)]
)
def test_conv2d(
    dev: vgc.Device, place: Place, *, dtype: str, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    x, w = reals((2, 4, 11, 12), dtype), reals((6, 4 // groups, 3, 2), dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    pairs: Any = [(option, option) if isinstance(option, int) else option for option in options.values()]
    found = place.take(dev.conv.conv2d(place.put(x), place.put(w), groups=groups, **options))
    assert_close(found, convolve(x.astype(float), w.astype(float), *pairs, groups=groups), dtype)


X, W = reals((1, 4, 5, 5)), reals((2, 4, 3, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((X[0], W), {}, "x has shape .* allowed: arrays of 4 dimensions"),
        ((X, W[0]), {}, "w has shape .* allowed: arrays of 4 dimensions"),
        ((X, W), {"stride": 0}, "stride is 0; allowed: one number, or two, from 1 to 1048576"),
        ((X, W), {"padding": (1, 2, 3)}, r"padding is \(1, 2, 3\); allowed: one number, or two, from 0"),
        ((X, W), {"groups": 3}, "3 groups of 4 channels and 2 filters; allowed: numbers that divide both"),
        ((X, W), {"groups": 2}, "w has shape .* allowed: 2 channels"),
        ((X, W), {"dilation": 3}, "filters of 3 rows, 7 with dilation, on 5 with padding; allowed: 1 or more that fit"),
        ((X, W[:, :, :, :0]), {}, "filters of 0 columns"),
    ],
)
def test_refusals_of_convolutions(
    dev: vgc.Device, fake: BuiltinsDevice, arguments: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(vgc.InvalidArgument, match=text):
        dev.conv.conv2d(*arguments, **options)
    assert Opcode.CALL not in fake.opcodes()


# ---- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "dtype"),
    [("bits", "uint32"), ("uniform", "float32"), ("uniform", "float64"), ("normal", "float32"), ("normal", "float64")],
)
def test_random_numbers_depend_on_seed_and_place_alone(dev: vgc.Device, function: str, dtype: str) -> None:
    generate = getattr(dev.random, function)
    kind = {} if function == "bits" else {"dtype": dtype}
    whole = generate((10, 10), seed=7, **kind)
    assert (whole.shape, whole.dtype) == ((10, 10), np.dtype(dtype))
    out = np.empty(90, dtype)
    assert generate(90, seed=7, offset=10, out=out, **kind) is out
    assert np.array_equal(out, whole.get().ravel()[10:])
    assert not np.array_equal(generate((10, 10), seed=8, **kind).get(), whole.get())


def test_distributions(dev: vgc.Device) -> None:
    uniform = dev.random.uniform(100_000, "float64", seed=2**64 - 1).get()
    assert 0 <= uniform.min() < uniform.max() < 1
    assert math.isclose(uniform.mean(), 0.5, abs_tol=0.01)
    normal = dev.random.normal(100_000, seed=-1, mean=3, deviation=2).get()
    assert math.isclose(normal.mean(), 3, abs_tol=0.05)
    assert math.isclose(normal.std(), 2, abs_tol=0.05)


def test_refusals_of_random_numbers(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match="dtype is int32; allowed: float32, float64"):
        dev.random.uniform(3, "int32", seed=0)
    with pytest.raises(vgc.InvalidArgument, match="offset is 18446744073709551616; allowed: -2"):
        dev.random.bits(3, seed=0, offset=2**64)
    with pytest.raises(vgc.InvalidArgument, match="mean is 0 and deviation is -1; allowed: finite numbers"):
        dev.random.normal(3, seed=0, deviation=-1)
    with pytest.raises(vgc.InvalidArgument, match=r"out has shape \(4,\); allowed: \(3,\)"):
        dev.random.bits(3, seed=0, out=np.zeros(4, "uint32"))
    with pytest.raises(TypeError, match="out has elements of float64; allowed: float32"):
        dev.random.uniform(3, seed=0, out=np.zeros(3))
    with pytest.raises(TypeError, match="out is a list"):
        dev.random.uniform(3, seed=0, out=[0, 0, 0])  # type: ignore[arg-type]
