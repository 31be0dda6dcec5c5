"""Arrays on the device that share the memory of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.device import FakeDevice
from tests.unit.guest_rig import dev, fake, link

__all__ = ["dev", "fake", "link"]

NUMBERS = np.arange(12, dtype=np.float32)


@pytest.mark.parametrize(
    ("asked", "shape"), [((3, 4), (3, 4)), (12, (12,)), ((2, -1), (2, 6)), ((-1,), (12,)), (np.int64(12), (12,))]
)
def test_reshaped_array_shares_the_memory(
    dev: vgc.Device, asked: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    array = dev.to_device(NUMBERS)
    view = array.reshape(asked)
    assert (view.shape, view.dtype, view.size) == (shape, array.dtype, 12)
    assert np.array_equal(view.get(), NUMBERS.reshape(shape))
    view.fill(3)
    assert np.array_equal(array.get(), np.full(12, 3))


def test_lengths_are_arguments_too(dev: vgc.Device) -> None:
    array = dev.to_device(NUMBERS)
    assert array.reshape(3, -1).shape == (3, 4)
    with pytest.raises(ValueError, match=r"an array of shape \(12,\) as \(5, -1\); allowed: shapes of 12 elements"):
        array.reshape(5, -1)


def test_view_keeps_the_memory(dev: vgc.Device, fake: FakeDevice) -> None:
    view = dev.to_device(NUMBERS).reshape((3, 4)).first(5)
    assert np.array_equal(view.get(), NUMBERS[:5])
    view.free()
    with pytest.raises(ValueError, match="this device memory was freed"):
        view.get()
    assert fake.memory == {}


def test_view_ends_with_the_memory(dev: vgc.Device) -> None:
    array = dev.to_device(NUMBERS)
    view = array.reshape((4, 3))
    array.free()
    with pytest.raises(ValueError, match="this device memory was freed"):
        view.get()


def test_empty_arrays_have_views(dev: vgc.Device) -> None:
    empty = dev.zeros((0, 3))
    assert empty.reshape((3, 0)).get().shape == (3, 0)
    assert empty.reshape((-1, 3)).get().shape == (0, 3)
    assert empty.first(0).get().shape == (0,)


@pytest.mark.parametrize("shape", [(5,), (-1, 5), (-1, -1), (-12,), (-3, -4), (0, -1), ()])
def test_refused_shapes(dev: vgc.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"an array of shape \(12,\) as .*; allowed: shapes of 12 elements"):
        dev.to_device(NUMBERS).reshape(shape)


def test_refused_number_of_elements(dev: vgc.Device) -> None:
    with pytest.raises(ValueError, match="the first 13 elements of 12; allowed: 0 to 12"):
        dev.to_device(NUMBERS).first(13)


def test_sequences_of_numbers_become_arrays(dev: vgc.Device) -> None:
    array = dev.to_device([[1, 2], [3, 4]])
    assert (str(array.dtype), array.tolist()) == ("int64", [[1, 2], [3, 4]])
    assert dev.to_device(2.5).tolist() == 2.5
    with pytest.raises(TypeError, match="a str on the device; allowed: numpy arrays, and sequences of numbers"):
        dev.to_device("text")
    with pytest.raises(TypeError, match="on a device already; see DeviceArray"):
        dev.to_device(array)


def test_arrays_of_objects_are_refused(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match="elements of object on the device; allowed: numbers"):
        dev.to_device(np.array([None]))


@pytest.mark.parametrize("shape", [(3, 4), (12,), (0, 3), ()])
def test_copies_have_memory_of_their_own(dev: vgc.Device, shape: tuple[int, ...]) -> None:
    numbers = np.resize(NUMBERS, shape)
    array = dev.to_device(numbers)
    copy = array.copy()
    array.fill(7)
    assert np.array_equal(copy.get(), numbers)


# ---- parts ---------------------------------------------------------------------------------------

CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "index",
    [
        *(0, -1, np.int32(1), (1, 2), (1, -2, 3), slice(None), slice(0, 1), slice(1, None), slice(5, 9), slice(1, 0)),
        *((0, slice(1, 3)), (1, 2, slice(-3, -1)), (slice(1, 2), slice(0, 2)), (slice(0, 1), 1, slice(2, 3))),
        *(..., (1, ...), (..., slice(None)), (1, ..., slice(None)), (slice(2, 2), 1, 3), ()),
    ],
    ids=str,
)
def test_parts_share_the_memory(dev: vgc.Device, index: Any) -> None:
    array, numbers = dev.to_device(CUBE), CUBE.copy()
    part = array[index]
    assert (part.shape, part.dtype) == (numbers[index].shape, numbers.dtype)
    assert np.array_equal(part.get(), numbers[index])
    part.fill(-1)
    numbers[index] = -1
    assert np.array_equal(array.get(), numbers)


def test_parts_of_parts_keep_the_memory(dev: vgc.Device, fake: FakeDevice) -> None:
    part = dev.to_device(CUBE)[1][1:].reshape((4, 2))[2]
    assert part.get().tolist() == CUBE[1][1:].reshape((4, 2))[2].tolist()
    del part
    assert fake.memory == {}


def test_arrays_are_iterated_along_the_first_axis(dev: vgc.Device) -> None:
    assert [row.tolist() for row in dev.to_device(CUBE)] == CUBE.tolist()
    with pytest.raises(TypeError, match="an array without dimensions has no length"):
        list(dev.zeros(()))


def test_parts_are_assigned(dev: vgc.Device) -> None:
    array, numbers = dev.to_device(CUBE), CUBE.copy()
    for to in (array, numbers):
        to[0, 1] = [7, 8, 9, 10]
        to[1, 0, 1:3] = 5
        to[1, 2] = to[0, 0]
        to[0:1] = np.ones((1, 3, 4), np.float32)
    assert np.array_equal(array.get(), numbers)
    with pytest.raises(
        ValueError, match=r"an array of float64 with shape \(4,\); on the device it is float64 with shape \(3, 4"
    ):
        array[0] = array[0, 1]
    with pytest.raises(ValueError, match=r"values of shape \(2,\) for every element; allowed: one number"):
        array.fill([1, 2])


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (2, IndexError, "index 2 of axis 0, which has 2 elements; allowed: -2 to 1"),
        ((0, -4), IndexError, "index -4 of axis 1, which has 3 elements; allowed: -3 to 2"),
        ((0, 0, 0, 0), IndexError, r"4 indices for an array of shape \(2, 3, 4\); allowed: up to 3"),
        (slice(None, None, 2), TypeError, "a slice in steps of 2; allowed: whole numbers for the first axes, and one"),
        ((slice(None), 0), TypeError, "does not lie in one piece; allowed: whole numbers for the first axes"),
        ((..., 0), TypeError, "does not lie in one piece"),
        ((slice(0, 2), slice(0, 2)), TypeError, "does not lie in one piece"),
        ((..., ...), TypeError, "an index with 2 ellipses; allowed: one"),
        (None, TypeError, "a NoneType as index of a device array; allowed: whole numbers"),
        (True, TypeError, "a bool as index"),
        (1.0, TypeError, "a float as index"),
        ([0, 1], TypeError, "a list as index"),
        ("x", TypeError, r"a str as index .* get\(\) gives a numpy array"),
    ],
)
def test_refused_parts(dev: vgc.Device, index: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dev.to_device(CUBE)[index]


def test_transposed_arrays_are_refused(dev: vgc.Device) -> None:
    vector: Any = dev.to_device(NUMBERS)
    assert vector.T is vector
    assert np.transpose(vector) is vector
    for transposed in (lambda a: a.T, np.transpose, lambda a: np.transpose(a, (1, 0, 2))):
        with pytest.raises(
            TypeError, match=r"transposed: .* allowed: transpose_a and transpose_b of Device\.blas\.gemm"
        ):
            transposed(dev.to_device(CUBE))
