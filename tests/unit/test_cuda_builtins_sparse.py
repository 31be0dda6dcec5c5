"""Products of sparse matrices of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_sparse as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_product_is_that_of_the_dense_matrix = with_values(cases.test_product_is_that_of_the_dense_matrix, pes=[3])
test_without_beta_the_result_is_not_read = cases.test_without_beta_the_result_is_not_read
test_wrong_column_fails_and_touches_nothing_else = cases.test_wrong_column_fails_and_touches_nothing_else
test_wrong_begin_of_a_row_fails_and_touches_nothing_else = (
    cases.test_wrong_begin_of_a_row_fails_and_touches_nothing_else
)
test_matrix_without_columns_has_no_elements = cases.test_matrix_without_columns_has_no_elements
