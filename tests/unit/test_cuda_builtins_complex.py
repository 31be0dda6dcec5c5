"""Functions of single complex elements of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_complex as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_sums_of_edges_are_those_of_numpy = cases.test_sums_of_edges_are_those_of_numpy
test_edges_are_equal_as_in_numpy = cases.test_edges_are_equal_as_in_numpy
test_products_of_edges_are_those_of_their_parts = cases.test_products_of_edges_are_those_of_their_parts
test_quotients_of_edges_are_those_of_numpy = cases.test_quotients_of_edges_are_those_of_numpy
test_products_have_few_roundings = cases.test_products_have_few_roundings
test_number_times_its_conjugate_is_real = cases.test_number_times_its_conjugate_is_real
test_quotients_of_extreme_numbers_do_not_overflow_on_the_way = (
    cases.test_quotients_of_extreme_numbers_do_not_overflow_on_the_way
)
test_signs_are_those_of_numpy = cases.test_signs_are_those_of_numpy
test_lengths_and_angles_are_those_of_numpy = cases.test_lengths_and_angles_are_those_of_numpy
test_parts_are_joined = cases.test_parts_are_joined
test_large_arrays_are_cut_into_blocks = with_values(cases.test_large_arrays_are_cut_into_blocks, pes=[3])
test_result_may_be_an_input = cases.test_result_may_be_an_input
