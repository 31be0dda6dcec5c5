"""Random numbers of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_random as cases
from tests.unit.cuda_builtins_rig import cuda_builtins

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_numbers_are_those_of_the_sequence = cases.test_numbers_are_those_of_the_sequence
test_pieces_of_a_sequence_are_the_whole = cases.test_pieces_of_a_sequence_are_the_whole
test_offset_may_be_the_largest = cases.test_offset_may_be_the_largest
test_uniform_numbers_fill_their_range = cases.test_uniform_numbers_fill_their_range
test_normal_numbers_have_mean_and_deviation = cases.test_normal_numbers_have_mean_and_deviation
