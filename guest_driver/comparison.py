"""Comparison of the two sides of shadow mode: one action on both devices, and differences between their arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from guest_driver import errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

RTOL: Final = 1e-5
ATOL: Final = 1e-8
ULP_BITS: Final = {"float32": 32, "float64": 64}
"""Types whose differences are also counted in units in the last place, and their widths."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sides:
    """Names of primary and shadow, and the tolerance between their floats."""

    names: tuple[str, str]
    rtol: float = RTOL
    atol: float = ATOL

    def both(self, what: str, primary: Callable[[], _T], shadow: Callable[[], _T]) -> tuple[_T, _T]:
        """Performs an action on both sides; `what` names it in errors.

        :raise errors.ShadowMismatch: one side fails, or both sides fail with different errors.
        :raise Exception: the primary's error, if both fail with the same kind of error.
        """
        (ours, first), (theirs, second) = _outcome(primary), _outcome(shadow)
        if first is None and second is None:
            assert ours is not None
            assert theirs is not None
            return ours[0], theirs[0]
        if first is not None and type(first) is type(second):
            raise first
        lines = [f"{name}: {error or 'no error'}" for name, error in zip(self.names, (first, second), strict=True)]
        raise errors.ShadowMismatch("\n  ".join([f"{what}: not the same on both", *lines])) from (first or second)

    def compare(self, what: str, primary: NDArray[Any], shadow: NDArray[Any]) -> None:
        """Compares the contents of both sides.

        :raise errors.ShadowMismatch: they differ; the text has `what`, the number of differences and the first one.
        """
        found = find(primary, shadow, rtol=self.rtol, atol=self.atol)
        if found is not None:
            raise errors.ShadowMismatch(f"{what} on {' and '.join(self.names)}: {found}")


def _outcome(act: Callable[[], _T]) -> tuple[tuple[_T] | None, Exception | None]:
    try:
        return (act(),), None
    except (errors.VgcError, TypeError, ValueError) as error:
        return None, error


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between two arrays: their number, and `values` of both at `index`, the first one."""

    count: int
    size: int
    index: tuple[int, ...]
    values: tuple[Any, Any]
    ulps: int | None
    """Distance of the two values in units in the last place; None for types other than floats and for NaN."""

    def __str__(self) -> str:
        distance = "" if self.ulps is None else f" ({self.ulps} ULP apart)"
        where = ", ".join(map(str, self.index))
        return f"{self.count} of {self.size} elements differ, first [{where}]: {self.values[0]} and {self.values[1]}{distance}"


def find(first: NDArray[Any], second: NDArray[Any], *, rtol: float, atol: float) -> Difference | None:
    """Compares two arrays of one shape and type; returns None if they are equal.

    Floats may be ``atol + rtol * abs(first)`` apart, and NaN equals NaN; other types are compared byte by byte.
    """
    import numpy as np

    if first.shape != second.shape or first.dtype != second.dtype:
        raise ValueError(
            f"{first.dtype} {first.shape} beside {second.dtype} {second.shape}; allowed: equal type and shape"
        )
    differs = ~_close(first, second, rtol, atol) if first.dtype.kind in "fc" else _bytes_differ(first, second)
    places = np.flatnonzero(differs)
    if len(places) == 0:
        return None
    index = tuple(int(number) for number in np.unravel_index(int(places[0]), first.shape))
    values = (first[index], second[index])
    return Difference(len(places), first.size, index, values, _ulps(*values))


def _close(first: NDArray[Any], second: NDArray[Any], rtol: float, atol: float) -> NDArray[Any]:
    import numpy as np

    close: NDArray[Any]
    if first.dtype.kind == "c":
        close = _close(first.real, second.real, rtol, atol)
        close &= _close(first.imag, second.imag, rtol, atol)
        return close
    wide = np.promote_types(first.dtype, np.float64)  # so that tolerances do not round to zero in small types
    with np.errstate(all="ignore"):
        close = np.isclose(second.astype(wide), first.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    return close


def _bytes_differ(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    def rows(array: NDArray[Any]) -> NDArray[Any]:
        raw = np.frombuffer(array.tobytes(), np.uint8)
        return raw.reshape(array.size, array.dtype.itemsize)

    differing: NDArray[Any] = (rows(first) != rows(second)).any(axis=1)
    return differing


def _ulps(first: Any, second: Any) -> int | None:
    """Distance in units in the last place. The bits of neighbouring floats are neighbouring integers, once those of
    negative floats are mirrored.
    """
    bits = ULP_BITS.get(str(first.dtype))
    if bits is None or math.isnan(first) or math.isnan(second):
        return None

    def number(value: Any) -> int:
        raw = int.from_bytes(value.tobytes(), "little")
        sign = 1 << (bits - 1)
        return sign - raw if raw >= sign else raw

    return abs(number(first) - number(second))
