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
