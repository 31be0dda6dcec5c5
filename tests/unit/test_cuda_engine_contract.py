"""The CUDA engine passes the contract suite on the fake driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.cuda_rig import IMAGE, CHalf, fake_driver
from tests.unit.engine_contract import MIB, EngineContract
from vhost_backend._dataplane import lib
from vhost_backend.engines.base import Engine


class OnFake(EngineContract):
    """Common parts: the driver, which must not be misused, and the program."""

    assert_ends_worker: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def driver(self) -> Iterator[FakeDriver]:
        with fake_driver() as driver:
            yield driver

    def image(self) -> bytes:
        return IMAGE


class TestMarkersInMemory(OnFake):
    def open_engine(self) -> Engine:
        return CHalf(FakeDriver(), memory_bytes=16 * MIB)


class TestMarkersAreEvents(OnFake):
    def open_engine(self) -> Engine:
        return CHalf(FakeDriver(), memory_bytes=16 * MIB, completion=lib.VGC_CUDA_EVENT)


class TestMappedMemory(OnFake):
    def open_engine(self) -> Engine:
        return CHalf(FakeDriver(), memory_bytes=16 * MIB, memory_kind=lib.VGC_CUDA_MAPPED)


class TestCudaEngine(OnFake):
    """The whole engine, with its Python half."""

    memory: ClassVar[str] = "pool"

    def open_engine(self) -> Engine:
        pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
        from vhost_backend.engines.cuda.engine import CudaEngine

        options = {"driver": str(FakeDriver().path), "memory": self.memory}
        return CudaEngine.open(options, 8, 16 * MIB, 10**9)


class TestCudaEngineWithMappedMemory(TestCudaEngine):
    memory = "mapped"
