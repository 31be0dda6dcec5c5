"""Reductions and running reductions of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_reduce as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_all_bytes_but_0_are_true = with_values(cases.test_all_bytes_but_0_are_true, pes=[3])
test_sum_has_few_roundings = cases.test_sum_has_few_roundings
test_prod_is_that_of_numpy = cases.test_prod_is_that_of_numpy
test_extremes_are_those_of_numpy = cases.test_extremes_are_those_of_numpy
test_reduction_of_nothing_is_neutral = cases.test_reduction_of_nothing_is_neutral
test_reductions_follow_special_values = cases.test_reductions_follow_special_values
test_scan_is_that_of_numpy = with_values(cases.test_scan_is_that_of_numpy, pes=[3])
test_exclusive_scan_lags_behind = cases.test_exclusive_scan_lags_behind
test_running_extremes_keep_nan = cases.test_running_extremes_keep_nan
test_scan_in_place_is_that_of_a_copy = cases.test_scan_in_place_is_that_of_a_copy
test_scan_of_more_than_caches_hold_is_that_of_numpy = cases.test_scan_of_more_than_caches_hold_is_that_of_numpy
