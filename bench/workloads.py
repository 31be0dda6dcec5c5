"""Workloads of the compute rows: one description for plain C++, PoCL and the CPU engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

KERNELS = Path(__file__).resolve().parent / "kernels"

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """Kernel with its arguments (arrays become device memory) and its expected result.

    The C++ baseline ``base_<baseline>`` takes the same arguments and then the number of threads.
    """

    name: str
    source: str  # bench/kernels/<source>.cu and .cl
    baseline: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[np.generic | Array, ...]
    result: int  # index of the argument that holds it
    expected: Array | np.float64
    summed: bool = False  # the result is the sum of the array, to which every block contributes an element
    adds: bool = False  # the kernel reads the result's old contents
    checked: Array | None = None  # indices of the result that `expected` covers; None: all

    @property
    def total_threads(self) -> tuple[int, ...]:
        return tuple(blocks * threads for blocks, threads in zip(self.grid, self.block, strict=True))

    def text(self, language: str) -> str:
        return (KERNELS / f"{self.source}.{language}").read_text()

    def verify(self, found: Array, by: str) -> None:
        """Checks a result.

        :raise ArithmeticError: `found` differs from the expected result by more than 1 part in 1000.
        """
        value = (
            np.sum(found, dtype=np.float64) if self.summed else found if self.checked is None else found[self.checked]
        )
        if not np.allclose(value, self.expected, rtol=1e-3, atol=1e-3):
            worst = np.max(np.abs(np.asarray(value, np.float64) - self.expected))
            raise ArithmeticError(f"{self.name} by {by} is off by {worst:g}")


def _random(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).random(count, np.float32)


def saxpy(n: int = 1 << 24) -> Workload:
    x, y, a = _random(n), np.ones(n, np.float32), np.float32(0.5)
    args = (np.uint64(n), a, x, y)
    return Workload("saxpy", "saxpy", "saxpy", (n // 256,), (256,), args, 3, a * x + y, adds=True)


def _matmul(name: str, n: int) -> Workload:
    a, b = _random(n * n), _random(n * n)[::-1].copy()
    c = np.zeros(n * n, np.float32)
    expected = (a.reshape(n, n) @ b.reshape(n, n)).reshape(-1)
    args = (np.uint64(n), a, b, c)
    return Workload(name, "matmul", "matmul", (n // 16, n // 16), (16, 16), args, 3, expected)


def matmul(n: int = 512) -> Workload:
    return _matmul("matmul", n)


def matmul_tiled(n: int = 512) -> Workload:
    return _matmul("matmul_tiled", n)


def reduce(n: int = 1 << 24, blocks: int = 64) -> Workload:
    x = _random(n)
    args = (np.uint64(n), x, np.zeros(blocks, np.float32))
    expected = np.sum(x, dtype=np.float64)
    return Workload("reduce", "reduce", "reduce", (blocks,), (256,), args, 2, expected, summed=True)


def nbody(n: int = 4096) -> Workload:
    body = _random(4 * n)
    x, y, z, mass = (body[k::4].astype(np.float64) for k in range(4))
    dx, dy, dz = (c[None, :] - c[:, None] for c in (x, y, z))
    pull = mass[None, :] * (dx * dx + dy * dy + dz * dz + 1e-3) ** -1.5
    sums = [np.sum(d * pull, axis=1) for d in (dx, dy, dz)]
    expected = np.stack([*sums, np.zeros(n)], axis=1).reshape(-1)
    args = (np.uint64(n), body, np.zeros(4 * n, np.float32))
    return Workload("nbody", "nbody", "nbody", (n // 256,), (256,), args, 2, expected)


def histogram(n: int = 1 << 24) -> Workload:
    data = np.random.default_rng(2).integers(0, 256, n, np.uint8)
    args = (np.uint64(n), data, np.zeros(256, np.uint32))
    expected = np.bincount(data, minlength=256)
    return Workload("histogram", "histogram", "histogram", (64,), (256,), args, 2, expected)


ALL: tuple[Callable[[], Workload], ...] = (saxpy, matmul, matmul_tiled, reduce, nbody, histogram)
