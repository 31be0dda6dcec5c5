"""Kernels work in place on the guest's own memory, without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.cuda import vms
from bench.cuda.gpu import Gpu
from bench.cuda.vms import Vm
from bench.device import Device
from bench.workloads import KERNELS
from virtio_proto import schema

COUNT = 100_000


@pytest.fixture
def device(any_gpu: Gpu, tmp_path: Path) -> Iterator[Device]:
    with vms.running(any_gpu, tmp_path, [Vm("a", any_gpu.num_pes, 64)]) as (ours,):
        yield ours.device


def region_address(device: Device) -> int:
    """Device address of the region's first byte."""
    space = schema.CONFIG.construct.parse(device.driver.frontend._fake.config_read())
    return int(space.region_device_address)


def test_kernel_reads_and_writes_the_region(device: Device) -> None:
    base = region_address(device)
    assert base != 0
    offsets = [device.driver.take(4 * COUNT) for _ in range(2)]
    x, y = (device.driver.view(offset, 4 * COUNT).view(np.float32) for offset in offsets)
    x[:], y[:] = np.arange(COUNT), 1
    kernel = device.function(device.load((KERNELS / "saxpy.cu").read_text()), "saxpy")
    addresses = [np.uint64(base + offset).tobytes() for offset in offsets]
    arguments = [np.uint64(COUNT).tobytes(), np.float32(2).tobytes(), *addresses]
    device.run(device.launch(kernel, (-(-COUNT // 256),), (256,), arguments))
    assert np.array_equal(y, 2 * np.arange(COUNT, dtype=np.float32) + 1)
