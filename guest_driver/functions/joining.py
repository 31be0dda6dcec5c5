"""Joins arrays on the device, by copies there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import Array, axis_of
from guest_driver.functions.elementwise import Elementwise
from guest_driver.functions.host import Host
from guest_driver.memory import DeviceArray


def concatenate(host: Host, arrays: Sequence[Any], axis: int | None = 0) -> DeviceArray:
    """Array of arrays behind one another along the first axis, as ``numpy.concatenate``, on the device.

    :raise errors.InvalidArgument: it is another axis, or the other lengths differ.
    """
    found = [array.reshape(-1) if axis is None else array for array in Elementwise(host).common(*arrays)]
    for array in found:
        if axis_of(array, 0 if axis is None else axis) != 0:
            raise InvalidArgument(f"axis {axis} of shape {array.shape}; allowed: the first axis, or None")
        if array.shape[1:] != found[0].shape[1:]:
            shapes = " and ".join(str(one.shape) for one in (found[0], array))
            raise InvalidArgument(f"arrays of shapes {shapes}; allowed: equal lengths but for the first axis")
    return _joined(host, found)


def stack(host: Host, arrays: Sequence[Any], axis: int = 0) -> DeviceArray:
    """Array of arrays of one shape, along a new first axis, as ``numpy.stack``, on the device.

    :raise errors.InvalidArgument: it is another axis, or the shapes differ.
    """
    if axis != 0:
        raise InvalidArgument(f"axis {axis}; allowed: 0, the first axis of the result")
    found = Elementwise(host).common(*arrays)
    for array in found:
        if array.shape != found[0].shape:
            raise InvalidArgument(f"arrays of shapes {found[0].shape} and {array.shape}; allowed: one shape for all")
    return _joined(host, [array.reshape((1, *array.shape)) for array in found])


def _joined(host: Host, arrays: Sequence[Array]) -> DeviceArray:
    rows = sum(array.shape[0] for array in arrays)
    result = host.empty((rows, *arrays[0].shape[1:]), arrays[0].dtype)
    first = 0
    for array in arrays:
        result[first : first + array.shape[0]] = array
        first += array.shape[0]
    return result
