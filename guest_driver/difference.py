"""Where two arrays that should be alike differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

ULP_BITS: Final = {"float32": 32, "float64": 64}
"""Types whose differences are also counted in units in the last place, and their widths."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What two arrays differ in; `values` are those of both at `index`, the first place."""

    count: int
    size: int
    index: tuple[int, ...]
    values: tuple[Any, Any]
    ulps: int | None
    """How many floats of the type lie between the two; None for other types and NaN."""

    def __str__(self) -> str:
        how_far = "" if self.ulps is None else f" ({self.ulps} ULP apart)"
        where = ", ".join(map(str, self.index))
        return f"{self.count} of {self.size} elements differ, first [{where}]: {self.values[0]} and {self.values[1]}{how_far}"


def find(first: NDArray[Any], second: NDArray[Any], *, rtol: float, atol: float) -> Difference | None:
    """The difference of two arrays of one shape and type, or None.

    Floats may be ``atol + rtol * abs(first)`` apart, and NaN equals NaN; all else is compared byte by byte.
    """
    import numpy as np

    if first.shape != second.shape or first.dtype != second.dtype:
        raise ValueError(f"{first.dtype} {first.shape} beside {second.dtype} {second.shape}; allowed: arrays alike")
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
    wide = np.promote_types(first.dtype, np.float64)  # in which tolerances of small types do not vanish
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
    """Neighbouring floats have neighbouring numbers, once negative ones are mirrored."""
    bits = ULP_BITS.get(str(first.dtype))
    if bits is None or math.isnan(first) or math.isnan(second):
        return None

    def number(value: Any) -> int:
        raw = int.from_bytes(value.tobytes(), "little")
        sign = 1 << (bits - 1)
        return sign - raw if raw >= sign else raw

    return abs(number(first) - number(second))
