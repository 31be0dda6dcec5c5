"""CUB in kernels of the CPU engine: algorithms of blocks, warps and threads, compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.cpu_rig import Rig, rig
from vhost_backend.engines.cpu.cccl import HINT, cccl

if cccl() is None:
    pytest.skip(f"CUB is not installed: {HINT}", allow_module_level=True)

HERE = Path(__file__).parent
PAIR = np.dtype([("key", np.int32), ("weight", np.float32)])
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def blocks() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load((HERE / "cpu_cub_blocks.cu").read_text())
        yield gpu


@pytest.fixture(scope="module")
def warps() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load((HERE / "cpu_cub_warps.cu").read_text())
        yield gpu


def numbers(kind: Any, size: int, seed: int = 1) -> Array:
    """Numbers whose sums are exact in every type."""
    return np.random.default_rng(seed).integers(0, 1000, size).astype(kind)


def put(gpu: Rig, values: Array) -> Array:
    return gpu.array(values.shape, values.dtype, values)


REDUCTIONS = [
    ("int", np.int32, 32),
    ("int", np.int32, 100),
    ("int", np.int32, 256),
    ("float", np.float32, 128),
    ("float", np.float32, 96),
    ("double", np.float64, 512),
]


@pytest.mark.parametrize(("name", "kind", "size"), REDUCTIONS)
def test_block_is_reduced(blocks: Rig, name: str, kind: Any, size: int) -> None:
    values, out = put(blocks, numbers(kind, size)), blocks.array(3, kind)
    valid = size * 2 // 3
    blocks.launch(f"reduce_{name}_{size}", 1, size, values, out, np.int32(valid))
    assert out.tolist() == [values.sum(), values.max(), values[:valid].sum()]


def test_structs_are_reduced(blocks: Rig) -> None:
    pairs, out = blocks.array(128, PAIR), blocks.array(1, PAIR)
    pairs["key"], pairs["weight"] = np.arange(128), np.random.default_rng(2).permutation(128)
    blocks.launch("reduce_pairs", 1, 128, pairs, out)
    assert out[0] == pairs[pairs["weight"].argmax()]


def test_block_of_three_dimensions_is_reduced(blocks: Rig) -> None:
    values, out = put(blocks, numbers(np.int32, 60)), blocks.array(1, np.int32)
    blocks.launch("planes", 1, (4, 3, 5), values, out)
    assert out[0] == values.sum()


SCANS = [
    ("int", np.int32, 64, 1),
    ("long", np.int64, 128, 3),
    ("int", np.int32, 256, 4),
    ("float", np.float32, 96, 2),
]


@pytest.mark.parametrize(("name", "kind", "size", "items"), SCANS)
def test_block_is_scanned(blocks: Rig, name: str, kind: Any, size: int, items: int) -> None:
    count = size * items
    values, out = put(blocks, numbers(kind, count)), blocks.array(3 * count + size, kind)
    blocks.launch(f"scan_{name}_{size}", 1, size, values, out)
    sums = values.cumsum(dtype=kind)
    assert (out[:count] == sums).all()
    assert (out[count : 2 * count] == sums - values).all()
    assert (out[2 * count : 3 * count] == np.maximum.accumulate(values)).all()
    assert (out[3 * count :] == sums[-1]).all()


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(("name", "kind", "shape"), [
    ("int", np.int32, (64, 4)),
    ("float", np.float32, (128, 3)),
    ("unsigned", np.uint64, (32, 2)),
])  # fmt: skip
def test_block_is_sorted(blocks: Rig, name: str, kind: Any, shape: tuple[int, int], down: bool) -> None:
    size, count = shape[0], shape[0] * shape[1]
    unsorted = np.random.default_rng(3).integers(-(2**31), 2**31, count).astype(kind)
    unsorted[:5] = unsorted[5]  # equal keys keep their order
    keys, values = put(blocks, unsorted), put(blocks, np.arange(count, dtype=np.int32))
    blocks.launch(f"sort_{name}", 1, size, keys, values, np.int32(down))
    order = np.lexsort((np.arange(count), unsorted))
    if down:
        order = np.lexsort((-np.arange(count), unsorted))[::-1]
    assert (keys == unsorted[order]).all()
    assert (values == order).all()


def test_some_bits_of_keys_are_sorted(blocks: Rig) -> None:
    unsorted = np.random.default_rng(4).integers(0, 2**32, 128, np.uint32)
    keys = put(blocks, unsorted)
    blocks.launch("sort_some_bits", 1, 64, keys)
    assert (keys == unsorted[np.argsort(unsorted >> 4 & 0xFF, kind="stable")]).all()


def test_structs_are_merge_sorted(blocks: Rig) -> None:
    pairs = blocks.array(256, PAIR)
    pairs["key"], pairs["weight"] = numbers(np.int32, 256) % 20, np.arange(256)
    before = pairs.copy()
    blocks.launch("merge_sort", 1, 128, pairs)
    assert (pairs == before[np.argsort(before["key"], kind="stable")]).all()


@pytest.mark.parametrize("how", ["sort", "atomic"])
def test_histogram(blocks: Rig, how: str) -> None:
    values, out = put(blocks, (numbers(np.int32, 512) % 37).astype(np.uint8)), blocks.array(256, np.uint32)
    blocks.launch(f"histogram_{how}", 1, 128, values, out)
    assert (out == np.bincount(values, minlength=256)).all()


def test_items_are_exchanged(blocks: Rig) -> None:
    values, out = put(blocks, numbers(np.int32, 256)), blocks.array(768, np.int32)
    blocks.launch("exchange", 1, 64, values, out)
    assert (out[:256] == values).all()
    assert (out[256:512] == values).all()
    assert (out[512:] == values[::-1]).all()


def test_partial_tile_is_loaded_and_stored(blocks: Rig) -> None:
    values, out = put(blocks, numbers(np.int16, 480)), blocks.array(480, np.int16, 7)
    blocks.launch("load_and_store", 1, 96, values, out, np.int32(321))
    assert (out[:321] == values[:321] + 1).all()
    assert (out[321:] == 7).all()


def test_neighbours(blocks: Rig) -> None:
    values = put(blocks, numbers(np.int32, 128) % 3)
    heads, differences, shifted = (blocks.array(128, np.int32) for _ in range(3))
    blocks.launch("neighbours", 1, 64, values, heads, differences, shifted)
    assert (heads == np.r_[1, values[1:] != values[:-1]]).all()
    assert (differences == np.r_[values[0], np.diff(values)]).all()
    assert (shifted[1:] == values[:-1]).all()


def count_of(width: int) -> int:
    """Warps in a block; CUB has several only of a power of two lanes."""
    return 4 if width & (width - 1) == 0 else 1


@pytest.mark.parametrize(("name", "kind", "width"), [
    ("int", np.int32, 32),
    ("float", np.float32, 16),
    ("long", np.int64, 8),
    ("unsigned", np.uint32, 6),
    ("double", np.float64, 32),
])  # fmt: skip
def test_warps_are_reduced(warps: Rig, name: str, kind: Any, width: int) -> None:
    count = count_of(width)
    values, out = put(warps, numbers(kind, count * width)), warps.array((count, 3), kind)
    warps.launch(f"reduce_{name}_{width}", 1, count * width, values, out)
    rows = values.reshape(count, width)
    assert (out == np.stack([rows.sum(1), rows.max(1), rows[:, :5].sum(1)], 1)).all()


@pytest.mark.parametrize(("name", "kind", "width"), [
    ("int", np.int32, 32),
    ("float", np.float32, 16),
    ("long", np.int64, 8),
    ("int", np.int32, 7),
])  # fmt: skip
def test_warps_are_scanned(warps: Rig, name: str, kind: Any, width: int) -> None:
    count = count_of(width)
    values, out = put(warps, numbers(kind, count * width)), warps.array((4, count, width), kind)
    warps.launch(f"scan_{name}_{width}", 1, count * width, values, out)
    rows = values.reshape(count, width)
    sums = rows.cumsum(1, dtype=kind)
    assert (out[0] == sums).all()
    assert (out[1] == sums - rows).all()
    assert (out[2] == np.maximum.accumulate(rows, 1)).all()
    assert (out[3] == rows[:, 3:4]).all()


def test_warps_are_sorted(warps: Rig) -> None:
    unsorted = numbers(np.int32, 256) % 50
    keys, values = put(warps, unsorted), put(warps, np.arange(256, dtype=np.int32))
    warps.launch("sort", 1, 64, keys, values)
    for warp in range(4):
        part = slice(64 * warp, 64 * warp + 64)
        order = np.argsort(unsorted[part], kind="stable")
        assert (keys[part] == unsorted[part][order]).all()
        assert (values[part] == 64 * warp + order).all()


def test_items_of_warps_are_exchanged(warps: Rig) -> None:
    values, out = put(warps, numbers(np.int32, 256)), warps.array(256, np.int32)
    warps.launch("exchange", 1, 64, values, out)
    assert (out == values).all()


@pytest.mark.parametrize(("name", "kind"), [
    ("char", np.int8),
    ("short", np.int16),
    ("int", np.int32),
    ("long", np.int64),
    ("float", np.float32),
    ("double", np.float64),
    ("float4", "4f4"),
])  # fmt: skip
def test_loads_and_stores_with_modifiers(warps: Rig, name: str, kind: Any) -> None:
    lanes = 4 if name == "float4" else 1
    element = np.float32 if name == "float4" else kind
    values, out = (
        put(warps, (numbers(np.int32, 40 * lanes) % 100).astype(element)),
        warps.array((7, 40 * lanes), element),
    )
    warps.launch(f"copy_{name}", 1, 40, values, out)
    assert (out == values).all()


def test_words(warps: Rig) -> None:
    x, out = put(warps, np.random.default_rng(5).integers(0, 2**32, 32, np.uint32)), warps.array((32, 8), np.uint32)
    warps.launch("words", 1, 32, x, out)
    lane = np.arange(32)
    assert (out[:, 0] == (x >> 5 & 127)).all()
    assert (out[:, 1] == 0xFF << (lane // 8 * 8)).all()
    assert (out[:, 2] == x[np.where(lane % 8 >= 1, lane - 1, lane)]).all()
    assert (out[:, 3] == x[np.where(lane + 5 < 32, lane + 5, lane)]).all()
    assert (out[:, 4] == x[np.where(lane >= 3, lane - 3, lane)]).all()
    assert (out[:, 5] == x[np.where(lane % 16 + 2 < 16, lane + 2, lane)]).all()
    assert (out[:, 6] == x[9]).all()
    assert (out[:, 7] == [sum(1 << int(i) for i in lane[(x & 15) == (x[n] & 15)]) for n in lane]).all()


def test_threads(warps: Rig) -> None:
    values, out = put(warps, numbers(np.int32, 60) % 7), warps.array((10, 8), np.int32)
    warps.launch("threads", 1, 10, values, out)
    for row, mine in zip(out, values.reshape(10, 6), strict=True):
        sums = np.r_[mine[0], mine[0] + (mine[1:] ** 2).cumsum()]
        assert row[:3].tolist() == [mine.max(), np.searchsorted(sums, 50, "left"), np.searchsorted(sums, 50, "right")]


@pytest.fixture(scope="module")
def cuda12() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load((HERE / "cpu_cub_cuda12.cu").read_text())
        yield gpu


def test_names_of_cuda_12_for_lanes(cuda12: Rig) -> None:
    out = cuda12.array((13, 64), np.uint32)
    cuda12.launch("lanes", 1, (16, 4), out)
    t = np.arange(64, dtype=np.uint64)
    lane = t % 32
    below = (np.uint64(1) << lane) - 1
    upto = 2 * below + 1
    full = 0xFFFFFFFF
    expected = [
        *(lane, t // 32, below, upto, full - upto, full - below),
        0xFFFFF00F | t << 4,
        8 * t + 1000,
        t // 2 + 1000,
        t + 320,
        t | 0x44 << 8 | t << 16 | 0x11 << 24,
        t // 32 * 32 + 5,
        np.where(t < 32, sum(1 << i for i in range(0, 32, 3)), sum(1 << i for i in range(1, 32, 3))),
    ]
    for row, wanted in enumerate(expected):
        assert (out[row] == wanted).all(), row


def test_operators_of_cuda_12(cuda12: Rig) -> None:
    values, out = put(cuda12, numbers(np.int32, 64)), cuda12.array(8, np.float64)
    cuda12.launch("operators", 1, 64, values, out)
    largest = float(np.finfo(np.float32).max)
    assert out.tolist() == [values.max(), values.min(), values.sum(), 1, -7, 2.5, largest, 4 + 16 + 4 + 7]


def test_iterators_of_cuda_12(cuda12: Rig) -> None:
    values, out = put(cuda12, numbers(np.int32, 8)), cuda12.array(7, np.float64)
    cuda12.launch("iterators", 1, 1, values, out)
    assert out.tolist() == [2 * values[2], 2 * values[3], 3, 45, 2.5, 5, 50]


def test_function_objects_of_cuda_12(cuda12: Rig) -> None:
    values, out = put(cuda12, numbers(np.int32, 100)), cuda12.array(6, np.int32)
    cuda12.launch("functions", 1, 1, values, out, np.int32(100))
    assert out.tolist() == [100, (values % 2).sum(), values[0], 1, values[1] - 1, values.sum()]
