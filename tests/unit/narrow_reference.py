"""Exact rounding to small floating-point formats, by tables of all their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

Codes = np.ndarray[Any, np.dtype[np.uint32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Format:
    """A format with `exponent` and `mantissa` bits.

    `largest`, `overflow` and `nan` are codes without sign; with ``signed_nan`` not-a-number has its sign.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def values(self) -> Doubles:
        """Values of the codes from 0 to `largest`, and of the one that would follow."""
        codes = np.arange(self.largest + 2)
        power, digits = codes >> self.mantissa, codes & ((1 << self.mantissa) - 1)
        normal = np.ldexp(1.0 + np.ldexp(digits.astype(float), -self.mantissa), power - self.bias)
        denormal = np.ldexp(digits.astype(float), 1 - self.bias - self.mantissa)
        values: Doubles = np.where(power == 0, denormal, normal)
        return values

    def decode(self, codes: Any) -> Doubles:
        """Values of codes; not-a-number for those beyond `largest`, infinity for `overflow` where it is not `nan`."""
        codes = np.asarray(codes, np.uint32)
        magnitude = codes & (self.sign - 1)
        value = np.where(magnitude <= self.largest, self.values[np.minimum(magnitude, self.largest)], np.nan)
        if self.overflow > self.largest and self.overflow != self.nan:
            value = np.where(magnitude == self.overflow, np.inf, value)
        signed: Doubles = np.where(codes & self.sign, -value, value)
        return signed

    def encode(self, x: Any, mode: str = "rn", *, saturate: bool = False) -> Codes:
        """Codes of doubles, rounded once: ``rn`` to nearest, ``rz``, ``rd``, ``ru``."""
        x = np.asarray(x, np.float64)
        table = self.values
        magnitude = np.abs(x)
        negative = np.signbit(x)
        below = np.clip(np.searchsorted(table, magnitude, "right") - 1, 0, self.largest + 1)
        above = np.minimum(below + 1, self.largest + 1)
        exact = table[below] == magnitude
        away = {"rz": np.zeros_like(negative), "rd": negative, "ru": ~negative, "rn": self._nearest(magnitude, below)}
        code = np.where(exact | ~away[mode], below, above)
        beyond = (code > self.largest) & ~((mode == "rz") | ((mode == "rd") & ~negative) | ((mode == "ru") & negative))
        code = np.where(
            beyond | np.isinf(x), self.largest if saturate else self.overflow, np.minimum(code, self.largest)
        )
        signed: Codes = np.where(np.isnan(x), self.nan, code | np.where(negative, self.sign, 0)).astype(np.uint32)
        return signed

    def _nearest(self, magnitude: Doubles, below: Any) -> Any:
        """Where the number above is nearer, or as near and even."""
        low = self.values[np.minimum(below, self.largest)]
        high = self.values[np.minimum(below + 1, self.largest + 1)]
        middle = low / 2 + high / 2
        return (magnitude > middle) | ((magnitude == middle) & (below % 2 == 1))

    def encode_exactly(self, x: Fraction) -> int:
        """Code of a fraction other than 0, rounded to nearest."""
        table = self.values
        magnitude = abs(x)
        near = float(magnitude) if magnitude < 1 << 200 else float(1 << 200)
        below = min(max(int(np.searchsorted(table, near, "right")) - 1, 0), self.largest + 1)
        if Fraction(table[below]) > magnitude:
            below -= 1
        middle = (Fraction(table[below]) + Fraction(table[min(below + 1, self.largest + 1)])) / 2
        code = below + (magnitude > middle or (magnitude == middle and below % 2 == 1))
        return (code if code <= self.largest else self.overflow) | (self.sign if x < 0 else 0)

    def borders(self) -> Doubles:
        """Every number of the format, every middle between two, and the floats beside them, of both signs."""
        table = self.values
        exact = np.concatenate([table, (table[1:] + table[:-1]) / 2])
        exact = exact[exact <= np.finfo(np.float32).max].astype(np.float32)
        near = np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(0))])
        odd = np.array([np.inf, np.nan, np.finfo(np.float32).max, 1e-45, 1e-38], np.float32)
        both = np.concatenate([near, -near, odd, -odd])
        return both.astype(np.float64)


HALF: Final = Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7FFF)
BFLOAT16: Final = Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FFF)
E4M3: Final = Format(4, 3, 7, 0x7E, 0x7F, 0x7F)
E5M2: Final = Format(5, 2, 15, 0x7B, 0x7C, 0x7F)
E2M3: Final = Format(2, 3, 1, 0x1F, 0x1F, 0x1F)
E3M2: Final = Format(3, 2, 3, 0x1F, 0x1F, 0x1F)
E2M1: Final = Format(2, 1, 1, 0x7, 0x7, 0x7)
