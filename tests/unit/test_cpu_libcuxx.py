"""libcu++ in kernels of the CPU engine: containers, numbers, atomics, barriers, pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, isqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, rig
from vhost_backend.engines.cpu.cccl import HINT, cccl

if cccl() is None:
    pytest.skip(f"libcu++ is not installed: {HINT}", allow_module_level=True)

HERE = Path(__file__).parent
PLACE = np.dtype([("value", np.float32), ("index", np.int32)])
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def plain() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load((HERE / "cpu_libcuxx.cu").read_text())
        yield gpu


@pytest.fixture(scope="module")
def sync() -> Iterator[Rig]:
    with rig(pes=2) as gpu:
        gpu.load((HERE / "cpu_libcuxx_sync.cu").read_text())
        yield gpu


def put(gpu: Rig, values: Array) -> Array:
    return gpu.array(values.shape, values.dtype, values)


def numbers(size: int, top: int = 1000, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(1, top, size).astype(np.int32)


def test_containers(plain: Rig) -> None:
    values = np.sort(numbers(32, 60))
    out = plain.array((8, 8), np.int32)
    plain.launch("containers", 1, 8, put(plain, values), out)
    for row, mine in zip(out.tolist(), values.reshape(8, 4).tolist(), strict=True):
        swapped = [mine[3], mine[1], mine[2], mine[0]]
        dot = sum(a * b for a, b in zip(mine, swapped, strict=True))
        place = np.searchsorted(values[:8], 20)
        assert row == [mine[3], mine[0], mine[3], mine[0] + mine[3], sum(mine), dot, place, gcd(mine[0], mine[1])]


def test_choices(plain: Rig) -> None:
    values, out = np.arange(-16, 16, dtype=np.int32), plain.array((32, 4), np.int32)
    plain.launch("choices", 1, 32, put(plain, values), out)
    for row, x in zip(out.tolist(), values.tolist(), strict=True):
        third = x % 3 == 0
        assert row == [-1 if x % 2 else x // 2, isqrt(x) if x >= 0 else -ord("n"), x * 2 if third else x * 4, third]


def test_words(plain: Rig) -> None:
    values = np.random.default_rng(2).integers(0, 2**32, 64, np.uint32)
    values[:5] = [0, 1, 2**31, 2**32 - 1, 2**32 - 2]
    out = plain.array((64, 12), np.uint32)
    plain.launch("words", 1, 64, put(plain, values), out)
    for row, x in zip(out.tolist(), values.tolist(), strict=True):
        width = x.bit_length()
        trailing = 32 if x == 0 else (x & -x).bit_length() - 1
        rotated = [(x << 5 | x >> 27) & 0xFFFFFFFF, (x >> 7 | x << 25) & 0xFFFFFFFF]
        ones = 32 - (~x & 0xFFFFFFFF).bit_length()
        assert row[:7] == [x.bit_count(), 32 - width, trailing, ones, *rotated, 1 << width - 1 if x else 0]
        assert row[7:] == [width, x.bit_count() == 1, x, -(-(x >> 8) // 10), max(x, 2**31)]


def test_limits(plain: Rig) -> None:
    out = plain.array(8, np.float64)
    plain.launch("limits", 1, 8, out)
    real = np.finfo(np.float64)
    assert out.tolist() == [2**31 - 1, -(2.0**63), 2.0**-23, real.max, np.inf, 8, 1, 3000]


def test_complex_numbers(plain: Rig) -> None:
    random = np.random.default_rng(3)
    a, b = (put(plain, (random.normal(size=64) + 1j * random.normal(size=64)).astype(np.complex64)) for _ in "ab")
    out = plain.array((8, 64), np.complex64)
    plain.launch("complexes", 1, 64, a, b, out, np.int32(64))
    polar = 1.5 * np.exp(1j * a.imag)
    wanted = [a + 2 * b, a * b, a / b, np.exp(a), np.sqrt(a), a.conj(), np.abs(a) + 1j * np.angle(a), polar]
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-6)


def test_matrices(plain: Rig) -> None:
    values, out = np.arange(35, dtype=np.float32).reshape(5, 7), plain.array((7, 5), np.float32)
    plain.launch("matrices", 1, 32, put(plain, values), out, np.int32(5), np.int32(7))
    assert (out == values.T).all()


@pytest.mark.parametrize(("scope", "kind", "blocks"), [
    ("block", np.uint32, 1),
    ("device", np.uint32, 3),
    ("system", np.uint64, 3),
    ("thread", np.uint32, 2),
])  # fmt: skip
def test_atomics(sync: Rig, scope: str, kind: Any, blocks: int) -> None:
    threads = 1 if scope == "thread" else 70 * blocks
    cells = put(sync, np.array([0, 1000, 0, 0, 2**32 - 1, 0, 1, 0], kind))
    sync.launch(f"count_{scope}", blocks, 70, cells)
    mine = [1] if scope == "thread" else list(range(1, 71)) * blocks
    odd = 0
    for x in mine:
        odd ^= x
    both = np.bitwise_or.reduce(mine)
    bits = 8 * np.dtype(kind).itemsize
    product = pow(3, threads, 2**bits)
    wanted = [sum(mine), 1, max(mine), both, (2**32 - 1) & ~int(both), odd, product, 7 if threads > 1 else 8]
    assert cells.tolist()[:7] == wanted[:7]
    assert cells[7] in (7, 8)


def test_atomic_objects(sync: Rig) -> None:
    values = np.random.default_rng(4).permutation(256).astype(np.float32)
    best, total, flags = sync.array(1, PLACE), sync.array(1, np.float64), sync.array(4, np.int32)
    sync.launch("objects", 4, 64, put(sync, values), best, total, flags)
    assert best[0].tolist() == (255.0, int(values.argmax()))
    assert total[0] == values.sum()
    assert (flags == 128).all()


def expected_rounds(size: int) -> Array:
    thread = np.arange(size)
    return np.stack([((thread + 7 * turn + 1) % size) * (turn + 1) for turn in range(4)])


@pytest.mark.parametrize("scope", ["block", "device"])
@pytest.mark.parametrize("size", [96, 33, 1])
def test_barrier(sync: Rig, scope: str, size: int) -> None:
    out = sync.array((4, size), np.int32)
    sync.launch(f"barrier_{scope}", 1, size, out)
    assert (out == expected_rounds(size)).all()


def test_barrier_with_a_function(sync: Rig) -> None:
    out, completions = sync.array((4, 96), np.int32), sync.array(1, np.int32)
    sync.launch("barrier_with_completion", 1, 96, out, completions)
    assert (out == expected_rounds(96)).all()
    assert completions[0] == 8


def test_threads_leave_a_barrier(sync: Rig) -> None:
    out = sync.array(3, np.int32)
    sync.launch("dropped", 1, 128, out)
    assert out.tolist() == [96, 96 + 64, 96 + 64 + 32]


@pytest.mark.parametrize("threads", [128, 64, 40])
def test_producers_and_consumers(sync: Rig, threads: int) -> None:
    half = threads // 2
    values, out = numbers(9 * half), sync.array((9, half), np.int32)
    sync.launch("produce", 1, threads, put(sync, values), out, np.int32(9))
    assert (out == 2 * values.reshape(9, half)[:, ::-1]).all()


def test_copies(sync: Rig) -> None:
    values, out = numbers(384), sync.array((3, 128), np.int32)
    sync.launch("copies", 1, 128, put(sync, values), out)
    assert (out == values.reshape(3, 128)[:, ::-1]).all()


def test_pipeline_of_a_block(sync: Rig) -> None:
    values, out = numbers(5 * 64), sync.array((5, 64), np.int32)
    sync.launch("pipeline_block", 1, 64, put(sync, values), out, np.int32(5))
    assert (out == values.reshape(5, 64)[:, ::-1]).all()


def test_pipeline_with_roles(sync: Rig) -> None:
    values, out = numbers(7 * 32), sync.array((7, 32), np.int32)
    sync.launch("pipeline_roles", 1, 64, put(sync, values), out, np.int32(7))
    assert (out == values.reshape(7, 32)[:, ::-1] + np.arange(7)[:, None]).all()


def test_pipeline_of_a_thread(sync: Rig) -> None:
    values, out = numbers(128), sync.array(128, np.int32)
    sync.launch("pipeline_thread", 1, 64, put(sync, values), out)
    assert (out == values * 10).all()


def test_semaphores(sync: Rig) -> None:
    counter, most = sync.array(1, np.int32), sync.array(1, np.int32)
    sync.launch("semaphores", 1, 48, counter, most)
    assert counter[0] == 48
    assert 1 <= most[0] <= 3


def test_latch(sync: Rig) -> None:
    out = sync.array(64, np.int32)
    sync.launch("latches", 1, 64, out)
    assert (out == (63 - np.arange(64)) ** 2).all()


def test_threads_wait_for_values(sync: Rig) -> None:
    out = sync.array(40, np.int32)
    sync.launch("waits", 1, 40, out)
    assert (out == 39 - np.arange(40)).all()


def test_ptx(sync: Rig) -> None:
    out = sync.array((4, 64), np.uint32)
    sync.launch("ptx", 1, 64, out)
    lane = np.arange(64) % 32
    assert (out[0] == 63 - np.arange(64)).all()
    assert (out[1] == lane).all()
    assert (out[2] == (1 << lane) - 1).all()
    assert (out[3] == 1).all()


def test_programs_without_assertions() -> None:
    """The function behind `assert` is declared by libcu++ itself then."""
    with rig(pes=1) as gpu:
        gpu.load(
            """#include <cassert>
            #include <cuda/std/span>
            extern "C" __global__ void f(int *out) { assert(out == nullptr); cuda::std::span<int> all(out, 2); all[1] = 3; }
            #undef NDEBUG
            #include <cassert>
            extern "C" __global__ void g(int *out) { assert(out == nullptr); }
            int main() { assert(f != g); }""",
            ["-DNDEBUG"],
        )
        out = gpu.array(2, np.int32)
        gpu.launch("f", 1, 1, out)
        assert out.tolist() == [0, 3]
        with pytest.raises(LaunchError, match="out == nullptr"):
            gpu.launch("g", 1, 1, out)
