"""Methods of arrays on the device that numpy has as functions, too: each applies numpy's function."""

from __future__ import annotations

from typing import Any


def _apply(name: str, array: Any, axis: Any, **options: Any) -> Any:
    import numpy as np

    return getattr(np, name)(array, axis, **options)


class ArrayMethods:
    """Reductions along axes, on the device. `axis` is one axis, several neighbours, or None for all.

    Results without dimensions are device arrays, too.
    """

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Sums, as ``numpy.sum``."""
        return _apply("sum", self, axis, keepdims=keepdims)

    def prod(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Products, as ``numpy.prod``."""
        return _apply("prod", self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Least elements, as ``numpy.min``."""
        return _apply("min", self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Largest elements, as ``numpy.max``."""
        return _apply("max", self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Positions of the least elements, as ``numpy.argmin``: int64."""
        return _apply("argmin", self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Positions of the largest elements, as ``numpy.argmax``: int64."""
        return _apply("argmax", self, axis, keepdims=keepdims)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Whether elements are true, or not 0, as ``numpy.any``."""
        return _apply("any", self, axis, keepdims=keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Whether all elements are true, or not 0, as ``numpy.all``."""
        return _apply("all", self, axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Means, as ``numpy.mean``."""
        return _apply("mean", self, axis, keepdims=keepdims)

    def var(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        """Variances, as ``numpy.var``: mean squares of the distances from the mean."""
        return _apply("var", self, axis, ddof=ddof, keepdims=keepdims)

    def std(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        """Standard deviations, as ``numpy.std``."""
        return _apply("std", self, axis, ddof=ddof, keepdims=keepdims)
