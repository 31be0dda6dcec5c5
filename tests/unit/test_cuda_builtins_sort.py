"""Sorting of the CUDA engine, on the software GPU."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit import test_builtins_sort as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

SHAPES: Final = ((1, 0), (0, 5), (1, 1), (3, 17), (30, 100), (2, 2048), (1, 2049), (3, 30_001), (1, 100_000))
"""Rows of one tile are 2048 elements long, or less."""

PES: Final = (1, 5)
"""Numbers of SMs: rows have so many parts for each of them."""

test_keys_are_sorted = with_values(cases.test_keys_are_sorted, shape=SHAPES, pes=PES)
test_keys_of_patterns_are_sorted = cases.test_keys_of_patterns_are_sorted
test_keys_are_sorted_in_place = with_values(cases.test_keys_are_sorted_in_place, n=[100, 60_000])
test_argsort_is_stable = with_values(cases.test_argsort_is_stable, shape=SHAPES, pes=PES)
test_values_move_with_their_keys = with_values(
    cases.test_values_move_with_their_keys, shape=[(1, 0), (3, 17), (2, 20_001)]
)
test_unique_elements_come_in_order = with_values(
    cases.test_unique_elements_come_in_order, n=[0, 1, 2, 1000, 30_001, 120_000]
)
