"""A transformer's block, in floats and in bfloat16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.programs.program import Array, Program, Step, as_bf16, as_floats

_TOKENS, _WIDTH, _HEAD, _TILE = 128, 128, 32, 16
_SCALE = 0.17677669


def _normal(x: Array, gain: Array) -> Array:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-5) * gain)


def _attention(qkv: Array) -> Array:
    heads = []
    for at in range(0, _WIDTH, _HEAD):
        query, key, value = (qkv[:, part * _WIDTH + at : part * _WIDTH + at + _HEAD] for part in range(3))
        weights = np.exp(query @ key.T * _SCALE)
        heads.append(weights / np.sum(weights, axis=1, keepdims=True) @ value)
    return np.concatenate(heads, axis=1)


def _reference(values: dict[str, Array], stored: Callable[[Array], Array]) -> Array:
    """Computes the block in doubles; `stored` rounds what is kept in memory."""
    v = {name: array.astype(np.float64) for name, array in values.items()}
    qkv = stored(stored(_normal(v["in"], v["gain"])) @ v["to_qkv"])
    middle = stored(v["in"] + stored(_attention(qkv)) @ v["to_out"])
    hidden = stored(np.maximum(stored(_normal(middle, v["gain"])) @ v["to_hidden"], 0))
    return np.asarray(middle + hidden @ v["from_hidden"])


def _linear(columns: int, inner: int, *arrays: str, adds: int, rectify: int) -> Step:
    source, weights, residual, out = arrays
    scalars = (np.uint32(inner), np.uint32(columns))
    options = (np.uint32(adds), np.uint32(rectify))
    grid = (columns // _TILE, _TOKENS // _TILE)
    return Step("linear", grid, (_TILE, _TILE), (*scalars, source, weights, residual, *options, out))


def _steps() -> tuple[Step, ...]:
    per_token = ((_TOKENS,), (_WIDTH,))
    return (
        Step("normalise", *per_token, ("in", "gain", "normal")),
        _linear(3 * _WIDTH, _WIDTH, "normal", "to_qkv", "in", "qkv", adds=0, rectify=0),
        Step("attention", (_TOKENS, _WIDTH // _HEAD), (_TOKENS, 1), ("qkv", "attended")),
        _linear(_WIDTH, _WIDTH, "attended", "to_out", "in", "middle", adds=1, rectify=0),
        Step("normalise", *per_token, ("middle", "gain", "normal")),
        _linear(4 * _WIDTH, _WIDTH, "normal", "to_hidden", "in", "hidden", adds=0, rectify=1),
        _linear(_WIDTH, 4 * _WIDTH, "hidden", "from_hidden", "middle", "out", adds=1, rectify=0),
    )


def _values() -> dict[str, Array]:
    random = np.random.default_rng(14)
    shapes = {
        "in": (_TOKENS, _WIDTH),
        "gain": (_WIDTH,),
        "to_qkv": (_WIDTH, 3 * _WIDTH),
        "to_out": (_WIDTH, _WIDTH),
        "to_hidden": (_WIDTH, 4 * _WIDTH),
        "from_hidden": (4 * _WIDTH, _WIDTH),
    }
    return {
        name: (random.standard_normal(shape) * (1.0 if name in ("in", "gain") else shape[0] ** -0.5)).astype(np.float32)
        for name, shape in shapes.items()
    }


def _room(dtype: type[np.generic]) -> dict[str, Array]:
    """Arrays for what is computed."""
    columns = {"normal": 1, "qkv": 3, "attended": 1, "middle": 1, "hidden": 4, "out": 1}
    return {name: np.zeros(_TOKENS * _WIDTH * count, dtype) for name, count in columns.items()}


def transformer_block() -> Program:
    """128 tokens of 128 floats, 4 heads."""
    values = _values()
    expected = _reference(values, lambda kept: kept).reshape(-1)
    arrays = {name: array.reshape(-1) for name, array in values.items()} | _room(np.float32)
    return Program("transformer_block", arrays, _steps(), tuple(arrays), {"out": expected})


def transformer_block_bf16() -> Program:
    """128 tokens of 128 bfloat16 numbers, 4 heads; sums are floats."""
    bits = {name: as_bf16(array) for name, array in _values().items()}
    values = {name: as_floats(array) for name, array in bits.items()}
    expected = _reference(values, lambda kept: as_floats(as_bf16(kept)).astype(np.float64)).reshape(-1)
    arrays = {name: array.reshape(-1) for name, array in bits.items()} | _room(np.uint16)
    return Program(
        *("transformer_block_bf16", arrays, _steps(), tuple(arrays), {"out": expected}),
        source="transformer_block",
        prefix="#define BF16\n",
        tolerance=0.06,
    )
