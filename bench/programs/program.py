"""Description of a program, the same for plain C++, PoCL and the CPU engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.workloads import KERNELS

Array = npt.NDArray[Any]
Argument = str | np.generic
"""Name of an array, or a scalar."""

BF16_ROUNDING: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Step:
    """Launch of a kernel."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Argument, ...]

    @property
    def total_threads(self) -> tuple[int, ...]:
        return tuple(blocks * threads for blocks, threads in zip(self.grid, self.block, strict=True))


@dataclass(frozen=True, slots=True)
class Program:
    """Launches in order, over arrays that have their first contents again before each run.

    The C++ baseline ``base_<name>`` takes the arguments in `native` and then the number of threads.
    """

    name: str
    arrays: Mapping[str, Array]
    steps: tuple[Step, ...]
    native: tuple[Argument, ...]
    expected: Mapping[str, Array]
    source: str = ""  # bench/kernels/<source>.cu and .cl; default: the name
    prefix: str = ""  # text before the source
    tolerance: float = 1e-3
    written: tuple[str, ...] = field(default=())  # arrays to restore besides those in `expected`

    def text(self, language: str) -> str:
        return self.prefix + (KERNELS / f"{self.source or self.name}.{language}").read_text()

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that the steps launch."""
        return tuple(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def restored(self) -> tuple[str, ...]:
        """Names of the arrays that a run changes and the next one needs unchanged."""
        return (*self.written, *self.expected)

    def verify(self, name: str, found: Array, by: str) -> None:
        """Checks a result.

        :raise ArithmeticError: it differs from the expected one by more than the tolerance.
        """
        value = as_floats(found) if found.dtype == np.uint16 else found
        if not np.allclose(value, self.expected[name], rtol=self.tolerance, atol=self.tolerance):
            worst = np.max(np.abs(np.asarray(value, np.float64) - self.expected[name]))
            raise ArithmeticError(f"{self.name}: {name} by {by} is off by {worst:g}")


def as_bf16(values: Array) -> npt.NDArray[np.uint16]:
    """Rounds floats to bfloat16, kept as bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + (BF16_ROUNDING - 1) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def as_floats(bits: Array) -> npt.NDArray[np.float32]:
    """Values of bfloat16 numbers that are kept as bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
