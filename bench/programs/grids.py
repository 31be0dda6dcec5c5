"""Programs over matrices and grids, with tiles in shared memory, and with blocks of few threads."""

from __future__ import annotations

import numpy as np

from bench.programs.program import Argument, Array, Program, Step

_TILE = 16
_SMALL = 4  # threads of a small block along an axis


def _matrix(n: int, seed: int) -> Array:
    """Random matrix that can be eliminated without pivoting."""
    made = np.random.default_rng(seed).random((n, n), np.float32)
    return made + np.float32(n) * np.eye(n, dtype=np.float32)


def _upper(n: int, matrix: Array, right: Array) -> tuple[Array, Array]:
    """Gaussian elimination in doubles."""
    a, b = matrix.astype(np.float64), right.astype(np.float64)
    for step in range(n - 1):
        factors = a[step + 1 :, step] / a[step, step]
        a[step + 1 :] -= factors[:, None] * a[step]
        b[step + 1 :] -= factors * b[step]
    return a, b


def gaussian(n: int = 256) -> Program:
    """Gaussian elimination: two launches per column, the second one with blocks of 4 x 4 threads."""
    a, b = _matrix(n, 6), np.random.default_rng(7).random(n, np.float32)
    upper, right = _upper(n, a, b)
    arrays = {"a": a.reshape(-1), "b": b, "factors": np.zeros(n, np.float32)}
    steps = []
    for step in range(n - 1):
        rows, columns = n - 1 - step, n - step
        scalars = (np.int32(n), np.int32(step))
        steps.append(Step("gaussian_factors", (-(-rows // 256),), (256,), (*scalars, "a", "factors")))
        grid = (-(-columns // _SMALL), -(-rows // _SMALL))
        steps.append(Step("gaussian_rows", grid, (_SMALL, _SMALL), (*scalars, "a", "b", "factors")))
    expected = {"a": upper.reshape(-1), "b": right}
    return Program("gaussian", arrays, tuple(steps), (np.int32(n), "a", "b"), expected)


def lud(n: int = 512) -> Program:
    """LU decomposition in tiles of 16 x 16, three launches per tile of the diagonal."""
    a = _matrix(n, 8)
    exact = a.astype(np.float64)
    for step in range(n - 1):
        exact[step + 1 :, step] /= exact[step, step]
        exact[step + 1 :, step + 1 :] -= exact[step + 1 :, step, None] * exact[step, step + 1 :]
    steps = []
    for at in range(0, n, _TILE):
        arguments = ("a", np.int32(n), np.int32(at))
        left = (n - at) // _TILE - 1
        steps.append(Step("lud_diagonal", (1,), (_TILE,), arguments))
        if left > 0:
            steps.append(Step("lud_perimeter", (left,), (2 * _TILE,), arguments))
            steps.append(Step("lud_inner", (left, left), (_TILE, _TILE), arguments))
    arrays = {"a": a.reshape(-1)}
    return Program("lud", arrays, tuple(steps), ("a", np.int32(n)), {"a": exact.reshape(-1)})


def hotspot(n: int = 1024, steps: int = 8) -> Program:
    """Temperatures of a chip over some time steps (an even number), a stencil of five points."""
    random = np.random.default_rng(9)
    power, cells = random.random((n, n), np.float32), 80 + 10 * random.random((n, n), np.float32)
    exact = cells.astype(np.float64)
    for _ in range(steps):
        rim = np.pad(exact, 1, mode="edge")
        vertical = rim[:-2, 1:-1] + rim[2:, 1:-1] - 2 * exact
        horizontal = rim[1:-1, :-2] + rim[1:-1, 2:] - 2 * exact
        exact = exact + 0.1 * power + 0.2 * vertical + 0.15 * horizontal + 0.01 * (80 - exact)
    flat = {"power": power.reshape(-1), "cells": cells.reshape(-1), "other": np.zeros(n * n, np.float32)}
    grid = (n // _TILE, n // _TILE)
    there = Step("hotspot", grid, (_TILE, _TILE), (np.int32(n), "power", "cells", "other"))
    back = Step("hotspot", grid, (_TILE, _TILE), (np.int32(n), "power", "other", "cells"))
    native: tuple[Argument, ...] = (np.int32(n), *flat, np.int32(steps))
    return Program("hotspot", flat, (there, back) * (steps // 2), native, {"cells": exact.reshape(-1)})


def transpose(n: int = 2048) -> Program:
    """Transposition of a matrix, through tiles of 32 x 32."""
    matrix = np.random.default_rng(10).random((n, n), np.float32)
    arrays = {"in": matrix.reshape(-1), "out": np.zeros(n * n, np.float32)}
    arguments = (np.int32(n), "in", "out")
    step = Step("transpose", (n // 32, n // 32), (32, 8), arguments)
    return Program("transpose", arrays, (step,), arguments, {"out": matrix.T.reshape(-1)})
