"""Functions of single elements of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_math as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_pairs_of_edges_are_those_of_numpy = cases.test_pairs_of_edges_are_those_of_numpy
test_edges_are_those_of_numpy = cases.test_edges_are_those_of_numpy
test_functions_are_near_the_exact_value = cases.test_functions_are_near_the_exact_value
test_power_is_near_the_exact_value = cases.test_power_is_near_the_exact_value
test_conversion_is_that_of_numpy = cases.test_conversion_is_that_of_numpy
test_two_inputs_are_read_along_their_strides = cases.test_two_inputs_are_read_along_their_strides
test_one_input_is_read_along_its_strides = cases.test_one_input_is_read_along_its_strides
test_large_arrays_are_cut_into_blocks = with_values(cases.test_large_arrays_are_cut_into_blocks, pes=[3])
test_result_may_be_an_input = cases.test_result_may_be_an_input
test_function_in_place_is_that_of_a_copy = cases.test_function_in_place_is_that_of_a_copy
