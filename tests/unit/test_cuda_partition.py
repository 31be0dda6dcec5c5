"""A VM gets the smallest partition of a GPU that holds its quota, and releases it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.cuda_rig import fake_driver
from vhost_backend.engines.cuda import device, partition
from vhost_backend.engines.cuda.driver import CudaError, Driver, start
from vhost_backend.errors import EngineError

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as fake:
        yield fake


def taken(fake: FakeDriver, asked: int, *settings: str) -> partition.Partition:
    driver = started(fake, *settings)
    return partition.take(driver, device.find(driver, None), asked)


def started(fake: FakeDriver, *settings: str) -> Driver:
    fake.set(*settings)
    return start(str(fake.path))


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        (("capability 9.0", "sms 132"), {1: 8, 8: 8, 9: 16, 64: 64, 66: 72, 128: 128, 129: 132, 132: 132, 500: 132}),
        (("capability 8.6", "sms 46", "granularity 2", "min_partition 4"), {1: 4, 4: 4, 5: 6, 45: 46, 46: 46}),
        (("capability 7.5", "sms 40", "granularity 2", "min_partition 2"), {1: 2, 3: 4, 39: 40}),
    ],
)
def test_shares_are_rounded_up_to_the_architectures_partitions(
    fake: FakeDriver, settings: tuple[str, ...], sizes: dict[int, int]
) -> None:
    driver = started(fake, *settings)
    gpu = device.find(driver, None)
    for asked, given in sizes.items():
        part = partition.take(driver, gpu, asked)
        assert (part.asked, part.given, partition.rounded(gpu, asked)) == (asked, given, given)
        assert (part.green is None) == (given == gpu.num_pes)
        part.release()


def test_a_share_of_the_whole_gpu_is_the_primary_context(fake: FakeDriver) -> None:
    part = taken(fake, 132)
    assert fake.count("cuGreenCtxCreate") == 0
    part.release()
    assert fake.number("contexts") == 0


def test_a_share_is_a_green_context_with_a_stream(fake: FakeDriver) -> None:
    part = taken(fake, 16)
    assert any("sms=16, 0, 1)" in line for line in fake.calls("cuGreenCtxCreate"))
    part.release()
    assert fake.number("contexts") == 0


def test_a_share_larger_than_any_group_becomes_the_whole_gpu(fake: FakeDriver) -> None:
    """GPCs with a disabled SM allow fewer groups than the number of SMs suggests."""
    driver = started(fake)
    gpu = device.find(driver, None)
    fake.inject("cuDevSmResourceSplitByCount", 915)
    part = partition.take(driver, gpu, 128)
    assert (part.given, part.green) == (132, None)
    part.release()


@pytest.mark.parametrize(
    ("function", "result"),
    [
        ("cuDeviceGetDevResource", 801),
        ("cuDevSmResourceSplitByCount", 801),
        ("cuDevResourceGenerateDesc", 1),
        ("cuGreenCtxCreate", 801),
        ("cuCtxFromGreenCtx", 1),
        ("cuGreenCtxGetDevResource", 914),
    ],
)
def test_the_error_of_a_driver_without_partitions_names_the_allowed_share(
    fake: FakeDriver, function: str, result: int
) -> None:
    """The fixture checks that nothing is left."""
    driver = started(fake)
    gpu = device.find(driver, None)
    fake.inject(function, result)
    with pytest.raises(EngineError, match=rf"16 of 132 SMs: .*cannot divide Fake H200 \({function}: .*allowed: 132"):
        partition.take(driver, gpu, 16)
    assert fake.number("contexts") == 0


@pytest.mark.parametrize("function", ["cuDevicePrimaryCtxRetain", "cuGreenCtxCreate"])
def test_a_gpu_without_free_memory_is_reported(fake: FakeDriver, function: str) -> None:
    driver = started(fake)
    gpu = device.find(driver, None)
    fake.inject(function, 2)
    with pytest.raises(CudaError, match=rf"{function}: CUDA_ERROR_OUT_OF_MEMORY \(2\), .*nvidia-smi"):
        partition.take(driver, gpu, 16)
    assert fake.number("contexts") == 0
