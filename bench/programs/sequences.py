"""Programs over sequences, in which each element depends on those before it."""

from __future__ import annotations

import numpy as np

from bench.programs.program import Array, Program, Step

_TILE = 16
_GROUP = 256
_PENALTY = 10
_SORT_TILE = 4096
_DIGITS = 256


def _scores(n: int, similarity: Array) -> Array:
    """Needleman-Wunsch, one antidiagonal at a time."""
    score = np.zeros((n + 1, n + 1), np.int32)
    score[0, :] = score[:, 0] = -_PENALTY * np.arange(n + 1)
    for diagonal in range(2, 2 * n + 1):
        y = np.arange(max(1, diagonal - n), min(n, diagonal - 1) + 1)
        x = diagonal - y
        best = np.maximum(score[y - 1, x], score[y, x - 1]) - _PENALTY
        score[y, x] = np.maximum(best, score[y - 1, x - 1] + similarity[y, x])
    return score


def nw(n: int = 1024) -> Program:
    """Needleman-Wunsch alignment: a launch per diagonal of tiles, blocks of 16 threads."""
    similarity = np.random.default_rng(12).integers(-10, 11, (n + 1, n + 1)).astype(np.int32)
    score = np.zeros((n + 1, n + 1), np.int32)
    score[0, :] = score[:, 0] = -_PENALTY * np.arange(n + 1)
    arrays = {"similarity": similarity.reshape(-1), "score": score.reshape(-1)}
    width, tiles = np.int32(n + 1), n // _TILE
    steps = []
    for diagonal in range(2 * tiles - 1):
        first, last = max(0, diagonal - tiles + 1), min(diagonal, tiles - 1)
        scalars = (width, np.int32(_PENALTY), np.int32(diagonal), np.int32(first))
        steps.append(Step("nw", (last - first + 1,), (_TILE,), ("similarity", "score", *scalars)))
    native = ("similarity", "score", width, np.int32(_PENALTY))
    return Program("nw", arrays, tuple(steps), native, {"score": _scores(n, similarity).reshape(-1)})


def scan(n: int = 1 << 20) -> Program:
    """Prefix sums: within blocks, then of the blocks' totals, which are added at the end; a power of 2 of elements."""
    values = np.random.default_rng(13).integers(0, 100, n).astype(np.uint32)
    arrays: dict[str, Array] = {"in": values}
    down: list[Step] = []
    up: list[Step] = []
    count, source, level = n, "in", 0
    while True:
        blocks = -(-count // _GROUP)
        out, totals = ("out" if level == 0 else f"sums{level}"), f"totals{level}"
        arrays[out] = np.zeros(blocks * _GROUP, np.uint32)
        arrays[totals] = np.zeros(-(-blocks // _GROUP) * _GROUP, np.uint32)
        down.append(Step("scan_blocks", (blocks,), (_GROUP,), (source, out, totals)))
        if blocks == 1:
            break
        up.insert(0, Step("scan_add", (blocks,), (_GROUP,), (out, f"sums{level + 1}")))
        count, source, level = blocks, totals, level + 1
    expected = np.cumsum(values, dtype=np.uint32)
    return Program("scan", arrays, (*down, *up), (np.uint32(n), "in", "out"), {"out": expected})


def radix_sort(n: int = 1 << 20) -> Program:
    """Radix sort of 32-bit keys with CUB, eight bits at a time; three launches each; a multiple of 4,096 keys."""
    keys = np.random.default_rng(14).integers(0, 1 << 32, n, dtype=np.uint32)
    blocks = n // _SORT_TILE
    arrays = {"keys": keys, "other": np.zeros(n, np.uint32), "counts": np.zeros(_DIGITS * blocks, np.uint32)}
    steps: list[Step] = []
    source, target = "keys", "other"
    for shift in map(np.int32, range(0, 32, 8)):
        steps.append(Step("radix_count", (blocks,), (_GROUP,), (source, "counts", shift)))
        steps.append(Step("radix_sum", (1,), (_GROUP,), ("counts", np.int32(_DIGITS * blocks))))
        steps.append(Step("radix_move", (blocks,), (_GROUP,), (source, "counts", target, shift)))
        source, target = target, source
    return Program("radix_sort", arrays, tuple(steps), (np.uint32(n), "keys"), {"keys": np.sort(keys)})
