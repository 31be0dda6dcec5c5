"""GPUs that the tests run on: the machine's own, or the fake driver's.

A test that takes `any_gpu` runs on both, one that takes `real_gpu` on hardware only; without a GPU, the tests
marked ``gpu`` are skipped with the probe's reason.
"""

from __future__ import annotations

import pytest

from bench.cuda.gpu import Gpu, find
from bench.results import SkipRow
from tests.fakes import cuda_driver


@pytest.fixture(scope="session")
def real_gpu() -> Gpu:
    """The first GPU of this machine."""
    try:
        return find()
    except SkipRow as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def fake_gpu() -> Gpu:
    """The fake driver's GPU: kernels are C functions, found by their names (``tests/fakes/cuda``)."""
    return find(cuda_driver.build())


@pytest.fixture(scope="session", params=[pytest.param("real_gpu", marks=pytest.mark.gpu), "fake_gpu"])
def any_gpu(request: pytest.FixtureRequest) -> Gpu:
    """Each of the two GPUs in turn."""
    gpu: Gpu = request.getfixturevalue(request.param)
    return gpu
