"""Built-in functions on numpy arrays for which the shared region has no room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.device import Answer, FakeDevice
from tests.fakes.link import GuestLink
from tests.unit.builtins_device import dev, fake
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake"]

REGION_BYTES = 4 << 20
LARGE = np.random.default_rng(0).random(REGION_BYTES // 4, "float64")
"""Twice as large as the region."""


@pytest.fixture
def link() -> Iterator[GuestLink]:
    with GuestLink(region_bytes=REGION_BYTES) as link:
        yield link


def test_inputs_and_results_go_over_device_memory(dev: vgc.Device, fake: FakeDevice) -> None:
    assert np.array_equal(dev.sort.sort(LARGE), np.sort(LARGE))
    assert fake.opcodes().count(Opcode.CALL) == 1
    assert fake.opcodes().count(Opcode.COPY_IN) > 1
    assert fake.memory == {}
    np.testing.assert_allclose(dev.math.add(LARGE[::2], 1), LARGE[::2] + 1)


def test_arrays_are_changed(dev: vgc.Device) -> None:
    y = LARGE.copy()
    assert dev.blas.axpy(2, LARGE, y) is y
    np.testing.assert_allclose(y, 3 * LARGE)


def test_small_arrays_are_one_request(dev: vgc.Device, fake: FakeDevice) -> None:
    dev.sort.sort(LARGE[:100])
    assert (fake.opcodes().count(Opcode.CALL), fake.opcodes().count(Opcode.ALLOC)) == (1, 0)


def test_memory_that_is_used_up_is_told(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.override[Opcode.ALLOC] = lambda _: Answer(Status.OUT_OF_MEMORY, b"no memory")
    with pytest.raises(vgc.OutOfMemory) as caught:
        dev.sort.sort(LARGE)
    assert caught.value.__context__ is None
