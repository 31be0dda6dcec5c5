"""Random kernels compute the same bits as CUDA C, as PTX, and in the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.ptx_reference.three_ways import differences, differences_in
from tests.unit.ptx_compilers import needs_nvrtc

SEEDS: Final = ((2, 3), (5, 6), (26, 27), (28, 29), (1011, 1024))
"""Kernels of the tests, few beside those of ``make ptx``."""


@needs_nvrtc
@pytest.mark.parametrize("seeds", SEEDS)
def test_random_kernels_compute_the_same_bits(seeds: tuple[int, ...]) -> None:
    assert differences(seeds) == []


@needs_nvrtc
def test_index_that_wraps_in_a_loop_under_a_mask() -> None:
    """The vectoriser took ``shared[(t + 52) & 63]`` for neighbours, and read behind the array."""
    text = Path(__file__).with_name("masked_index.cu").read_text()
    assert differences_in(text, [24]) == []
