"""Counting of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_sort as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_histogram_is_that_of_numpy = with_values(cases.test_histogram_is_that_of_numpy, pes=[3])
test_elements_on_edges_are_in_the_bins_of_numpy = cases.test_elements_on_edges_are_in_the_bins_of_numpy
test_bincount_is_that_of_numpy = with_values(cases.test_bincount_is_that_of_numpy, pes=[3])
test_bincount_of_a_wrong_number_fails = cases.test_bincount_of_a_wrong_number_fails
