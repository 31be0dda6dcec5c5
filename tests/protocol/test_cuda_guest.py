"""The guest's binding on the CUDA engine: real daemon, compiler and walls, the fake driver in place of a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.guest import open_device
from tests.protocol.cuda_host import SOURCE, Settings, cuda_link

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vgc.Device]:
    folder = tmp_path_factory.mktemp("host")
    with cuda_link(folder, Settings()) as link, open_device(link, folder / "state") as dev:
        yield dev


def test_an_int_for_a_float_parameter_becomes_a_float(dev: vgc.Device) -> None:
    """Also for a kernel whose name does not encode its parameters."""
    x, y = dev.to_device(X), dev.to_device(np.ones(4, np.float32))
    dev.compile(SOURCE.decode()).saxpy[1, 4](4, 2, x, y)
    assert np.array_equal(y.get(), 1 + 2 * X)


@pytest.mark.parametrize(
    ("number", "value", "words"),
    [
        (0, 4.0, "an integer of 4 bytes"),
        (1, np.int32(2), "a float of 4 bytes"),
        (2, 2.0, "a pointer"),
    ],
)
def test_argument_of_another_kind_is_refused(dev: vgc.Device, number: int, value: object, words: str) -> None:
    arguments: list[object] = [4, 2.0, dev.to_device(X), dev.to_device(X)]
    arguments[number] = value
    with pytest.raises(TypeError, match=words):
        dev.compile(SOURCE.decode()).saxpy[1, 4](*arguments)
