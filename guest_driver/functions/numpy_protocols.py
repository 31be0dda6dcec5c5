"""Functions and operators of numpy on device arrays: they become calls of built-in functions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from guest_driver.errors import InvalidArgument
from guest_driver.functions.blas import Blas
from guest_driver.functions.call import FLOATS, TYPES, axis_of, dtypes_of
from guest_driver.functions.counting import Counting
from guest_driver.functions.elementwise import ALLOWED, Elementwise, operand_of
from guest_driver.functions.fft import Fourier
from guest_driver.functions.host import Host
from guest_driver.functions.joining import concatenate, stack
from guest_driver.functions.reductions import Reductions, Scans
from guest_driver.functions.selection import Selection
from guest_driver.functions.sorting import Sorting
from guest_driver.memory import DeviceArray

SWAPPED: Final[dict[np.ufunc, str]] = {np.greater: "less", np.greater_equal: "less_equal"}
FOLDS: Final[dict[np.ufunc, str]] = {np.add: "sum", np.multiply: "prod", np.minimum: "min", np.maximum: "max"}
LOGICAL_FOLDS: Final[dict[np.ufunc, str]] = {np.logical_and: "all", np.logical_or: "any"}
"""Universal functions whose reduction alone is available."""

TRANSFORMS: Final = (
    "fft",
    "ifft",
    "fft2",
    "ifft2",
    "fftn",
    "ifftn",
    "rfft",
    "irfft",
    "rfft2",
    "irfft2",
    "rfftn",
    "irfftn",
)


class NumpyProtocols:
    """Answers to ``__array_ufunc__`` and ``__array_function__``. Keyword arguments are those of the handlers below."""

    def __init__(self, host: Host) -> None:
        self._host = host

    # ---- universal functions ---------------------------------------------------------------------

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Applies a universal function, or one of its methods reduce and accumulate.

        :raise TypeError: the function, or an option, is not available on the device; the text says which are.
        """
        operands = [operand_of(value) for value in inputs]
        if method == "__call__" and options.keys() <= {"out"}:
            (out,) = options.get("out", (None,))
            return self._apply(ufunc, operands, out)
        if method == "reduce" and ufunc in FOLDS | LOGICAL_FOLDS:
            return _with(f"numpy.{ufunc.__name__}.reduce", self._fold(Reductions, ufunc), operands, options)
        if method == "accumulate" and ufunc in FOLDS:
            return _with(f"numpy.{ufunc.__name__}.accumulate", self._fold(Scans, ufunc), operands, options)
        names = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        return self._refuse(f"{names}({', '.join(options)})" if options else names)

    def _apply(self, ufunc: np.ufunc, operands: Sequence[Any], out: Any) -> Any:
        if ufunc is np.matmul and out is None:
            return self._matmul("numpy.matmul", *operands)
        if ufunc is np.positive and out is None:
            return operands[0].copy()
        if ufunc is np.power and _is_square(*operands):
            ufunc, operands = np.square, operands[:1]
        name = SWAPPED.get(ufunc, ufunc.__name__)
        if name not in ALLOWED or (out is not None and not isinstance(out, DeviceArray)):
            return self._refuse(f"numpy.{ufunc.__name__}" + ("" if out is None else "(out)"))
        ordered = operands[::-1] if ufunc in SWAPPED else operands
        return Elementwise(self._host).apply(name, *ordered, out=out)

    def _fold(self, group: type[Reductions | Scans], ufunc: np.ufunc) -> Callable[..., Any]:
        fold = getattr(group(self._host), (FOLDS | LOGICAL_FOLDS)[ufunc])
        if group is Scans:
            return lambda array, axis=0: fold(array, axis)
        return lambda array, axis=0, keepdims=False: fold(array, axis, keepdims=keepdims)

    # ---- other functions -------------------------------------------------------------------------

    def function(self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Applies a function of numpy.

        :raise TypeError: it, or an option, is not available on the device; the text says which are.
        """
        module = function.__module__.removeprefix("numpy").strip(".")
        name = f"{module}.{function.__name__}" if module in ("fft", "linalg") else function.__name__
        handler = self._handlers().get(name)
        if handler is None:
            self._refuse(f"numpy.{name}")
        return _with(f"numpy.{name}", handler, args, options)

    def _handlers(self) -> dict[str, Callable[..., Any]]:
        """Functions by the names that numpy has for them."""
        reduce, scan = Reductions(self._host), Scans(self._host)
        sort, count, select = Sorting(self._host), Counting(self._host), Selection(self._host)
        return {
            **{name: getattr(reduce, name) for name in ("sum", "prod", "min", "max", "argmin", "argmax")},
            **{name: getattr(reduce, name) for name in ("any", "all", "count_nonzero")},
            **{name: getattr(Elementwise(self._host), name) for name in ("real", "imag", "angle")},
            "where": self._where,
            "nonzero": self._nonzero,
            "flatnonzero": select.nonzero,
            "take": self._take,
            "extract": lambda condition, arr: select.take(arr.reshape(-1), select.nonzero(condition)),
            **{old: getattr(reduce, new) for old, new in (("amin", "min"), ("amax", "max"))},
            **{f"fft.{name}": getattr(Fourier(self._host), name) for name in TRANSFORMS},
            "cumsum": lambda a, axis=None: scan.sum(a, axis),
            "cumprod": lambda a, axis=None: scan.prod(a, axis),
            "sort": lambda a, axis=-1, kind=None: sort.sort(a, axis),  # noqa: ARG005  all kinds give the same
            "argsort": lambda a, axis=-1, kind=None: sort.argsort(a, axis),  # noqa: ARG005
            "unique": sort.unique,
            "histogram": count.histogram,
            "bincount": lambda x, minlength=0: count.bincount(x, minlength),
            "mean": self._mean,
            "var": self._var,
            "std": self._std,
            "dot": self._dot,
            "outer": self._outer,
            "linalg.norm": self._norm,
            "copy": lambda a: a.copy(),
            "concatenate": partial(concatenate, self._host),
            "stack": partial(stack, self._host),
            "transpose": lambda a, axes=None: a.T,  # noqa: ARG005  arrays of several axes are refused
            "empty_like": self._empty_like,
            "zeros_like": lambda a, dtype=None, shape=None: self._full_like(a, 0, dtype, shape),
            "ones_like": lambda a, dtype=None, shape=None: self._full_like(a, 1, dtype, shape),
            "full_like": self._full_like,
            "reshape": lambda a, shape: a.reshape(shape),
            "ravel": lambda a: a.reshape(-1),
            "shape": lambda a: a.shape,
            "ndim": lambda a: a.ndim,
            "size": lambda a: a.size,
        }

    def _refuse(self, what: str) -> NoReturn:
        known = sorted({"matmul", *(ufunc.__name__ for ufunc in SWAPPED), *ALLOWED, *self._handlers()})
        close = [f"numpy.{name}" for name in difflib.get_close_matches(what.removeprefix("numpy."), known, cutoff=0.75)]
        hint = f" (close: {', '.join(close)})" if close else ""
        raise TypeError(
            f"{what} is not available for device arrays{hint}; docs/guest.md lists functions that are, and .get() gives a "
            "numpy array"
        )

    def _matmul(self, name: str, a: Any, b: Any) -> Any:
        arrays = Elementwise(self._host).common(a, b)
        if TYPES.get(arrays[0].dtype) not in FLOATS:
            raise TypeError(f"{name} of {arrays[0].dtype}; allowed: {dtypes_of(FLOATS)}, see DeviceArray.astype")
        return Blas(self._host).matmul(*arrays)

    def _dot(self, a: Any, b: Any) -> Any:
        arrays = Elementwise(self._host).common(a, b)
        if not all(array.shape for array in arrays):
            return Elementwise(self._host).multiply(*arrays)
        if max(len(array.shape) for array in arrays) > 2 and len(arrays[1].shape) > 1:
            shapes = " and ".join(str(array.shape) for array in arrays)
            raise TypeError(f"shapes {shapes}; allowed: vectors and matrices, see numpy.matmul")
        return self._matmul("products", *arrays)

    def _outer(self, a: Any, b: Any) -> Any:
        left, right = Elementwise(self._host).common(a, b)
        return Elementwise(self._host).multiply(left.reshape((-1, 1)), right.reshape((1, -1)))

    def _mean(self, a: DeviceArray, axis: Any = None, keepdims: bool = False) -> Any:
        total = Reductions(self._host).sum(a, axis, keepdims=keepdims)
        return Elementwise(self._host).divide(total, a.size // max(total.size, 1))

    def _var(self, a: DeviceArray, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        math = Elementwise(self._host)
        squares = math.square(math.subtract(a, self._mean(a, axis, keepdims=True)))
        total = Reductions(self._host).sum(squares, axis, keepdims=keepdims)
        return math.divide(total, max(a.size // max(total.size, 1) - ddof, 0))

    def _std(self, a: DeviceArray, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return Elementwise(self._host).sqrt(self._var(a, axis, ddof, keepdims))

    def _norm(self, x: DeviceArray) -> Any:
        floats = x if x.dtype.kind == "f" else Elementwise(self._host).convert(x, np.float64)
        return Blas(self._host).nrm2(floats)

    def _where(self, condition: Any, *choices: Any) -> Any:
        if not choices:
            return self._nonzero(condition)
        return Elementwise(self._host).where(condition, *choices)

    def _nonzero(self, a: DeviceArray) -> tuple[Any, ...]:
        """Positions along each axis."""
        math, places = Elementwise(self._host), Selection(self._host).nonzero(a)
        found: list[Any] = []
        for length in reversed(a.shape[1:]):
            found.insert(0, math.remainder(places, length))
            places = math.floor_divide(places, length)
        return (places, *found)

    def _take(self, a: Any, indices: Any, axis: int | None = None) -> Any:
        array = a.reshape(-1) if axis is None else a
        if axis is not None and axis_of(array, axis) != 0:
            raise InvalidArgument(f"axis {axis} of shape {array.shape}; allowed: the first axis, or None")
        places = indices if isinstance(indices, DeviceArray) else np.asarray(indices)
        return Selection(self._host).take(array, places)

    def _empty_like(self, prototype: DeviceArray, dtype: Any = None, shape: Any = None) -> DeviceArray:
        lengths = prototype.shape if shape is None else shape
        return self._host.empty(lengths, prototype.dtype if dtype is None else dtype)

    def _full_like(self, a: DeviceArray, fill_value: Any, dtype: Any = None, shape: Any = None) -> DeviceArray:
        array = self._empty_like(a, dtype, shape)
        array.fill(fill_value)
        return array


def _is_square(base: Any, exponent: Any) -> bool:
    """Whether a power is the square in the base's own type."""
    is_float = isinstance(base, DeviceArray) and base.dtype.kind in "fc"
    return isinstance(base, DeviceArray) and type(exponent) in ((int, float) if is_float else (int,)) and exponent == 2


def _with(name: str, handler: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Calls a handler. No output and no type are options that are not given."""
    given = {key: value for key, value in options.items() if value is not None or key not in ("out", "dtype")}
    try:
        bound = inspect.signature(handler).bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{name} of device arrays: {error}; see DeviceArray.get for a numpy array") from None
    try:
        return handler(*bound.args, **bound.kwargs)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
