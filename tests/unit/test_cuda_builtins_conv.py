"""Convolutions of the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_transforms as cases
from tests.unit.cuda_builtins_rig import cuda_builtins

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_convolution_slides_filters_over_images = cases.test_convolution_slides_filters_over_images
