"""Fourier transforms: `Device.fft`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from guest_driver.arguments import In, InOut, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import Array, Axis, Call, Group, axes_of, axis_of, check_arrays
from guest_driver.memory import DeviceArray, numbers_of

if TYPE_CHECKING:
    from guest_driver.stream import Stream

MOST_AXES: Final = 3
LONGEST: Final = 1 << 22
COMPLEX: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}
REAL: Final[dict[np.dtype[Any], np.dtype[Any]]] = {half: whole for whole, half in COMPLEX.items()}
NORMS: Final = ("backward", "ortho", "forward")


class Fourier(Group):
    """Fourier transforms with the meaning of numpy.fft, of 1 to 3 axes, which are the last ones in order.

    Arrays keep their precision: float32 and complex64, or float64 and complex128. Elements of other types are converted
    in numpy arrays, and refused on the device. `n` and `s` are the lengths that there are: arrays are not padded or cut.
    Only the last axis of real results may have a length of its own, 2 * (m - 1) by default, or one more. `norm` is
    backward, ortho or forward. Methods raise `errors.InvalidArgument` for other axes and lengths.
    """

    def fft(
        self, a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform along one axis."""
        return self._complex(a, _one(n), (axis,), norm, inverse=False, stream=stream)

    def ifft(
        self, a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse transform along one axis."""
        return self._complex(a, _one(n), (axis,), norm, inverse=True, stream=stream)

    def fft2(
        self, a: Array, s: Axis = None, axes: Axis = (-2, -1), norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform of two axes."""
        return self._complex(a, s, axes, norm, inverse=False, stream=stream)

    def ifft2(
        self, a: Array, s: Axis = None, axes: Axis = (-2, -1), norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse transform of two axes."""
        return self._complex(a, s, axes, norm, inverse=True, stream=stream)

    def fftn(
        self, a: Array, s: Axis = None, axes: Axis = None, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform of several axes, by default all."""
        return self._complex(a, s, axes, norm, inverse=False, stream=stream)

    def ifftn(
        self, a: Array, s: Axis = None, axes: Axis = None, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse transform of several axes, by default all."""
        return self._complex(a, s, axes, norm, inverse=True, stream=stream)

    def rfft(
        self, a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform of real numbers along one axis, without the half that follows from symmetry."""
        return self._from_real(a, _one(n), (axis,), norm, stream)

    def rfft2(
        self, a: Array, s: Axis = None, axes: Axis = (-2, -1), norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform of real numbers, of two axes."""
        return self._from_real(a, s, axes, norm, stream)

    def rfftn(
        self, a: Array, s: Axis = None, axes: Axis = None, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Transform of real numbers, of several axes, by default all."""
        return self._from_real(a, s, axes, norm, stream)

    def irfft(
        self, a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse of `rfft`; `n` is the length of the result."""
        return self._to_real(a, _one(n), (axis,), norm, stream)

    def irfft2(
        self, a: Array, s: Axis = None, axes: Axis = (-2, -1), norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse of `rfft2`; `s` are the lengths of the result."""
        return self._to_real(a, s, axes, norm, stream)

    def irfftn(
        self, a: Array, s: Axis = None, axes: Axis = None, norm: str | None = None, *, stream: Stream | None = None
    ) -> Any:
        """Inverse of `rfftn`; `s` are the lengths of the result."""
        return self._to_real(a, s, axes, norm, stream)

    # ---- the three functions ---------------------------------------------------------------------

    def _complex(self, a: Array, s: Axis, axes: Axis, norm: str | None, *, inverse: bool, stream: Stream | None) -> Any:
        array = _converted(a, is_complex=True)
        lengths = _lengths(array, s, axes)
        _check_lengths(lengths, array.shape[-len(lengths) :])
        return self._run("c2c", array, lengths, (array.shape, array.dtype), norm, inverse=inverse, stream=stream)

    def _from_real(self, a: Array, s: Axis, axes: Axis, norm: str | None, stream: Stream | None) -> Any:
        array = _converted(a, is_complex=False)
        lengths = _lengths(array, s, axes)
        _check_lengths(lengths, array.shape[-len(lengths) :])
        shape = (*array.shape[:-1], array.shape[-1] // 2 + 1)
        return self._run("r2c", array, lengths, (shape, COMPLEX[array.dtype]), norm, inverse=False, stream=stream)

    def _to_real(self, a: Array, s: Axis, axes: Axis, norm: str | None, stream: Stream | None) -> Any:
        array = _converted(a, is_complex=True)
        lengths = _lengths(array, s, axes)
        if s is None:
            lengths = (*lengths[:-1], 2 * (lengths[-1] - 1))
        _check_lengths((*lengths[:-1], lengths[-1] // 2 + 1), array.shape[-len(lengths) :])
        shape = (*array.shape[: -len(lengths)], *lengths)
        return self._run("c2r", array, lengths, (shape, REAL[array.dtype]), norm, inverse=True, stream=stream)

    def _run(
        self,
        function: str,
        array: Array,
        lengths: tuple[int, ...],
        out_like: tuple[tuple[int, ...], np.dtype[Any]],
        norm: str | None,
        *,
        inverse: bool,
        stream: Stream | None,
    ) -> Any:
        shape, dtype = out_like
        factor = _factor(norm, math.prod(lengths), inverse)
        for length in lengths:
            if not 1 <= length <= LONGEST:
                raise InvalidArgument(f"an axis of length {length}; allowed: 1 to {LONGEST}")
        suffix = "f32" if np.dtype(np.complex64) in (array.dtype, dtype) else "f64"
        call = Call(self._host, (array,), stream)
        out = call.empty(shape, dtype)
        batch = math.prod(shape[: -len(lengths)])
        axes = (*lengths, 1, 1)[:MOST_AXES]
        flag = int(inverse and function == "c2c")
        call.run(f"fft.{function}_{suffix}", In(array), Out(out), batch, *axes, len(lengths), flag)
        return out if factor == 1 else self._scaled(out, factor, suffix, stream)

    def _scaled(self, array: Array, factor: float, suffix: str, stream: Stream | None) -> Any:
        """Array times a number. On the device that is a sum with zeros."""
        if not isinstance(array, DeviceArray):
            array *= array.dtype.type(factor)
            return array
        out = self._host.empty(array.shape, array.dtype)
        out.fill_bytes(bytes(4), stream)
        count = array.size * (2 if array.dtype in REAL else 1)
        values = (count, factor, In(array), 1, InOut(out), 1)
        Call(self._host, (array,), stream).run(f"blas.axpy_{suffix}", *values)
        return out


def _one(n: int | None) -> tuple[int] | None:
    return None if n is None else (n,)


def _converted(a: Array, *, is_complex: bool) -> Array:
    """Array with elements of a type that the functions take: a numpy array is converted as numpy.fft does."""
    check_arrays(a=a)
    allowed = REAL if is_complex else COMPLEX
    if a.dtype in allowed:
        return a
    words = " and ".join(map(str, allowed))
    if isinstance(a, DeviceArray):
        hint = "; rfft takes real arrays" if is_complex and a.dtype in COMPLEX else ""
        raise TypeError(f"a has elements of {a.dtype}; allowed on the device: {words}{hint}")
    if a.dtype.kind not in ("fiubc" if is_complex else "fiub") or a.dtype.itemsize > 16:
        raise TypeError(f"a has elements of {a.dtype}; allowed: {words}, and numbers that can be converted")
    single = a.dtype in (np.dtype(np.float16), np.dtype(np.float32))
    real = np.dtype(np.float32 if single else np.float64)
    return a.astype(COMPLEX[real] if is_complex else real)


def _lengths(a: Array, s: Axis, axes: Axis) -> tuple[int, ...]:
    """Lengths of the axes to transform: those that were given, or the array's."""
    given = None if s is None else numbers_of(s)
    dimensions = len(a.shape)
    if axes is None:
        count = dimensions if given is None else len(given)
        numbers = tuple(range(dimensions - count, dimensions))
    else:
        numbers = tuple(axis_of(a, axis) for axis in axes_of(axes))
    rank = len(numbers)
    if not 1 <= rank <= MOST_AXES or numbers != tuple(range(dimensions - rank, dimensions)):
        raise InvalidArgument(f"axes {axes} of shape {a.shape}; allowed: the last one, two or three axes, in order")
    if given is not None and len(given) != rank:
        raise InvalidArgument(f"{len(given)} lengths for {rank} axes; allowed: one for each")
    return given or tuple(a.shape[-rank:])


def _check_lengths(found: tuple[int, ...], allowed: Sequence[int]) -> None:
    if found != tuple(allowed):
        raise InvalidArgument(
            f"lengths that take axes of {found}, and the array has {tuple(allowed)}; allowed: those that it has, as "
            "arrays are not padded or cut"
        )


def _factor(norm: str | None, count: int, inverse: bool) -> float:
    """Factor beside the functions' own, which is 1 / count for inverse ones."""
    if norm is not None and norm not in NORMS:
        raise InvalidArgument(f"norm {norm!r}; allowed: {', '.join(NORMS)}")
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(max(count, 1))
    if norm == "forward":
        return float(count) if inverse else 1 / max(count, 1)
    return 1.0
