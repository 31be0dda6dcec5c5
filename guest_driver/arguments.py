"""What kernels get: Python values and arrays as the bytes of a parameter."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from guest_driver.memory import DeviceMemory

POINTER_BYTES: Final = 8
_FLOAT_FORMATS: Final = {2: "<e", 4: "<f", 8: "<d"}


@dataclass(frozen=True, slots=True, eq=False)
class In:
    """For `Device.call`: a buffer that the kernel reads."""

    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class Out:
    """For `Device.call`: a writable buffer that is filled with what the kernel wrote; it sees zeros at first."""

    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class InOut:
    """For `Device.call`: a writable buffer that the kernel reads and writes."""

    data: Any


def _int_bytes(value: int, size: int) -> bytes:
    signed = value < 0
    try:
        return value.to_bytes(size, "little", signed=signed)
    except OverflowError:
        raise TypeError(f"{value} does not fit {size} bytes") from None


def _float_bytes(value: float, size: int) -> bytes:
    if size not in _FLOAT_FORMATS:
        raise TypeError(f"{value} as a parameter of {size} bytes; floats have 2, 4 or 8")
    return struct.pack(_FLOAT_FORMATS[size], value)


def pack(value: Any, size: int) -> bytes:
    """`value` as `size` bytes.

    A Python int or float takes the parameter's size, since the compiled function tells sizes and not types: an int
    for a float parameter is not noticed, a numpy scalar of the wrong size is.

    :raise TypeError: it does not fit; the text says what would.
    """
    if isinstance(value, DeviceMemory):
        if value.address == 0:
            raise TypeError("device memory that was freed")
        data = value.address.to_bytes(POINTER_BYTES, "little")
    elif isinstance(value, bool | int):
        data = _int_bytes(int(value), size)
    elif type(value) is float:  # a numpy.float64 is a float too, and has a size of its own
        data = _float_bytes(value, size)
    elif isinstance(value, bytes):
        data = value
    elif hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        data = value.tobytes()
    elif hasattr(value, "__array_interface__"):
        raise TypeError("an array in the guest's memory: put it on the device with to_device, or use Device.call")
    else:
        raise TypeError(f"a {type(value).__name__}; allowed: device arrays, numpy scalars, int, float, bool, bytes")
    if len(data) != size:
        kind = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"{kind} has {len(data)} bytes, the parameter has {size}")
    return data


def pack_all(function: str, params: list[tuple[int, int]], param_bytes: int, values: tuple[Any, ...]) -> bytes:
    """All arguments as the function's parameter block; `params` are (offset, size).

    :raise TypeError: a wrong number of arguments, or one that does not fit.
    """
    if len(values) != len(params):
        raise TypeError(f"{function} takes {len(params)} arguments, not {len(values)}")
    block = bytearray(param_bytes)
    for index, (value, (offset, size)) in enumerate(zip(values, params, strict=True)):
        try:
            block[offset : offset + size] = pack(value, size)
        except TypeError as error:
            raise TypeError(f"argument {index} of {function}: {error}") from None
    return bytes(block)
