"""Figures of the rows of calls by name."""

from __future__ import annotations

import pytest

from bench.rows.choice import Tally, regret


def test_regret_is_the_time_beyond_the_better_side_of_each_size() -> None:
    small = Tally("f", 64, 10, took=120, host=5_000, cpu=100)
    large = Tally("f", 4096, 10, took=900, host=900, cpu=70_000)
    assert regret([small, large]) == pytest.approx(2.0)
    assert regret([large]) == 0
