"""Dense linear algebra of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_blas as cases
from tests.unit.cuda_builtins_rig import cuda_builtins

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_axpy_adds_a_multiple = cases.test_axpy_adds_a_multiple
test_dot_is_the_inner_product = cases.test_dot_is_the_inner_product
test_nrm2_is_the_norm = cases.test_nrm2_is_the_norm
test_nrm2_of_large_numbers_is_finite = cases.test_nrm2_of_large_numbers_is_finite
test_nrm2_of_special_values_is_special = cases.test_nrm2_of_special_values_is_special
test_gemv_is_the_product = cases.test_gemv_is_the_product
test_gemm_is_the_product = cases.test_gemm_is_the_product
test_gemm_without_beta_does_not_read_the_result = cases.test_gemm_without_beta_does_not_read_the_result
test_gemm_without_alpha_only_scales = cases.test_gemm_without_alpha_only_scales
test_gemm_takes_one_matrix_for_a_whole_batch = cases.test_gemm_takes_one_matrix_for_a_whole_batch
test_gemm_carries_nan_and_infinity = cases.test_gemm_carries_nan_and_infinity
