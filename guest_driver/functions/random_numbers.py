"""Random numbers: `Device.random`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guest_driver.arguments import Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import REALS, TYPES, Array, Call, Changed, Group, check_arrays, check_shape, dtypes_of
from guest_driver.memory import numbers_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.stream import Stream

Shape: TypeAlias = int | Sequence[int]


class RandomNumbers(Group):
    """Numbers of Philox 4x32-10: element i depends on seed and offset + i alone.

    Results are new device arrays, or `out`, a device array or numpy array of this shape and type.

    :param seed: key of the generator, -2**63 to 2**64 - 1. :param offset: place of the first element in its sequence.
    """

    def bits(
        self, shape: Shape, *, seed: int, offset: int = 0, out: Changed | None = None, stream: Stream | None = None
    ) -> Any:
        """Random bits, uint32."""
        return self._fill("bits", shape, "uint32", *_place(seed, offset), out=out, stream=stream)

    def uniform(
        self,
        shape: Shape,
        dtype: DTypeLike = "float32",
        *,
        seed: int,
        offset: int = 0,
        out: Changed | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Numbers from 0 to less than 1, float32 or float64."""
        return self._fill("uniform", shape, dtype, *_place(seed, offset), out=out, stream=stream)

    def normal(
        self,
        shape: Shape,
        dtype: DTypeLike = "float32",
        *,
        seed: int,
        offset: int = 0,
        mean: float = 0.0,
        deviation: float = 1.0,
        out: Changed | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Normally distributed numbers, float32 or float64.

        :raise errors.InvalidArgument: the deviation is negative, or a number is not finite.
        """
        if not math.isfinite(mean) or not math.isfinite(deviation) or deviation < 0:
            raise InvalidArgument(
                f"mean is {mean:g} and deviation is {deviation:g}; allowed: finite numbers, the latter not negative"
            )
        return self._fill(
            "normal", shape, dtype, *_place(seed, offset), float(mean), float(deviation), out=out, stream=stream
        )

    def _fill(
        self,
        function: str,
        shape: Shape,
        dtype: DTypeLike,
        *values: float,
        out: Array | None,
        stream: Stream | None,
    ) -> Any:
        suffix = _suffix(np.dtype(dtype), ("u32",) if function == "bits" else REALS)
        check_arrays(out=out)
        lengths = numbers_of(shape)
        array = self._host.empty(lengths, dtype) if out is None else out
        check_shape("out", array, lengths)
        if array.dtype != np.dtype(dtype):
            raise TypeError(f"out has elements of {array.dtype}; allowed: {np.dtype(dtype)}")
        Call(self._host, (array,), stream).run(f"random.{function}_{suffix}", Out(array), array.size, *values)
        return array


def _suffix(dtype: np.dtype[Any], allowed: Sequence[str]) -> str:
    suffix = TYPES.get(dtype)
    if suffix is None or suffix not in allowed:
        raise TypeError(f"dtype is {dtype}; allowed: {dtypes_of(allowed)}")
    return suffix


def _place(seed: int, offset: int) -> tuple[int, int]:
    for name, value in (("seed", seed), ("offset", offset)):
        if not isinstance(value, int | np.integer):
            raise TypeError(f"{name} is a {type(value).__name__}; allowed: whole numbers")
        if not -(2**63) <= value < 2**64:
            raise InvalidArgument(f"{name} is {value}; allowed: -2**63 to 2**64 - 1")
    return int(seed), int(offset)
