"""The CUDA engine passes the contract suite on hardware; ``tests/unit`` runs it on the fake driver.

The engine runs in this process, which can have one driver: where tests with the fake one came first, these are skipped.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu
from tests.unit.engine_contract import MIB, EngineContract
from tests.unit.test_cpu_engine_contract import SOURCE
from vhost_backend.engines.base import Engine
from vhost_backend.engines.registry import engine_class

pytestmark = pytest.mark.gpu


@cache
def compiled(gpu: Gpu) -> bytes:
    return cubin_of(SOURCE.encode(), gpu)


class OnGpu(EngineContract):
    assert_ends_worker: ClassVar[bool] = True
    completion: ClassVar[str] = "memory"
    memory: ClassVar[str] = "pool"
    share: ClassVar[int]
    """Divisor of the GPU's processing elements, for an engine on part of the GPU."""

    @pytest.fixture(autouse=True)
    def _gpu(self, real_gpu: Gpu) -> None:
        if "fake-cuda" in Path("/proc/self/maps").read_text():
            pytest.skip("the fake driver is loaded already: run tests/gpu alone")
        self.gpu = real_gpu

    def open_engine(self) -> Engine:
        options = {"device": self.gpu.uuid, "completion": self.completion, "memory": self.memory}
        return engine_class("cuda").open(options, max(2, self.gpu.num_pes // self.share), 16 * MIB, 60 * 10**9)

    def image(self) -> bytes:
        return compiled(self.gpu)


class TestWholeGpu(OnGpu):
    completion = "memory"
    share = 1


class TestPartOfGpu(OnGpu):
    completion = "memory"
    share = 4


class TestCompletionByEvents(OnGpu):
    completion = "event"
    share = 1


class TestMappedMemory(OnGpu):
    memory = "mapped"
    share = 1


class TestMappedMemoryOfPartOfGpu(OnGpu):
    """A green context sees what is mapped for its device."""

    memory = "mapped"
    share = 4
