"""Random numbers among the built-in functions, compared with Philox written down in Python."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

SEEDS: Final = (0, 1, 0xDEADBEEF_12345678)
KINDS: Final = ("bits_u32", "uniform_f32", "uniform_f64", "normal_f32", "normal_f64")


def philox(counters: Array, seed: int) -> Array:
    """Words of 64-bit counters: Philox 4x32-10 [Salmon et al. 2011]."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counters & mask, counters >> np.uint64(32), np.zeros_like(counters), np.zeros_like(counters)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ np.uint64(keys[0]),
            second & mask,
            (first >> np.uint64(32)) ^ c[3] ^ np.uint64(keys[1]),
            first & mask,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=1).astype(np.uint32)


def words(seed: int, count: int) -> Array:
    return philox(np.arange(count // 4 + 2, dtype=np.uint64), seed).ravel()


def expected(kind: str, seed: int, end: int) -> Array:
    w = words(seed, 2 * end + 8)
    if kind == "bits_u32":
        return w
    if kind == "uniform_f32":
        return (w >> 8) * np.float32(2.0**-24)
    if kind == "uniform_f64":
        return (w.view(np.uint64) >> np.uint64(11)) * 2.0**-53
    scale = 2.0**-32
    v = w.astype(float)
    if kind == "normal_f64":
        v, scale = (w.view(np.uint64) >> np.uint64(11)).astype(float), 2.0**-53
    radius, angle = np.sqrt(-2 * np.log((v[0::2] + 1) * scale)), 2 * np.pi * v[1::2] * scale
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


def draw(kind: str, n: int, seed: int, offset: int, pes: int = 3, **more: Any) -> Array:
    out = np.zeros(n, DTYPES[kind.rpartition("_")[2]])
    if kind.startswith("normal"):
        more = {"deviation": 1} | more
    return rig.call("random." + kind, pes, out=out, n=n, seed=seed, offset=offset, **more)["out"]


def test_philox_has_the_words_of_its_authors() -> None:
    """Known answer of Random123 for counter 0 and key 0."""
    assert [hex(word) for word in philox(np.zeros(1, np.uint64), 0)[0]] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n", "offset"), [(0, 0), (1, 0), (1, 3), (7, 5), (1000, 1), (100_003, 2)])
def test_numbers_are_those_of_the_sequence(kind: str, seed: int, n: int, offset: int) -> None:
    found = draw(kind, n, seed, offset)
    wanted = expected(kind, seed, n + offset)[offset : offset + n]
    if kind.startswith("normal"):
        tolerance = 2e-6 if kind.endswith("f32") else 1e-14
        assert np.all(np.abs(found - wanted) <= tolerance * (1 + np.abs(wanted)))
    else:
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_a_sequence_are_the_whole(kind: str) -> None:
    whole = draw(kind, 50_000, 7, 10)
    pieces = np.concatenate([draw(kind, n, 7, 10 + at, 1) for at, n in ((0, 3), (3, 20_000), (20_003, 29_997))])
    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_offset_may_be_the_largest(kind: str) -> None:
    assert len(np.unique(draw(kind, 10, 1, 2**64 - 4))) == 10


@pytest.mark.parametrize("kind", ["uniform_f32", "uniform_f64"])
def test_uniform_numbers_fill_their_range(kind: str) -> None:
    x = draw(kind, 1_000_000, 3, 0).astype(float)
    assert 0 <= x.min() < 1e-5
    assert 1 - 1e-5 < x.max() < 1
    assert abs(x.mean() - 0.5) < 2e-3


@pytest.mark.parametrize("kind", ["normal_f32", "normal_f64"])
def test_normal_numbers_have_mean_and_deviation(kind: str) -> None:
    x = draw(kind, 1_000_000, 3, 0, mean=5.0, deviation=2.0).astype(float)
    assert np.isfinite(x).all()
    assert abs(x.mean() - 5) < 0.02
    assert abs(x.std() - 2) < 0.02


@pytest.mark.parametrize("deviation", [-1.0, np.nan, np.inf])
def test_impossible_deviation_is_refused(deviation: float) -> None:
    with pytest.raises(rig.RefusedError, match="allowed: finite numbers, the latter not negative"):
        draw("normal_f32", 10, 0, 0, deviation=deviation)
