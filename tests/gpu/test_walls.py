"""The driver in the strict sandbox with its system call filter: all that it opens and calls while it works."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from vhost_backend.sandbox import launch

MIB = 1 << 20
SOURCE = """
extern "C" __global__ void add_one(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i]++;
}
"""


DONE_WITHOUT = frozenset({"socket", "connect", "mlock"})
"""System calls that the driver tries, without needing them (`vhost_backend.engines.cuda.host`)."""


@pytest.fixture(autouse=True)
def walls() -> None:
    missing = launch.missing_feature(proc=True)
    if missing is not None:
        pytest.skip(f"this host has not all walls: {missing}")


def work(host: GpuHost) -> None:
    """Does something of every kind that makes the driver open files or make system calls."""
    dev = host.open()
    count = 1000
    x = dev.to_device(np.arange(count, dtype=np.int32))
    dev.compile(SOURCE)["add_one"].launch(4, 256, x, count)
    assert np.array_equal(x.get(), np.arange(1, count + 1))
    for _ in range(3):
        dev.alloc(64 * MIB).free()


def test_everything_works_behind_strict_walls(any_gpu: Gpu) -> None:
    with gpu_host(vm(any_gpu, sandbox="strict")) as host:
        work(host)


def test_driver_makes_no_call_that_strict_walls_lack(any_gpu: Gpu) -> None:
    """If the test above fails, this one names in one run all calls of a new driver that the filter denies."""
    with gpu_host(vm(any_gpu, sandbox="permissive")) as host:
        work(host)
        log = (host.vgcd.folder / "vgcd.log").read_text()
    assert "sandbox_permissive" in log
    told = set(re.findall(r"call_not_allowed .*?\bcall='?([^' ]+)", log))
    assert told <= DONE_WITHOUT, f"the filter denies {sorted(told - DONE_WITHOUT)}"
