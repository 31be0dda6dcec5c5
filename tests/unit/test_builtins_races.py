"""Built-in functions on memory that the VM changes while a call runs: nothing outside of the call's memory is touched."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

TYPES: Final = ("i32", "i64", "u32", "u64", "f32", "f64")
GUARD: Final = 1 << 20
"""Bytes of canaries. Sorting has been seen to leave its array by that much."""

WRITER: Final = """
import itertools, mmap, sys

fd, begin, size = map(int, sys.argv[1:])
memory = mmap.mmap(fd, 0)
contents = [sys.stdin.buffer.read(size) for _ in range(2)]
print("begun", flush=True)
for content in itertools.cycle(contents):
    memory[begin : begin + size] = content
"""
"""Program that changes memory for as long as it lives."""


def buffers_of(arrays: dict[str, Array]) -> dict[str, rig.Buffer]:
    return {name: rig.Buffer(array.tobytes(), guard=GUARD, is_shared=True) for name, array in arrays.items()}


def packed(builtin: Any, buffers: dict[str, rig.Buffer], **values: float) -> Any:
    addresses = {name: buffer.address for name, buffer in buffers.items()}
    block = rig.pack(builtin, addresses | values)
    rig.check(builtin, block)
    return block


def inside(buffer: rig.Buffer, dtype: Any) -> Array:
    return buffer.memory[buffer.begin : buffer.begin + buffer.size].view(dtype)


@contextlib.contextmanager
def changing(buffer: rig.Buffer, dtype: Any, values: tuple[Any, Any], part: slice = slice(None)) -> Iterator[None]:
    """A process writes one value and then another to the elements, again and again."""
    elements = inside(buffer, dtype)[part]
    contents = b"".join(np.full(elements.shape, value, dtype).tobytes() for value in values)
    begin = elements.ctypes.data - buffer.memory.ctypes.data
    words = [sys.executable, "-I", "-c", WRITER, *map(str, (buffer.fd, begin, elements.nbytes))]
    with subprocess.Popen(words, pass_fds=[buffer.fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: PT018
            process.stdin.write(contents)
            process.stdin.flush()
            assert process.stdout.readline() == b"begun\n"
            yield
        finally:
            process.kill()


def call_often(builtin: Any, block: Any, buffers: dict[str, rig.Buffer], calls: int = 100) -> None:
    for seed in range(calls):
        with contextlib.suppress(rig.FailedError):
            rig.run(builtin, block, seed=seed)
    for buffer in buffers.values():
        buffer.check(written=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("hostile", ["falling", "rising", "equal"])
@pytest.mark.parametrize("n", [600_000, 1_500_000])
def test_sorted_runs_that_change_between_steps_are_merged_in_their_memory(dtype: str, hostile: str, n: int) -> None:
    numbers = np.arange(n).astype(DTYPES[dtype])
    wrong = {"falling": numbers[::-1].copy(), "rising": numbers, "equal": np.full_like(numbers, 7)}[hostile]
    order = np.random.default_rng(n).permutation(n)
    buffers = buffers_of({"in": numbers[order], "out": numbers})
    builtin = rig.named(f"sort.keys_{dtype}")
    block = packed(builtin, buffers, outer=1, n=n)
    steps = []

    def overwrite(step: int) -> None:
        steps.append(step)
        for half in (0, n // 2):
            inside(buffers["out"], wrong.dtype)[half : half + n // 2] = wrong[n // 2 - half : n - half]

    rig.run(builtin, block, after_step=overwrite)
    assert len(steps) > 2
    buffers["out"].check(written=True)
    buffers["in"].check(written=False)


@pytest.mark.parametrize("dtype", TYPES)
def test_keys_are_sorted_apart_from_the_memory_of_the_vm(dtype: str) -> None:
    """Otherwise what the VM writes meanwhile is sorted, too; vqsort may even leave its array then."""
    n = 30_000
    keys = np.full(n, 7, DTYPES[dtype])
    buffers = buffers_of({"in": keys, "out": keys})
    builtin = rig.named(f"sort.keys_{dtype}")
    block = packed(builtin, buffers, outer=1, n=n)
    out = inside(buffers["out"], keys.dtype)
    with changing(buffers["out"], keys.dtype, (0, 9), slice(n // 2, n // 2 + 9)):
        for _ in range(100):
            call_often(builtin, block, buffers, 1)
            assert np.all(out[: n // 2] == 7)
            assert np.all(out[n // 2 + 9 :] == 7)


@pytest.mark.parametrize("dtype", ["i32", "i64", "u32", "u64"])
@pytest.mark.parametrize("bins", [100, 1 << 17])
def test_numbers_that_change_are_counted_in_their_bins(dtype: str, bins: int) -> None:
    n = 300_000
    buffers = buffers_of({"in": np.zeros(n, DTYPES[dtype]), "counts": np.zeros(bins, np.int64)})
    builtin = rig.named(f"count.bincount_{dtype}")
    with changing(buffers["in"], DTYPES[dtype], (1, np.iinfo(DTYPES[dtype]).max)):
        call_often(builtin, packed(builtin, buffers, n=n, bins=bins), buffers)


@pytest.mark.parametrize("changed", ["row_starts", "indices"])
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_sparse_matrix_that_changes_is_read_in_its_memory(index: str, changed: str) -> None:
    rows, each, columns = 3000, 30, 50
    dtype = DTYPES[index]
    arrays = {
        "row_starts": (np.arange(rows + 1) * each).astype(dtype),
        "indices": (np.arange(rows * each) % columns).astype(dtype),
        "values": np.ones(rows * each, np.float32),
        "x": np.ones(columns, np.float32),
        "y": np.ones(rows, np.float32),
    }
    buffers = buffers_of(arrays)
    builtin = rig.named(f"sparse.spmv_f32_{index}")
    block = packed(builtin, buffers, rows=rows, columns=columns, nonzeros=rows * each, alpha=1, beta=1)
    hostile = np.full_like(arrays[changed], np.iinfo(dtype).max // 2)
    with changing(buffers[changed], dtype, (arrays[changed], hostile)):
        call_often(builtin, block, buffers)


@pytest.mark.parametrize("dtype", ["i32", "i64", "u32", "u64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_divisor_that_becomes_zero_is_no_fault(name: str, dtype: str) -> None:
    n = 100_000
    least = np.iinfo(DTYPES[dtype]).min
    a, b = np.full(n, least, DTYPES[dtype]), np.ones(n, DTYPES[dtype])
    buffers = buffers_of({"a": a, "b": b, "out": a})
    strides = {"shape0": 1, "shape1": 1, "shape2": 1, "shape3": n, "a_stride3": 1, "b_stride3": 1}
    builtin = rig.named(f"math.{name}_{dtype}")
    with changing(buffers["b"], DTYPES[dtype], (0, -1 if least < 0 else 1)):
        call_often(builtin, packed(builtin, buffers, **strides), buffers)


@pytest.mark.parametrize("n", [300, 2_000_000])
@pytest.mark.parametrize("counted", ["none", "some", "all"])
def test_positions_of_what_becomes_true_after_it_was_counted_stay_in_their_memory(n: int, counted: str) -> None:
    flags = (np.random.default_rng(n).random(n) < {"none": 0, "some": 0.5, "all": 1}[counted]).astype(np.uint8)
    arrays: dict[str, Array] = {"in": flags, "out": np.full(n, -1, np.int64), "count": np.zeros(1, np.int64)}
    buffers = buffers_of(arrays)
    builtin = rig.named("select.nonzero_b8")
    rig.run(builtin, packed(builtin, buffers, n=n), after_step=lambda _: inside(buffers["in"], np.uint8).fill(255))
    assert inside(buffers["count"], np.int64)[0] == flags.sum()
    positions = inside(buffers["out"], np.int64)
    assert np.all((positions >= -1) & (positions < n))
    for name in ("out", "count"):
        buffers[name].check(written=True)


@pytest.mark.parametrize("n", [100_000])
def test_truth_that_changes_is_found_in_its_memory(n: int) -> None:
    arrays: dict[str, Array] = {
        "in": np.zeros(n, np.uint8),
        "out": np.zeros(n, np.int64),
        "count": np.zeros(1, np.int64),
    }
    buffers = buffers_of(arrays)
    builtin = rig.named("select.nonzero_b8")
    block = packed(builtin, buffers, n=n)
    with changing(buffers["in"], np.uint8, (0, 2)):
        for _ in range(20):
            call_often(builtin, block, buffers, 1)
            positions, count = inside(buffers["out"], np.int64), inside(buffers["count"], np.int64)[0]
            assert np.all((positions >= 0) & (positions < n))
            assert 0 <= count <= n


@pytest.mark.parametrize("size", [1, 8, 12, 70_000])
@pytest.mark.parametrize("most_bytes", [1 << 20])
def test_indices_that_change_name_items_alone(size: int, most_bytes: int) -> None:
    n, count = 10, most_bytes // size
    items = np.full(n * size, 7, np.uint8)
    arrays: dict[str, Array] = {
        "in": items,
        "indices": np.zeros(count, np.int64),
        "out": np.full(count * size, 7, np.uint8),
    }
    buffers = buffers_of(arrays)
    builtin = rig.named("select.take_i64")
    block = packed(builtin, buffers, n=n, item_bytes=size, num_indices=count)
    with changing(buffers["indices"], np.int64, (n - 1, n + (1 << 20) // size // 2)):
        for _ in range(20):
            call_often(builtin, block, buffers, 1)
            assert np.all(inside(buffers["out"], np.uint8) == 7)  # canaries are not


@pytest.mark.parametrize("dtype", ["b8", "f16", "f32", "f64"])
@pytest.mark.parametrize("n", [100_000])
def test_condition_that_changes_chooses_among_two(dtype: str, n: int) -> None:
    ones, zeros = np.ones(n, DTYPES[dtype]), np.zeros(n, DTYPES[dtype])
    buffers = buffers_of({"condition": np.zeros(n, np.uint8), "a": ones, "b": zeros, "out": zeros})
    shape = {"shape0": 1, "shape1": 1, "shape2": 1, "shape3": n}
    strides = {"condition_stride3": 1, "a_stride3": 1, "b_stride3": 1}
    builtin = rig.named(f"math.where_{dtype}")
    block = packed(builtin, buffers, **shape, **strides)
    with changing(buffers["condition"], np.uint8, (0, 255)):
        for _ in range(20):
            call_often(builtin, block, buffers, 1)
            assert np.all(np.isin(inside(buffers["out"], ones.dtype), (0, 1)))
