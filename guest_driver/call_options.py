"""Arguments of ``vgc call`` on the command line, and the values of options of built-in functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from guest_driver.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Given:
    """Argument of the command line: its option without dashes, and its text."""

    option: str
    text: str

    def __str__(self) -> str:
        return f"--{self.option} {self.text}"


def value_of(given: Given, text: str, annotation: str) -> Any:
    """Value of an option whose parameter has this annotation.

    :raise errors.InvalidArgument: the text is not understood; the message names the option and what is allowed.
    """
    kind = annotation.removesuffix(" | None")
    parse, allowed = KINDS[kind]
    may_be_none = kind != annotation or kind == "Axis"
    if may_be_none and text.lower() == "none":
        return None
    try:
        return parse(text)
    except (ValueError, KeyError, TypeError):
        raise InvalidArgument(f"{given}; allowed: {allowed}{', or none' if may_be_none else ''}") from None


def _whole(text: str) -> int:
    return int(text, 0)


def _number(text: str) -> float:
    try:
        return _whole(text)
    except ValueError:
        return float(text)


def _several(text: str) -> tuple[int, ...]:
    """Whole numbers, such as 3, 20x3, 20,3 or (20, 3)."""
    words = re.split("[x,]", text.strip("()"))
    return tuple(int(word) for word in words if word.strip() or len(words) == 1)


def _range(text: str) -> tuple[float, float]:
    low, high = map(float, text.strip("()").split(","))
    return low, high


def _dtype(text: str) -> str:
    import numpy as np

    return str(np.dtype(text))


KINDS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    "int": (_whole, "a whole number, such as 16 or 0x10"),
    "float": (float, "a number"),
    "bool": (lambda text: {"true": True, "false": False}[text.lower()], "true, false"),
    "str": (str, "a word"),
    "Axis": (_several, "whole numbers, such as 1 or 0,1"),
    "Shape": (_several, "whole numbers, such as 1000 or 1000x3"),
    "Pair": (_several, "whole numbers, such as 2 or 2,1"),
    "tuple[float, float]": (_range, "two numbers, such as 0,1"),
    "DTypeLike": (_dtype, "a type of numpy, such as float64"),
    "Operand": (_number, "a number"),
}
"""Parsers of values, and what they take, by the annotations of parameters."""
