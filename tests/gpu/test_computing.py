"""Kernels through the whole stack, compared with numpy: daemon, compiler, sandboxed worker, driver, guest's library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from bench import workloads
from bench.cuda import work
from bench.cuda.gpu import Gpu
from bench.workloads import Workload
from tests.fakes.guest import REPOSITORY
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from vhost_backend.sandbox import launch

EXAMPLES = REPOSITORY / "examples"
LIBVGC = REPOSITORY / "guest_driver" / "libvgc"

WORK: dict[str, tuple[Callable[[], Workload], Callable[[], Workload]]] = {
    "saxpy": (lambda: workloads.saxpy(1 << 20), lambda: workloads.saxpy(1 << 12)),
    "matmul_tiled": (lambda: workloads.matmul_tiled(512), lambda: workloads.matmul_tiled(32)),
    "reduce": (lambda: workloads.reduce(1_000_003, 264), lambda: workloads.reduce(10_007, 4)),
    "stencil": (lambda: work.stencil(1001), lambda: work.stencil(67)),
    "nbody": (lambda: work.nbody(4096), lambda: work.nbody(256)),
    "busy": (lambda: work.busy(1000, 1000), lambda: work.busy(4, 10)),
}
"""Sizes by kernel: for hardware, and small ones for the fake driver."""


@pytest.fixture(scope="module")
def host(any_gpu: Gpu) -> Iterator[GpuHost]:
    with gpu_host(vm(any_gpu)) as made:
        yield made


@pytest.fixture(scope="module")
def dev(host: GpuHost) -> vgc.Device:
    return host.open()


def run(dev: vgc.Device, made: Workload) -> None:
    """Runs a kernel and compares its result with numpy's."""
    arguments = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in made.arguments]
    dev.compile(made.text("cu"))[made.name].launch(made.grid, made.block, *arguments)
    result = arguments[made.result]
    assert isinstance(result, vgc.DeviceArray)
    made.verify(result.get(), "the GPU")


def test_device_reports_a_gpu(dev: vgc.Device, any_gpu: Gpu) -> None:
    info = dev.info()
    assert info.engine == "cuda"
    assert any_gpu.name in info.engine_name
    assert info.processing_elements == any_gpu.num_pes


@pytest.mark.parametrize("name", WORK)
def test_kernel_agrees_with_numpy(dev: vgc.Device, any_gpu: Gpu, name: str) -> None:
    full, small = WORK[name]
    run(dev, full() if any_gpu.driver is None else small())


@pytest.mark.parametrize("sandbox", ["strict", "best-effort"])
def test_worker_computes_behind_the_walls(any_gpu: Gpu, sandbox: str) -> None:
    missing = launch.missing_feature(proc=True)
    if sandbox == "strict" and missing is not None:
        pytest.skip(f"this host has not all walls: {missing}")
    with gpu_host(vm(any_gpu, sandbox=sandbox)) as host:
        run(host.open(), WORK["saxpy"][1]())


def test_streams_wait_for_events(dev: vgc.Device) -> None:
    """A stream copies the result of a kernel in a second stream, behind an event."""
    source = (
        'extern "C" __global__ void add_one(unsigned *data, unsigned count)\n'
        "{ for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) data[i]++; }"
    )
    kernel = dev.compile(source)["add_one"]
    numbers, copy = dev.zeros(1000, "uint32"), dev.zeros(1000, "uint32")
    one, other, event = dev.stream(), dev.stream(), dev.event()
    for _ in range(30):
        kernel.launch_async(4, 64, numbers, np.uint32(1000), stream=one)
    event.record(one)
    other.wait_for(event)
    copy.copy_from(numbers, other)
    other.synchronize()
    assert (copy.get() == 30).all()


@pytest.mark.gpu
def test_examples_run(real_gpu: Gpu, tmp_path: Path) -> None:
    """The programs that the README shows run on hardware."""
    np.save(tmp_path / "picture.npy", np.random.default_rng(1).integers(0, 256, (120, 160, 3), np.uint8))
    with gpu_host(vm(real_gpu)) as host:
        product = host.run(sys.executable, EXAMPLES / "matmul.py", "--size", "100")
        assert product.returncode == 0, product.stdout + product.stderr
        assert "right" in product.stdout
        photo = host.run(sys.executable, EXAMPLES / "photo.py", tmp_path / "picture.npy", "--output", tmp_path)
        assert photo.returncode == 0, photo.stdout + photo.stderr
        assert "WRONG" not in photo.stdout
