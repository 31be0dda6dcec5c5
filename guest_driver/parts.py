"""Parts of arrays in C order that lie in one piece, by numpy's indices."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

ALLOWED: Final = (
    "whole numbers for the first axes, and one slice in steps of 1 behind them, or a numpy or device array, a mask or "
    "indices; get() gives a numpy array"
)


def part_of(shape: tuple[int, ...], index: Any) -> tuple[int, tuple[int, ...]]:
    """First element of the part that an index names, and the part's shape. A part without elements begins at 0.

    :raise IndexError: an axis does not have the number, or there are more numbers and slices than axes.
    :raise TypeError: it is a different kind of index, or the part does not lie in one piece.
    """
    indices = _for_all_axes(shape, index if isinstance(index, tuple) else (index,))
    first, lengths, is_split = 0, [], False
    for axis, one in enumerate(indices):
        begin, length = _range(shape[axis], one, axis)
        if is_split and length != shape[axis]:
            raise TypeError(f"a part of an array of shape {shape} that does not lie in one piece; allowed: {ALLOWED}")
        is_split = is_split or length > 1
        first += begin * math.prod(shape[axis + 1 :])
        if isinstance(one, slice):
            lengths.append(length)
    return first if math.prod(lengths) > 0 else 0, tuple(lengths)


def _for_all_axes(shape: tuple[int, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """One index for each axis: whole axes are filled in, for an ellipsis and at the end."""
    places = [place for place, one in enumerate(given) if one is Ellipsis]
    if len(places) > 1:
        raise TypeError(f"an index with {len(places)} ellipses; allowed: one")
    missing = len(shape) - len(given) + len(places)
    if missing < 0:
        raise IndexError(f"{len(given)} indices for an array of shape {shape}; allowed: up to {len(shape)}")
    place = places[0] if places else len(given)
    return (*given[:place], *(slice(None),) * missing, *given[place + 1 :])


def _range(length: int, index: Any, axis: int) -> tuple[int, int]:
    """Begin and length of what an index takes of an axis."""
    if isinstance(index, slice):
        begin, end, step = index.indices(length)
        if step != 1:
            raise TypeError(f"a slice in steps of {step}; allowed: {ALLOWED}")
        return begin, max(end - begin, 0)
    if isinstance(index, bool) or getattr(index, "shape", None) or not hasattr(index, "__index__"):
        raise TypeError(f"a {type(index).__name__} as index of a device array; allowed: {ALLOWED}")
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(
            f"index {number} of axis {axis}, which has {length} elements; allowed: {-length} to {length - 1}"
        )
    return number % length, 1
