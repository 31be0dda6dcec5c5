"""Convolutions: `Device.conv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import REALS, Array, Call, Group, check_dimensions, suffix_of
from guest_driver.memory import numbers_of

if TYPE_CHECKING:
    from guest_driver.stream import Stream

Pair: TypeAlias = int | Sequence[int]
"""One number for rows and columns, or a number for each."""

MOST: Final = 1 << 20


class Convolutions(Group):
    """Convolutions of float32 or float64."""

    def conv2d(
        self,
        x: Array,
        w: Array,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        stream: Stream | None = None,
    ) -> Any:
        """Slides filters over images, as ``torch.nn.functional.conv2d``: cross-correlation.

        :param x: images (batch, channels, height, width).
        :param w: filters (filters, channels // groups, kernel_h, kernel_w).
        :param padding: rows of zeros above and below, and columns to the left and right.
        :return: (batch, filters, out_h, out_w).
        :raise errors.InvalidArgument: shapes do not fit, or a number is out of range.
        """
        suffix = suffix_of(REALS, x=x, w=w)
        check_dimensions("x", x, 4)
        check_dimensions("w", w, 4)
        strides, pads = _pair("stride", stride, 1), _pair("padding", padding, 0)
        dilations = _pair("dilation", dilation, 1)
        _check_channels(x, w, groups)
        high, wide = (
            _places(x.shape[2 + i], w.shape[2 + i], strides[i], pads[i], dilations[i], what=("rows", "columns")[i])
            for i in range(2)
        )
        call = Call(self._host, (x, w), stream)
        y = call.empty((x.shape[0], w.shape[0], high, wide), x.dtype)
        lengths = (*x.shape, w.shape[0], *w.shape[2:])
        call.run(f"conv.conv2d_{suffix}", In(x), In(w), Out(y), *lengths, *strides, *pads, *dilations, groups)
        return y


def _pair(name: str, given: Pair, least: int) -> tuple[int, int]:
    numbers = numbers_of(given)
    numbers = numbers * 2 if len(numbers) == 1 else numbers
    if len(numbers) != 2 or not all(least <= number <= MOST for number in numbers):
        raise InvalidArgument(f"{name} is {given}; allowed: one number, or two, from {least} to {MOST}")
    return numbers[0], numbers[1]


def _check_channels(x: Array, w: Array, groups: int) -> None:
    channels, filters = x.shape[1], w.shape[0]
    if groups < 1 or channels % groups or filters % groups:
        raise InvalidArgument(
            f"{groups} groups of {channels} channels and {filters} filters; allowed: numbers that divide both"
        )
    if w.shape[1] != channels // groups:
        raise InvalidArgument(f"w has shape {w.shape}; allowed: {channels // groups} channels, those of a group of x")


def _places(length: int, kernel: int, stride: int, pad: int, dilation: int, *, what: str) -> int:
    """Places of a filter along one axis."""
    span = (kernel - 1) * dilation + 1
    if kernel < 1 or length + 2 * pad < span:
        raise InvalidArgument(
            f"filters of {kernel} {what}, {span} with dilation, on {length + 2 * pad} with padding; allowed: 1 or more "
            "that fit"
        )
    return (length + 2 * pad - span) // stride + 1
