"""Fourier transforms of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_transforms as cases
from tests.unit.cuda_builtins_rig import cuda_builtins

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_complex_transforms_are_those_of_numpy = cases.test_complex_transforms_are_those_of_numpy
test_real_transforms_are_those_of_numpy = cases.test_real_transforms_are_those_of_numpy
test_inverse_real_transform_ignores_imaginary_parts_that_cannot_be = (
    cases.test_inverse_real_transform_ignores_imaginary_parts_that_cannot_be
)
test_complex_transform_in_place = cases.test_complex_transform_in_place
