"""Arguments of kernels: Python values and arrays, packed as the bytes of parameters."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from guest_driver import byte_order
from guest_driver._lib import ffi, lib
from guest_driver.memory import DeviceMemory, buffer_of
from guest_driver.texture import KernelObject

POINTER_BYTES: Final = 8
_FLOAT_FORMATS: Final = {2: "<e", 4: "<f", 8: "<d"}


@dataclass(frozen=True, slots=True, eq=False)
class In:
    """Argument of `Device.call`: a buffer that the kernel reads."""

    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class Out:
    """Argument of `Device.call`: a writable buffer for the kernel's output; it sees zeros at first."""

    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class InOut:
    """Argument of `Device.call`: a writable buffer that the kernel reads and writes."""

    data: Any


# ---- parameters ----------------------------------------------------------------------------------


class ParamKind(IntEnum):
    """Type of a parameter, if the device can tell."""

    UNKNOWN = 0
    INTEGER = 1
    FLOAT = 2
    POINTER = 3
    OTHER = 4
    """Neither a number nor a pointer: a struct, for example."""


@dataclass(frozen=True, slots=True)
class Param:
    """Parameter of a kernel: its offset in the parameter block, its size in bytes, and its type."""

    offset: int
    size: int
    kind: ParamKind = ParamKind.UNKNOWN

    def __str__(self) -> str:
        match self.kind:
            case ParamKind.INTEGER:
                return f"an integer of {self.size} bytes"
            case ParamKind.FLOAT:
                return f"a float of {self.size} bytes"
            case ParamKind.POINTER:
                return "a pointer"
            case ParamKind.OTHER:
                return f"{self.size} bytes that are neither a number nor a pointer"
            case ParamKind.UNKNOWN:
                return f"{self.size} bytes"

    def allowed(self) -> str:
        """Types of Python values that fit the parameter, for error messages."""
        bits = 8 * self.size
        match self.kind:
            case ParamKind.INTEGER:
                return f"int, bool, numpy.int{bits}, numpy.uint{bits}, bytes"
            case ParamKind.FLOAT:
                return f"float, int, numpy.float{bits}, bytes"
            case ParamKind.POINTER:
                return "device arrays, int, numpy.uint64, bytes"
            case ParamKind.OTHER:
                return "numpy scalars and bytes of that size"
            case ParamKind.UNKNOWN:
                return "device arrays, numpy scalars, int, float, bool, bytes"


_UNKNOWN: Final = ParamKind.UNKNOWN
_INTEGER: Final = ParamKind.INTEGER
_FLOAT: Final = ParamKind.FLOAT
_POINTER: Final = ParamKind.POINTER
_OTHER: Final = ParamKind.OTHER


# ---- values --------------------------------------------------------------------------------------


def _name(value: Any) -> str:
    """Describes a refused value, for error messages."""
    if isinstance(value, DeviceMemory):
        return "device memory"
    if isinstance(value, In | Out | InOut):
        return "a buffer"
    if hasattr(value, "dtype"):
        return str(value.dtype)
    return f"the {type(value).__name__} {value}" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _refusal(value: Any, param: Param) -> TypeError:
    what = "" if param.kind is _UNKNOWN else f", but the parameter is {param}"
    return TypeError(f"{_name(value)}{what}; allowed: {param.allowed()}")


def _int_bytes(value: int, size: int) -> bytes:
    signed = value < 0
    try:
        return value.to_bytes(size, "little", signed=signed)
    except OverflowError:
        raise TypeError(f"{value} does not fit {size} bytes") from None


def _float_bytes(value: float, size: int) -> bytes:
    if size not in _FLOAT_FORMATS:
        raise TypeError(f"{value} as a parameter of {size} bytes; floats have 2, 4 or 8")
    try:
        return struct.pack(_FLOAT_FORMATS[size], float(value))
    except OverflowError:
        raise TypeError(f"{value} does not fit a float of {size} bytes") from None


def _object_bytes(value: KernelObject, param: Param) -> bytes:
    if not value.is_alive:
        raise ValueError("this texture or surface was freed")
    if param.kind not in (ParamKind.INTEGER, ParamKind.UNKNOWN):
        raise _refusal(value, param)
    return value.number.to_bytes(POINTER_BYTES, "little")


def _memory_bytes(value: DeviceMemory, param: Param) -> bytes:
    if param.kind is not _POINTER and param.kind is not _UNKNOWN:
        raise _refusal(value, param)
    if value.address == 0:
        raise TypeError("device memory that was freed")
    return value.address.to_bytes(POINTER_BYTES, "little")


_DTYPE_KINDS: Final = {_INTEGER: "iub", _FLOAT: "f", _POINTER: "iu"}
"""numpy's dtype kinds that each kind of parameter takes; kinds not listed take all."""


