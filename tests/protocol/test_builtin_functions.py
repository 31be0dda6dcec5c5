"""Built-in functions against the real daemon, worker and CPU engine: from Python, through numpy, and from a shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.guest import open_device
from tests.protocol.guest_host import GuestHost, guest_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def dev(host: GuestHost) -> Iterator[vgc.Device]:
    with open_device(host.link, host.state_dir) as dev:
        yield dev


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("on_device", [False, True])
def test_groups(dev: vgc.Device, on_device: bool) -> None:
    def put(array: Any) -> Any:
        return dev.to_device(array) if on_device else array

    def take(result: Any) -> Any:
        assert isinstance(result, vgc.DeviceArray) == on_device
        return result.get() if on_device else result

    a, b, whole = numbers(70, 50), numbers(50, 30), np.arange(1000, dtype=np.int64) % 7
    np.testing.assert_allclose(take(dev.blas.gemm(put(a), put(b))), a @ b, atol=1e-4)
    np.testing.assert_allclose(take(dev.reduce.sum(put(a), 1)), a.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(take(dev.scan.sum(put(a))), a.cumsum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(take(dev.fft.rfft(put(a))), np.fft.rfft(a), atol=1e-4)
    np.testing.assert_allclose(take(dev.math.exp(put(a))), np.exp(a), rtol=1e-5)
    assert np.array_equal(take(dev.sort.sort(put(a))), np.sort(a))
    assert np.array_equal(take(dev.sort.unique(put(whole))), np.arange(7))
    assert np.array_equal(take(dev.count.bincount(put(whole))), np.bincount(whole))
    ones = put(np.ones((1, 1, 3, 3), np.float32))
    image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    assert take(dev.conv.conv2d(put(image), ones))[0, 0, 0, 0] == image[0, 0, :3, :3].sum()
    starts, indices = put(np.array([0, 1, 3], np.int32)), put(np.array([1, 0, 2], np.int32))
    product = dev.sparse.spmv(starts, indices, put(np.array([2.0, 3, 4])), put(np.array([1.0, 10, 100])))
    assert take(product).tolist() == [20, 403]


def test_arrays_without_elements(dev: vgc.Device) -> None:
    empty = np.zeros((0, 3), np.float32)
    assert dev.blas.gemm(empty, numbers(3, 2)).shape == (0, 2)
    assert np.array_equal(dev.blas.gemm(np.zeros((2, 0)), np.zeros((0, 2))), np.zeros((2, 2)))
    assert np.array_equal(dev.reduce.sum(empty, 0), np.zeros(3))
    assert dev.sort.unique(dev.to_device(empty)).get().shape == (0,)


def test_random_numbers_are_those_of_the_seed(dev: vgc.Device) -> None:
    found = dev.random.uniform(1000, seed=3).get()
    assert np.array_equal(dev.random.uniform(900, seed=3, offset=100).get(), found[100:])
    assert 0 <= found.min() < found.max() < 1


def test_numpy_computes_on_the_device(dev: vgc.Device) -> None:
    a, b = numbers(20, 30), numbers(30)
    x: Any = dev.to_device(a)
    y = np.sqrt(np.abs(x * 2 - b)) @ np.ones((30, 1), np.float32)
    np.testing.assert_allclose(y.get(), np.sqrt(np.abs(a * 2 - b)) @ np.ones((30, 1)), rtol=1e-4)
    assert np.isclose(float(np.sum(x)), a.sum(), atol=1e-3)


def test_launches_in_a_stream_are_in_order(dev: vgc.Device) -> None:
    x = dev.to_device(np.eye(64, dtype=np.float32) * 2)
    with dev.stream() as stream:
        power = x
        for _ in range(5):
            power = dev.blas.gemm(power, x, stream=stream)
        stream.synchronize()
    assert np.array_equal(power.get(), np.eye(64) * 2**6)


def test_contents_are_refused_by_the_host(dev: vgc.Device) -> None:
    starts, values = np.array([0, 1], np.int32), np.ones(1)
    with pytest.raises(vgc.VgcError, match=r"indices|column|index"):
        dev.sparse.spmv(starts, np.array([5], np.int32), values, np.ones(2))


def test_functions_are_listed(dev: vgc.Device) -> None:
    dev.blas.gemm(numbers(2, 2), numbers(2, 2))
    listed = {one.name: one for one in dev.list_functions() if not one.program}
    assert listed["blas.gemm_f32"].launches >= 1


def test_command_line(host: GuestHost, tmp_path: Path) -> None:
    a, b = numbers(8, 9), numbers(9, 4)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    files: dict[str, str | Path] = {name: tmp_path / f"{name}.npy" for name in "abc"}
    words = ("blas.gemm", "--in", files["a"], "--in", files["b"], "--out", files["c"])
    done = host.run(sys.executable, "-m", "guest_driver", "call", *words)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), a @ b, atol=1e-5)
    listed = host.run(sys.executable, "-m", "guest_driver", "functions").stdout
    assert any(line.startswith("blas.gemm: f16 f32 f64 ") for line in listed.splitlines())
