"""Arrays on the device that share the memory of others."""

from __future__ import annotations

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
