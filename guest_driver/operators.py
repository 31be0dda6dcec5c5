"""Operators of arrays on the device: each applies a universal function of numpy.

``numpy.lib.mixins.NDArrayOperatorsMixin`` does the same, but takes numpy when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

OPERANDS: Final = (int, float, complex, list, tuple)
"""Operands beside arrays: numbers, and sequences of them."""


def _apply(name: str, *operands: Any, **options: Any) -> Any:
    """Applies numpy's function, unless an operand is neither an array nor made of numbers: it may have an operator of its own."""
    import numpy as np

    if not all(isinstance(one, OPERANDS) or hasattr(one, "dtype") for one in operands):
        return NotImplemented
    return getattr(np, name)(*operands, **options)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _apply(name, self, other)


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _apply(name, other, self)


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _apply(name, self, other, out=(self,))


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: _apply(name, self)


class ArrayOperators:
    """Operators of arithmetic, comparison and truth values, of single elements as in numpy, and matrix products.

    Arrays can be keys of dictionaries, by their identity.
    """

    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder"), _reflected("remainder"), _in_place("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power"), _reflected("power"), _in_place("power")
    __and__, __rand__, __iand__ = _binary("bitwise_and"), _reflected("bitwise_and"), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or"), _reflected("bitwise_or"), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor"), _reflected("bitwise_xor"), _in_place("bitwise_xor")
    __invert__ = _unary("invert")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __lt__, __le__, __gt__, __ge__ = (_binary(name) for name in ("less", "less_equal", "greater", "greater_equal"))
    __neg__, __pos__, __abs__ = _unary("negative"), _unary("positive"), _unary("absolute")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __hash__ = object.__hash__
