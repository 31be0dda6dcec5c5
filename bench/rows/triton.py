"""Rows of PTX that Triton made, on the CPU engine, beside CUDA C of our own for the same work, and numpy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.device import Device
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import outcome
from bench.stats import Subject, alternate
from bench.workloads import KERNELS
from tests.ptx.triton import kernels
from virtio_proto.schema import ProgramKind

STAGING_BYTES: Final = 64 << 20
LAUNCHES: Final = json.loads((kernels.HERE / "modules.json").read_text())
SCRATCH: Final = [bytes(8), bytes(8)]
"""Null pointers to scratch memory, which follow the parameters of a kernel of Triton's."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Work:
    """Kernel with its arguments, the last array of which has the result, and numpy's way to that."""

    name: str
    grid: tuple[int, ...]
    inputs: tuple[Array, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    numpy: Callable[[], Array]


def _on_device(lab: Lab, device: Device, work: Work, *, triton: bool, cleanup: ExitStack) -> Subject:
    """Prepares and verifies Triton's kernel, or our own.

    :raise ArithmeticError: the result is wrong.
    """
    staging = lab.staging(device, STAGING_BYTES)
    text = (kernels.HERE / f"{work.name}.ptx").read_text() if triton else (KERNELS / "triton.cu").read_text()
    program = device.load(text, ProgramKind.PTX if triton else ProgramKind.CUDA_SOURCE)
    cleanup.callback(device.unload, program)
    found = np.zeros(work.shape, np.float32)
    addresses = [device.upload(array, staging) for array in (*work.inputs, found)]
    for address in addresses:
        cleanup.callback(device.free, address)
    arguments = [np.uint64(address).tobytes() for address in addresses]
    arguments += [np.int32(size).tobytes() for size in work.sizes]
    about = LAUNCHES[work.name]
    launch = device.launch(
        device.function(program, work.name if triton else f"triton_{work.name}"),
        work.grid,
        (about["block"],),
        arguments + SCRATCH if triton else arguments,
        shared_bytes=about["shared_bytes"] if triton else 0,
    )
    device.run(launch)
    device.download(addresses[-1], found, staging)
    if not np.allclose(found, work.numpy(), rtol=1e-3, atol=1e-3):
        raise ArithmeticError(f"{work.name} {'of Triton' if triton else 'in CUDA C'} is wrong")
    return lambda: device.run(launch) / 1e6


def _numpy(work: Work) -> Subject:
    def run() -> float:
        start = time.perf_counter()
        work.numpy()
        return (time.perf_counter() - start) * 1e3

    return run


def _compare(lab: Lab, work: Work) -> Iterator[Outcome]:
    device = lab.device("cpu").device
    with ExitStack() as cleanup:
        triton = _on_device(lab, device, work, triton=True, cleanup=cleanup)
        ours = _on_device(lab, device, work, triton=False, cleanup=cleanup)
        own, by_hand, host = alternate(lab.samples(15, 5), triton, ours, _numpy(work))
    name = f"ptx_triton_{work.name}"
    yield outcome(name, own, "ms", "lower", by_hand, against="CUDA C of our own for the same work")
    yield outcome(f"{name}_beside_numpy", own, "ms", "lower", host, against="numpy on the host")


@row("ptx_triton_add", "ptx_triton_add_beside_numpy")
def add(lab: Lab) -> Iterator[Outcome]:
    """Sum of two vectors of 16,777,216 floats."""
    x, y = np.random.default_rng(1).random((2, 1 << 24), np.float32)
    out = np.empty_like(x)
    grid = (len(x) // kernels.ADD_BLOCK,)
    yield from _compare(lab, Work("add", grid, (x, y), (len(x),), x.shape, lambda: np.add(x, y, out=out)))


@row("ptx_triton_softmax", "ptx_triton_softmax_beside_numpy")
def softmax(lab: Lab) -> Iterator[Outcome]:
    """Softmax of 4096 rows of 1000 floats."""
    x = np.random.default_rng(2).standard_normal((4096, 1000), np.float32)

    def by_numpy() -> Array:
        powers: Array = np.exp(x - x.max(axis=1, keepdims=True))
        powers /= powers.sum(axis=1, keepdims=True)
        return powers

    yield from _compare(lab, Work("softmax", (len(x),), (x,), (x.shape[1],), x.shape, by_numpy))


@row("ptx_triton_matmul", "ptx_triton_matmul_beside_numpy")
def matmul(lab: Lab) -> Iterator[Outcome]:
    """Product of two matrices of 512 x 512 halves, summed as floats; numpy multiplies floats."""
    n = 512
    a, b = np.random.default_rng(3).standard_normal((2, n, n)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    grid = (n // kernels.MATMUL_TILE, n // kernels.MATMUL_TILE)
    yield from _compare(lab, Work("matmul", grid, (a, b), (n, n), (n, n), lambda: wide_a @ wide_b))
