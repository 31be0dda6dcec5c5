"""Functions of single elements, with broadcasting and numpy's type promotion: `Device.math`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    PARTS,
    REALS,
    TYPES,
    Array,
    Call,
    Changed,
    Group,
    check_shape,
    dtypes_of,
    result_of,
    suffix_of,
)
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.functions.host import Host
    from guest_driver.stream import Stream

Operand: TypeAlias = "Array | complex | np.generic"

ALL: Final = (*FLOATS, *INTEGERS)
ALL_AND_BOOL: Final = (*ALL, "b8")
EVERY: Final = (*ALL_AND_BOOL, *COMPLEX)
COMPARISONS: Final = frozenset(["equal", "not_equal", "less", "less_equal"])
LOGICAL: Final = frozenset(["logical_and", "logical_or", "logical_xor"])
OF_BOOL: Final = {
    "add": "maximum",
    "multiply": "minimum",
    "logical_and": "minimum",
    "logical_or": "maximum",
    "logical_xor": "not_equal",
    "bitwise_and": "minimum",
    "bitwise_or": "maximum",
    "bitwise_xor": "not_equal",
}
"""Functions of the host that give the results of others for truth values."""

ALLOWED: Final[dict[str, Sequence[str]]] = (
    dict.fromkeys(("maximum", "minimum", "less", "less_equal"), ALL_AND_BOOL)
    | dict.fromkeys(("add", "multiply", "equal", "not_equal", *LOGICAL, "logical_not"), EVERY)
    | dict.fromkeys(("subtract", "negative", "absolute", "conjugate"), (*ALL, *COMPLEX))
    | dict.fromkeys(("angle",), COMPLEX)
    | dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "invert"), ("b8",))
    | dict.fromkeys(("square",), (*ALL, *COMPLEX))
    | dict.fromkeys(("sign",), ALL)
    | dict.fromkeys(("divide",), (*FLOATS, *COMPLEX))
    | dict.fromkeys(("power", "sqrt", "reciprocal", "exp", "log", "sin", "cos", "tanh"), FLOATS)
    | dict.fromkeys(("floor", "ceil", "rint", "trunc"), FLOATS)
    | dict.fromkeys(("floor_divide", "remainder"), INTEGERS)
)
"""Functions, and the types that they take."""

FLOAT_RESULTS: Final = frozenset(["divide", "sqrt", "exp", "log", "sin", "cos", "tanh", "rint"])
"""Functions that numpy computes in float64 for integers, and in float16 for bool unless they have two operands."""

MOST_AXES: Final = 4
CONVERSIONS: Final = {dtype: number for number, dtype in enumerate(TYPES) if dtype not in PARTS}
"""Numbers of types for math.convert."""


def _unary(name: str, summary: str) -> Callable[..., Any]:
    def apply(self: Elementwise, a: Operand, *, out: Changed | None = None, stream: Stream | None = None) -> Any:
        return self.apply(name, a, out=out, stream=stream)

    apply.__name__, apply.__doc__ = name, f"{summary}, as ``numpy.{name}``."
    return apply


def _binary(name: str, summary: str) -> Callable[..., Any]:
    def apply(
        self: Elementwise, a: Operand, b: Operand, *, out: Changed | None = None, stream: Stream | None = None
    ) -> Any:
        return self.apply(name, a, b, out=out, stream=stream)

    apply.__name__, apply.__doc__ = name, f"{summary}, as ``numpy.{name}``."
    return apply


class Elementwise(Group):
    """Functions of single elements of floats, complex numbers, integers of 32 and 64 bits, and bool.

    Operands are arrays and numbers; they are broadcast and converted as numpy does. After merging axes that all arrays
    broadcast alike there are at most four. `out` is an array for the result; without a stream, operands may overlap it.
    """

    add = _binary("add", "Sums")
    subtract = _binary("subtract", "Differences")
    multiply = _binary("multiply", "Products")
    divide = _binary("divide", "Quotients")
    floor_divide = _binary("floor_divide", "Quotients of integers, rounded down")
    remainder = _binary("remainder", "Remainders of integers, with the sign of b")
    power = _binary("power", "Powers of floats")
    maximum = _binary("maximum", "Larger elements")
    minimum = _binary("minimum", "Lesser elements")
    equal = _binary("equal", "Whether elements are equal: bool")
    not_equal = _binary("not_equal", "Whether elements differ: bool")
    less = _binary("less", "Whether elements of a are less: bool")
    less_equal = _binary("less_equal", "Whether elements of a are less or equal: bool")
    logical_and = _binary("logical_and", "Whether both elements are true, or not 0: bool")
    logical_or = _binary("logical_or", "Whether an element is true, or not 0: bool")
    logical_xor = _binary("logical_xor", "Whether one element alone is true, or not 0: bool")
    bitwise_and = _binary("bitwise_and", "Whether both elements of bool are true")
    bitwise_or = _binary("bitwise_or", "Whether an element of bool is true")
    bitwise_xor = _binary("bitwise_xor", "Whether one element of bool alone is true")
    logical_not = _unary("logical_not", "Whether elements are false, or 0: bool")
    invert = _unary("invert", "Whether elements of bool are false")
    negative = _unary("negative", "Elements with the other sign")
    absolute = _unary("absolute", "Absolute values")
    conjugate = _unary("conjugate", "Complex conjugates")
    square = _unary("square", "Squares")
    sign = _unary("sign", "Signs: -1, 0 or 1")
    sqrt = _unary("sqrt", "Square roots")
    reciprocal = _unary("reciprocal", "Quotients of 1 and floats")
    exp = _unary("exp", "Exponential function")
    log = _unary("log", "Natural logarithms")
    sin = _unary("sin", "Sines")
    cos = _unary("cos", "Cosines")
    tanh = _unary("tanh", "Hyperbolic tangents")
    floor = _unary("floor", "Next whole numbers below, of floats")
    ceil = _unary("ceil", "Next whole numbers above, of floats")
    rint = _unary("rint", "Nearest whole numbers")
    trunc = _unary("trunc", "Next whole numbers towards 0, of floats")

    def convert(self, a: Array, dtype: DTypeLike, *, stream: Stream | None = None) -> Any:
        """Elements of another type, as ``a.astype(dtype)``; out of range, floats become the nearest integer, NaN 0.

        All but 0 become true. Complex numbers lose their imaginary parts where the type has none.

        :raise TypeError: a type is not among those of functions.
        """
        wanted = np.dtype(dtype)
        if a.dtype in PARTS and wanted == BOOL:
            return self._compute("not_equal", [a, np.zeros((), a.dtype)], a.dtype, None, stream)
        call = Call(self._host, (a,), stream)
        out = call.empty(a.shape, dtype)
        self._convert(call, a, out)
        return result_of(out)

    def join(self, real: Array, imag: Array, *, stream: Stream | None = None) -> Any:
        """Complex numbers of real parts and imaginary parts, which are broadcast, of float32 or float64.

        :raise TypeError: the types differ, or are other ones. :raise errors.InvalidArgument: they cannot be broadcast.
        """
        suffix_of(REALS, real=real, imag=imag)
        dtype = next(whole for whole, part in PARTS.items() if part == real.dtype)
        return self._run(f"math.join_{TYPES[dtype]}", [real, imag], dtype, None, stream)

    def real(self, a: Array, *, stream: Stream | None = None) -> Any:
        """Real parts, as ``numpy.real``; a copy on the device. Arrays of other types are returned as they are."""
        return self._part(a, 0, stream) if a.dtype in PARTS else a

    def imag(self, a: Array, *, stream: Stream | None = None) -> Any:
        """Imaginary parts, as ``numpy.imag``; a copy on the device. Those of other types are 0."""
        if a.dtype in PARTS:
            return self._part(a, 1, stream)
        zeros = Call(self._host, (a,), stream).empty(a.shape, a.dtype)
        zeros.fill(0)
        return zeros

    def angle(self, a: Array, deg: bool = False, *, stream: Stream | None = None) -> Any:
        """Angles of complex numbers to the positive real axis, as ``numpy.angle``: radians, or degrees."""
        radians = self.apply("angle", a, stream=stream)
        return self.apply("multiply", radians, 180 / math.pi, stream=stream) if deg else radians

    def _part(self, a: Array, index: int, stream: Stream | None) -> Any:
        call = Call(self._host, (a,), stream)
        out = call.empty(a.shape, PARTS[a.dtype])
        self._convert_strided(call, parts_of(a).reshape(-1)[index:], 2, out)
        return result_of(out)

    def common(self, *operands: Operand, dtype: np.dtype[Any] | None = None) -> list[Array]:
        """Converts operands to one type, numpy's for them unless it is given; numbers and sequences become arrays."""
        operands = tuple(map(operand_of, operands))
        wanted = _promoted(operands) if dtype is None else dtype
        return [self._as(operand, wanted) for operand in operands]

    def apply(self, name: str, *operands: Operand, out: Changed | None = None, stream: Stream | None = None) -> Any:
        """Applies a function by its name.

        :raise TypeError: the function does not take operands of these types, or `out` cannot hold the result.
        :raise errors.InvalidArgument: the shapes cannot be broadcast, or `out` has a different shape.
        """
        operands = tuple(map(operand_of, operands))
        if name in ("logical_not", "invert"):
            _loop_type(name, operands)
            name, operands = "equal", (*operands, False)
        if name in COMPARISONS:
            operands = _comparable(operands)
        dtype = _loop_type(name, operands)
        return self._compute(name, self.common(*operands, dtype=dtype), dtype, out, stream)

    def _compute(
        self, name: str, arrays: list[Array], dtype: np.dtype[Any], out: Changed | None, stream: Stream | None
    ) -> Any:
        """Applies a function to arrays of one type."""
        result_type = dtype
        if name in COMPARISONS:
            result_type = BOOL
        elif name in ("absolute", "angle"):
            result_type = PARTS.get(dtype, dtype)
        if name == "square" and dtype in PARTS:
            name, arrays = "multiply", arrays * 2
        elif name == "conjugate" and dtype not in PARTS:
            return self._copy(arrays[0], out, stream)
        function = OF_BOOL.get(name, name) if dtype == BOOL else name
        return self._run(f"math.{function}_{TYPES[dtype]}", arrays, result_type, out, stream)

    def _copy(self, array: Array, out: Changed | None, stream: Stream | None) -> Any:
        call = Call(self._host, (array, out), stream)
        room = self._room(call, out, array.shape, array.dtype)
        result = room if out is None else out
        self._convert(call, array, result)
        return result_of(result)

    def where(self, condition: Operand, a: Operand, b: Operand, *, stream: Stream | None = None) -> Any:
        """Elements of a where a condition is true, or not 0, and of b elsewhere, as ``numpy.where``.

        :raise TypeError: the type of a and b is not available. :raise errors.InvalidArgument: shapes cannot be broadcast.
        """
        return self._where(condition, a, b, None, stream)

    def assign(self, out: DeviceArray, value: Operand, mask: Array) -> None:
        """Changes elements of an array where a mask is true to one number, as ``out[mask] = value``.

        :raise TypeError: there are several values. :raise errors.InvalidArgument: the mask has a different shape.
        """
        check_mask(out, mask)
        if np.ndim(value):
            raise TypeError(f"values of shape {np.shape(value)} where a mask is true; allowed: one number")
        number = value if isinstance(value, DeviceArray) else np.asarray(value).astype(out.dtype)
        places = mask.reshape((*mask.shape, *(1,) * (len(out.shape) - len(mask.shape))))
        self._where(places, number, out, out, None)

    def _where(self, condition: Operand, a: Operand, b: Operand, out: DeviceArray | None, stream: Stream | None) -> Any:
        condition, a, b = map(operand_of, (condition, a, b))
        dtype = _promoted((a, b)) if out is None else out.dtype
        if dtype not in TYPES:
            raise TypeError(f"where of elements of {dtype}; allowed: {dtypes_of(EVERY)}")
        flags, arrays = self._as(condition, BOOL), self.common(a, b, dtype=dtype)
        if dtype in PARTS:
            parts = [parts_of(array) for array in arrays]
            to = None if out is None else parts_of(out)
            result = self._run(
                f"math.where_{TYPES[PARTS[dtype]]}",
                [flags.reshape((*flags.shape, 1)), *parts],
                PARTS[dtype],
                to,
                stream,
            )
            return result_of(result.view(dtype).reshape(result.shape[:-1]))
        arrays = [flags, *arrays]
        return self._run(f"math.where_{TYPES[dtype]}", arrays, dtype, out, stream)

    def _run(
        self, function: str, arrays: list[Array], result_type: np.dtype[Any], out: Array | None, stream: Stream | None
    ) -> Any:
        if stream is None:  # otherwise a copy would not wait for the stream's work, and the host refuses the call
            arrays = [array.copy() if _is_overwritten(array, out) else array for array in arrays]
        shape = _broadcast([array.shape for array in arrays])
        call = Call(self._host, (*arrays, out), stream)
        result = self._room(call, out, shape, result_type)
        lengths, strides = _merged(shape, [array.shape for array in arrays])
        values = [value for array, steps in zip(arrays, strides, strict=True) for value in (In(array), *steps)]
        call.run(function, *lengths, *values, Out(result))
        if out is None:
            return result_of(result)
        if out is not result:
            self._convert(call, result, out)
        return out

    @staticmethod
    def _room(call: Call, out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Array for a result: `out`, or a new one if `out` is missing or has a different type."""
        if out is None:
            return call.empty(shape, dtype)
        check_shape("out", out, shape)
        if not np.can_cast(dtype, out.dtype, "same_kind"):
            raise TypeError(f"out has elements of {out.dtype}; allowed: types that {dtype} can be cast to")
        return out if out.dtype == dtype else call.empty(shape, dtype)

    def _as(self, operand: Operand, dtype: np.dtype[Any]) -> Array:
        if isinstance(operand, DeviceArray):
            return operand if operand.dtype == dtype else self.convert(operand, dtype)
        return np.asarray(operand, dtype)

    @classmethod
    def _convert(cls, call: Call, a: Array, out: Array) -> None:
        for array in (a, out):
            if array.dtype not in TYPES:
                raise TypeError(f"elements of {array.dtype} in a conversion; allowed: {dtypes_of(EVERY)}")
        if a.dtype in PARTS and out.dtype in PARTS:
            cls._convert_strided(call, parts_of(a), 1, parts_of(out))
        elif a.dtype in PARTS:
            cls._convert_strided(call, parts_of(a), 2, out)
        elif out.dtype in PARTS:
            real = call.empty(a.shape, PARTS[out.dtype])
            cls._convert_strided(call, a, 1, real)
            values = (1, 1, 1, out.size, In(real), 0, 0, 0, 1, In(np.zeros((), real.dtype)), 0, 0, 0, 0)
            call.run(f"math.join_{TYPES[out.dtype]}", *values, Out(out))
        else:
            cls._convert_strided(call, a, 1, out)

    @staticmethod
    def _convert_strided(call: Call, a: Array, stride: int, out: Array) -> None:
        """Converts every so many elements of `a`, which has at least those."""
        places = (1, 1, 1, out.size, In(a), 0, 0, 0, stride)
        call.run(f"math.convert_{TYPES[a.dtype]}", *places, Out(out), CONVERSIONS[out.dtype])


def parts_of(array: Array) -> Array:
    """Real and imaginary parts of complex numbers, along one more axis; it shares a device array's memory."""
    if isinstance(array, DeviceArray):
        return array.reshape(-1).view(PARTS[array.dtype]).reshape((*array.shape, 2))
    return np.ascontiguousarray(array).reshape(-1).view(PARTS[array.dtype]).reshape((*array.shape, 2))


def check_mask(array: Array, mask: Array) -> None:
    """Checks that a mask chooses parts of an array.

    :raise TypeError: it is no array of bool. :raise errors.InvalidArgument: its shape is not that of the first axes.
    """
    if mask.dtype != BOOL:
        raise TypeError(f"an index of {mask.dtype} with shape {mask.shape}; allowed: bool")
    axes = len(mask.shape)
    if mask.shape != array.shape[:axes]:
        raise InvalidArgument(
            f"a mask of shape {mask.shape} for an array of shape {array.shape}; allowed: that shape, or its first lengths"
        )


def converted(host: Host, array: Array, dtype: np.dtype[Any], stream: Stream | None = None) -> Array:
    """Array with elements of another type: the given one if it has them; numpy arrays are converted in the guest.

    :raise TypeError: a device array's type is not among those of functions.
    """
    if array.dtype == dtype:
        return array
    if not isinstance(array, DeviceArray):
        return array.astype(dtype)
    return Elementwise(host).convert(array, dtype, stream=stream)  # type: ignore[no-any-return]


def operand_of(value: Any) -> Any:
    """Operand that is an array or a number: sequences become numpy arrays."""
    is_ready = isinstance(value, DeviceArray | np.ndarray | np.generic | int | float | complex)
    return value if is_ready else np.asarray(value)


def _is_overwritten(array: Array, out: Array | None) -> bool:
    """Whether writing the result changes elements of an operand before they are read."""
    if not isinstance(array, DeviceArray) or not isinstance(out, DeviceArray) or array.size * out.size == 0:
        return False
    is_same = (array.address, array.shape, array.dtype) == (out.address, out.shape, out.dtype)
    begin, end = out.address, out.address + out.nbytes
    return not is_same and array.address < end and begin < array.address + array.nbytes


def _promoted(operands: Sequence[Operand]) -> np.dtype[Any]:
    """Type that numpy computes in: Python's numbers take that of the arrays."""
    return np.result_type(*(operand.dtype if isinstance(operand, DeviceArray) else operand for operand in operands))


def _loop_type(name: str, operands: Sequence[Operand]) -> np.dtype[Any]:
    """Type that a function converts its operands to."""
    dtype = _promoted(operands)
    if name in FLOAT_RESULTS and dtype == BOOL and len(operands) == 1:
        return np.dtype(np.float16)
    if name in FLOAT_RESULTS and TYPES.get(dtype) in (*INTEGERS, "b8"):
        return np.dtype(np.float64)
    if TYPES.get(dtype) not in ALLOWED[name] or (name in COMPARISONS and _loses_digits(dtype, operands)):
        given = " and ".join(str(getattr(operand, "dtype", type(operand).__name__)) for operand in operands)
        raise TypeError(f"{name} of {given}; allowed: {dtypes_of(ALLOWED[name])}, see DeviceArray.astype")
    return BOOL if name in LOGICAL else dtype


def _comparable(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """Operands of a comparison: ints of Python's that the other's type does not hold become infinite."""
    others = [operand for operand in operands if not isinstance(operand, int)]
    dtype = _promoted(others) if others else np.dtype(np.int64)
    if dtype.kind not in "iu":
        return tuple(operands)
    limits = np.iinfo(dtype)

    def bounded(operand: Any) -> Any:
        if not isinstance(operand, int) or limits.min <= operand <= limits.max:
            return operand
        return math.inf if operand > 0 else -math.inf

    return tuple(map(bounded, operands))


def _loses_digits(dtype: np.dtype[Any], operands: Sequence[Operand]) -> bool:
    """True for int64 and uint64: their common type is float64, in which different numbers would be equal."""
    kinds = {operand.dtype.kind for operand in operands if isinstance(operand, DeviceArray | np.ndarray | np.generic)}
    return dtype.kind == "f" and kinds == {"i", "u"}


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        words = " and ".join(map(str, shapes))
        raise InvalidArgument(f"arrays of shapes {words}; allowed: lengths that are equal, or 1") from None


def _merged(shape: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Lengths of four axes, and strides along them of each array: neighbours that lie behind one another are merged."""
    steps = [_strides(one, len(shape)) for one in shapes]
    axes = [(length, [step[i] for step in steps]) for i, length in enumerate(shape) if length != 1]
    merged: list[tuple[int, list[int]]] = []
    for length, strides in axes:
        if merged and all(outer == length * inner for outer, inner in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * length, strides)
        else:
            merged.append((length, strides))
    if len(merged) > MOST_AXES:
        raise InvalidArgument(f"broadcasting along {len(merged)} axes of shape {shape}; allowed: {MOST_AXES}")
    merged = [(1, [0] * len(shapes))] * (MOST_AXES - len(merged)) + merged
    return [length for length, _ in merged], [[strides[i] for _, strides in merged] for i in range(len(shapes))]


def _strides(shape: tuple[int, ...], dimensions: int) -> list[int]:
    """Elements from one to the next along each axis; 0 where an array has one for all."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.insert(0, step if length != 1 else 0)
        step *= length
    return [0] * (dimensions - len(shape)) + strides
