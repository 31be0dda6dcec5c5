"""Model of texture fetches: the CUDA C++ Programming Guide's "Texture Fetching", in Python and double precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WRAP, CLAMP, MIRROR, BORDER = range(4)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Model:
    """Texture over `levels`, arrays of shape (layer, z, y, x, channel)."""

    levels: Sequence[Array]
    axes: int = 2
    normalised: bool = False
    linear: bool = False
    as_float: bool = False
    srgb: bool = False
    address: Sequence[int] = (CLAMP, CLAMP, CLAMP)
    border: Sequence[float] = (0, 0, 0, 0)
    linear_levels: bool = False
    bias: float = 0
    level_range: tuple[float, float] = (0, 0)
    _values: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._values.extend(self._converted(level) for level in self.levels)

    def _converted(self, texels: Array) -> Array:
        """Values that a fetch of each texel gives."""
        info = None if texels.dtype.kind == "f" else np.iinfo(texels.dtype)
        if info is None or not self.as_float or info.bits > 16:
            return texels.astype(np.float64)
        values = np.maximum(texels / info.max, -1.0)
        if self.srgb and texels.dtype == np.uint8:
            colours = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
            values[..., :3] = colours[..., :3]
        return values

    def _mode(self, axis: int) -> int:
        mode = self.address[axis]
        return mode if self.normalised or mode in (CLAMP, BORDER) else CLAMP

    def _place(self, axis: int, size: int, at: float) -> float:
        if not self.normalised:
            return at
        whole = math.floor(at)
        if self._mode(axis) == WRAP:
            at -= whole
        elif self._mode(axis) == MIRROR:
            at = at - whole if whole % 2 == 0 else 1 - (at - whole)
        return at * size

    def _index(self, axis: int, size: int, index: int) -> int | None:
        """Index of a texel, or None: the border."""
        if self._mode(axis) == WRAP:
            return index % size
        if self._mode(axis) == BORDER and not 0 <= index < size:
            return None
        return min(max(index, 0), size - 1)

    def texel(self, level: int, layer: int, indices: Sequence[int]) -> Array:
        """Value at a place, given as indices along x, y and z, which the address modes bring inside."""
        values = self._values[level]
        at = [0, 0, 0]
        for axis, index in enumerate(indices):
            inside = self._index(axis, values.shape[3 - axis], index)
            if inside is None:
                border = np.zeros(4)
                border[: values.shape[4]] = np.asarray(self.border)[: values.shape[4]]
                return border
            at[axis] = inside
        out = np.zeros(4)
        out[: values.shape[4]] = values[layer, at[2], at[1], at[0]]
        return out

    def _pairs(self, level: int, at: Sequence[float]) -> list[tuple[int, float]]:
        """Lower texel and weight of the upper one, along each axis."""
        pairs = []
        for axis in range(self.axes):
            place = self._place(axis, self._values[level].shape[3 - axis], at[axis]) - 0.5
            low = math.floor(place)
            pairs.append((low, round((place - low) * 256) / 256))
        return pairs

    def at_level(self, level: int, at: Sequence[float], layer: int) -> Array:
        """Sample of one level."""
        sizes = self._values[level].shape
        if not self.linear:
            indices = [math.floor(self._place(axis, sizes[3 - axis], at[axis])) for axis in range(self.axes)]
            return self.texel(level, layer, indices)
        pairs = self._pairs(level, at)
        total = np.zeros(4)
        for corner in itertools.product((0, 1), repeat=self.axes):
            weight = math.prod(pair[1] if high else 1 - pair[1] for high, pair in zip(corner, pairs, strict=True))
            indices = [pair[0] + high for high, pair in zip(corner, pairs, strict=True)]
            total += weight * self.texel(level, layer, indices)
        return total

    def sample(self, at: Sequence[float], layer: int = 0, detail: float = 0) -> Array:
        """Sample at a level of detail."""
        layer = min(max(layer, 0), len(self._values[0]) - 1)
        last = len(self._values) - 1
        level = min(max(detail + self.bias, self.level_range[0]), self.level_range[1], last) if last else 0.0
        if not self.linear_levels:
            return self.at_level(math.floor(level + 0.5), at, layer)
        weight = round((level % 1) * 256) / 256
        low = self.at_level(math.floor(level), at, layer)
        return low if weight == 0 else (1 - weight) * low + weight * self.at_level(math.floor(level) + 1, at, layer)

    def gather(self, at: Sequence[float], channel: int) -> Array:
        """One channel of the four texels around a place."""
        (x, _), (y, _) = self._pairs(0, at)
        corners = ((x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y))
        return np.array([self.texel(0, 0, corner)[channel] for corner in corners])


def cube_face(x: float, y: float, z: float) -> tuple[int, float, float]:
    """Face of a cubemap that a direction points at, and the normalised place on it, from the guide's table."""
    size = max(abs(x), abs(y), abs(z))
    if abs(x) == size:
        face, s, t = (0, -z, -y) if x >= 0 else (1, z, -y)
    elif abs(y) == size:
        face, s, t = (2, x, z) if y >= 0 else (3, x, -z)
    else:
        face, s, t = (4, x, -y) if z >= 0 else (5, -x, -y)
    return face, (s / size + 1) / 2, (t / size + 1) / 2