def _scalar_bytes(value: Any, param: Param) -> bytes:
    """Bytes of a scalar of numpy, or of a similar library."""
    if getattr(value, "ndim", None) != 0:
        raise TypeError("an array in the guest's memory: put it on the device with to_device, or use Device.call")
    letter = value.dtype.kind
    if letter not in _DTYPE_KINDS.get(param.kind, letter):
        raise _refusal(value, param)
    return byte_order.scalar_bytes(value)


def pack(value: Any, param: Param) -> bytes:
    """Packs `value` as the bytes of a parameter.

    A Python int or float takes the parameter's size, and an int for a float parameter becomes a float. For a parameter
    of unknown kind only the size is checked: an int stays an int, even if the kernel expects a float.

    :raise TypeError: the value does not fit; the text says what is allowed.
    """
    kind = param.kind
    if isinstance(value, DeviceMemory):
        data = _memory_bytes(value, param)
    elif isinstance(value, KernelObject):
        data = _object_bytes(value, param)
    elif isinstance(value, int) and kind is not _OTHER:
        data = _float_bytes(value, param.size) if kind is _FLOAT else _int_bytes(int(value), param.size)
    elif type(value) is float and (kind is _FLOAT or kind is _UNKNOWN):
        data = _float_bytes(value, param.size)
    elif hasattr(value, "dtype"):  # a numpy.float64 is also a float, but of fixed size
        data = _scalar_bytes(value, param)
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, In | Out | InOut):
        raise TypeError("In, Out and InOut are for Device.call: put the array on the device with to_device")
    else:
        raise _refusal(value, param)
    if len(data) != param.size:
        found = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"{found} has {len(data)} bytes, the parameter has {param.size}")
    return data


def check_buffer(value: In | Out | InOut, param: Param) -> None:
    """Checks that a buffer may be passed for this parameter, which must be a pointer.

    :raise TypeError: the text says what is allowed.
    """
    if param.kind is not _POINTER and param.kind is not _UNKNOWN:
        raise _refusal(value, param)
    if param.size != POINTER_BYTES:
        raise TypeError(f"a buffer, but the parameter has {param.size} bytes and is no pointer")


def pack_all(function: str, params: Sequence[Param], param_bytes: int, values: tuple[Any, ...]) -> bytes:
    """Packs all arguments into the function's parameter block.

    :raise TypeError: a wrong number of arguments, or one that does not fit.
    """
    if len(values) != len(params):
        raise TypeError(f"{function} takes {len(params)} arguments, not {len(values)}")
    block = bytearray(param_bytes)
    for index, (value, param) in enumerate(zip(values, params, strict=True)):
        try:
            block[param.offset : param.offset + param.size] = pack(value, param)
        except TypeError as error:
            raise TypeError(f"argument {index} of {function}: {error}") from None
    return bytes(block)


# ---- calls ---------------------------------------------------------------------------------------


def direction(value: In | Out | InOut) -> int:
    """Number of a buffer's direction in vgc.h."""
    return int({In: lib.VGC_ARG_IN, Out: lib.VGC_ARG_OUT, InOut: lib.VGC_ARG_INOUT}[type(value)])


def fill_buffer(arg: Any, value: In | Out | InOut) -> Any:
    """Describes a buffer in a ``struct vgc_arg``. Returns the memory, which must live as long as the struct.

    :raise TypeError: it is no buffer that can be passed.
    """
    data = value.data
    if byte_order.is_swapped(getattr(data, "dtype", None)):
        if not isinstance(value, In):
            raise TypeError(
                f"an array of {data.dtype} for output; kernels write little-endian numbers: allowed is dtype.newbyteorder('<')"
            )
        data = data.astype(byte_order.on_device(data.dtype))
    memory = buffer_of(data, writable=not isinstance(value, In))
    arg.direction, arg.size, arg.data = direction(value), len(memory), ffi.cast("void *", memory)
    return memory


def fill_value(arg: Any, data: bytes) -> Any:
    """Describes bytes that are passed by value. Returns their memory."""
    memory = ffi.new("char[]", data)
    arg.direction, arg.size, arg.data = lib.VGC_ARG_VALUE, len(data), ffi.cast("void *", memory)
    return memory


def pack_call(function: str, params: Sequence[Param], values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Packs the arguments of a CALL. Returns ``struct vgc_arg[]`` and the memory that must live as long.

    :raise TypeError: a wrong number of arguments, or one that does not fit its parameter.
    """
    if len(values) != len(params):
        raise TypeError(f"{function} takes {len(params)} arguments, not {len(values)}")
    packed = ffi.new("struct vgc_arg[]", len(values))
    keep: list[Any] = []
    for index, (value, param) in enumerate(zip(values, params, strict=True)):
        try:
            if isinstance(value, In | Out | InOut):
                check_buffer(value, param)
                keep.append(fill_buffer(packed[index], value))
            else:
                keep.append(fill_value(packed[index], pack(value, param)))
        except TypeError as error:
            raise TypeError(f"argument {index} of {function}: {error}") from None
    return packed, keep
