"""Random kernels compute the same bits as CUDA C, as PTX, and in the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ptx_reference.three_ways import differences, differences_in
from tests.unit.ptx_compilers import needs_nvrtc


@needs_nvrtc
@pytest.mark.parametrize("first", [2, 5, 26, 28])
def test_random_kernels_compute_the_same_bits(first: int) -> None:
    assert differences(range(first, first + 2)) == []


@needs_nvrtc
def test_index_that_wraps_in_a_loop_under_a_mask() -> None:
    """The vectoriser took ``shared[(t + 52) & 63]`` for neighbours, and read behind the array."""
    text = Path(__file__).with_name("masked_index.cu").read_text()
    assert differences_in(text, [24]) == []
