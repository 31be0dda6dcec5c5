"""Modules that Triton made of the kernels in tests/ptx/triton, on the software GPU beside numpy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.ptx.anew import compile_anew, needs_frameworks
from tests.ptx.triton import kernels
from tests.unit.cpu_rig import LaunchError, Rig, Shape, rig

SCRATCH: Final = (np.uint64(0), np.uint64(0))
"""Pointers that follow a kernel's own parameters; none of these kernels needs scratch memory."""


@dataclass(frozen=True)
class Modules:
    """Loaded modules, and the folder they are from."""

    gpu: Rig
    folder: Path

    @property
    def launches(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "modules.json").read_text())
        return found

    def run(self, name: str, grid: Shape, *args: Any) -> None:
        about = self.launches[name]
        self.gpu.launch(name, grid, about["block"], *args, *SCRATCH, shared=about["shared_bytes"])


@pytest.fixture(scope="module", params=["kept", pytest.param("anew", marks=[needs_frameworks, pytest.mark.slow])])
def modules(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modules]:
    """The modules that the repository keeps, or those that Triton makes now."""
    folder = kernels.HERE
    if request.param == "anew":
        folder = compile_anew(folder / "kernels.py", tmp_path_factory.mktemp("triton")).parent
    with rig(pes=2) as made:
        for path in sorted(folder.glob("*.ptx")):
            made.load_ptx(path.read_text())
        yield Modules(made, folder)


@pytest.fixture
def gpu(modules: Modules) -> Rig:
    return modules.gpu


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


def test_every_kernel_has_a_module(modules: Modules) -> None:
    assert {path.stem for path in modules.folder.glob("*.ptx")} == set(modules.launches) - {"made_with"}


def test_sum_of_vectors(modules: Modules, gpu: Rig) -> None:
    x, y, out = (
        gpu.array(2500, np.float32, normal(2500)),
        gpu.array(2500, np.float32, 2),
        gpu.array(2600, np.float32, 7),
    )
    modules.run("add", 3, x, y, out, np.int32(2500))
    assert np.array_equal(out[:2500], x + y)
    assert np.all(out[2500:] == 7)


def test_softmax(modules: Modules, gpu: Rig) -> None:
    x, out = gpu.array((7, 900), np.float32, 3 * normal(7, 900)), gpu.array((7, 900), np.float32)
    modules.run("softmax", 7, x, out, np.int32(900))
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-8)


def test_product_of_halves_in_a_pipeline(modules: Modules, gpu: Rig) -> None:
    m, n, k = 128, 192, 160
    a, b = gpu.array((m, k), np.float16, normal(m, k)), gpu.array((k, n), np.float16, normal(k, n))
    c = gpu.array((m, n), np.float32)
    modules.run("matmul", (2, 3), a, b, c, np.int32(n), np.int32(k))
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-4)


def test_attention(modules: Modules, gpu: Rig) -> None:
    n, head = 96, kernels.HEAD
    q, k, v = (gpu.array((n, head), np.float16, np.roll(normal(n, head), at)) for at in range(3))
    out = gpu.array((n, head), np.float32)
    modules.run("attention", n // 32, q, k, v, out, np.int32(n))
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert np.allclose(out, powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float64), atol=4e-3)


def test_sort_in_registers(modules: Modules, gpu: Rig) -> None:
    x, out = gpu.array(128, np.float32, normal(128)), gpu.array(128, np.float32)
    modules.run("sort", 1, x, out)
    assert np.array_equal(out, np.sort(x))


def test_histogram_with_atomics(modules: Modules, gpu: Rig) -> None:
    values = np.random.default_rng(2).integers(0, kernels.BINS, 1000)
    x, counts = gpu.array(1000, np.int32, values), gpu.array(kernels.BINS, np.int32)
    modules.run("histogram", 4, x, counts, np.int32(1000))
    assert np.array_equal(counts, np.bincount(values, minlength=kernels.BINS))


def philox(seed: int, count: int) -> np.ndarray[Any, Any]:
    """First word of Philox 4x32-10 for each counter below `count`."""
    low, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))
    keys = [seed, 0]
    for _ in range(10):
        left, right = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (right >> word) ^ c1 ^ np.uint64(keys[0]), (left >> word) ^ c3 ^ np.uint64(keys[1])
        c1, c3 = right & low, left & low
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return c0.astype(np.uint32)


def test_random_numbers_are_philox(modules: Modules, gpu: Rig) -> None:
    out = gpu.array(512, np.float32)
    modules.run("random", 2, out, np.int32(42))
    words = philox(42, 512).view(np.int32).astype(np.int64)
    assert np.allclose(out, np.where(words < 0, -words - 1, words) * 4.6566127342e-10, rtol=1e-6)


def test_prints_and_assertions(modules: Modules, gpu: Rig) -> None:
    x = gpu.array(32, np.float32, np.arange(32))
    modules.run("prints", 1, x, np.int32(20))
    lines = gpu.take_output()[0].splitlines()
    assert len(lines) == 32
    assert lines[3].startswith("pid (0, 0, 0) idx ( 3)")
    assert lines[3].endswith("3.000000")
    x[5] = 200
    with pytest.raises(LaunchError, match=r"thread: \[5,0,0\] Assertion `too large` failed"):
        modules.run("prints", 1, x, np.int32(20))
