"""Rows of built-in functions on the CPU engine, beside the libraries that they use, called on the host, with equal threads."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from bench.device import Device, RequestError
from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.registry import Outcome, row
from bench.results import Goal, SkipRow, outcome
from bench.stats import Subject, alternate
from tools import ducc
from vhost_backend.engines.cpu.builtins import library

STAGING_BYTES: Final = 64 << 20
GEMM: Final = 1536
"""Rows and columns of the product of matrices."""
ROW: Final = 1 << 21
"""Elements of a row that is sorted, or whose running sums are computed; there are as many rows as threads."""
POINTS: Final = 1 << 14
TRANSFORMS: Final = 128
GOAL: Final = Goal("ratio", ">=", 0.9)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """A call of a built-in function, with what tells whether its result is right."""

    function: str
    arguments: Sequence[Any]
    """Numbers and arrays."""

    out: int
    """Index of the argument that has the result; its contents before do not matter."""
    expected: Array
    work: float
    """Amount of work, in `unit` times seconds."""

    unit: str


@cache
def native_library(lab: Lab) -> ctypes.CDLL:
    """Builds and loads the libraries' side.

    :raise SkipRow: it cannot be built here.
    """
    built = lab.own_folder("builtins") / "libnative-builtins.so"
    sources = [
        NATIVE / "builtins.cpp",
        *(ducc.folder() / "ducc0" / name for name in ("infra/threading.cc", "infra/mav.cc", "fft/fft_inst1.cc")),
    ]
    words = [
        "g++",
        "-O3",
        "-march=native",
        "-std=c++20",
        "-shared",
        "-fPIC",
        "-pthread",
        "-DDUCC0_NO_LOWLEVEL_THREADING",
    ]
    words += ["-isystem", str(ducc.folder()), *map(str, sources), "-o", str(built), "-lhwy_contrib", "-lhwy"]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", None) or error
        raise SkipRow(f"the libraries' side does not build: {text}") from error
    return ctypes.CDLL(str(built))


def openblas(threads: int) -> ctypes.CDLL:
    """OpenBLAS with so many threads.

    :raise SkipRow: it is not installed.
    """
    path = library.openblas()
    if path is None:
        raise SkipRow(library.NO_OPENBLAS)
    loaded = ctypes.CDLL(str(path))
    loaded.scipy_openblas_set_num_threads64_(threads)
    return loaded


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def timed(act: Callable[[], object], work: float) -> Subject:
    """Subject that calls `act`; its figure is the work per second."""

    def run() -> float:
        start = time.perf_counter()
        act()
        return work / (time.perf_counter() - start)

    return run


def check(found: Array, call: Call, by: str) -> None:
    """:raise ArithmeticError: the result is wrong."""
    if not np.allclose(found, call.expected, rtol=1e-3, atol=1e-3):
        raise ArithmeticError(f"{call.function} by {by} is wrong")


def on_device(lab: Lab, device: Device, call: Call, cleanup: ExitStack) -> Subject:
    """Prepares and verifies the call on our device.

    :raise ArithmeticError: the result is wrong. :raise SkipRow: the host has no such function.
    """
    staging = lab.staging(device, STAGING_BYTES)
    try:
        function = device.function(0, call.function)
    except RequestError as error:
        raise SkipRow(str(error)) from error
    arguments: list[bytes] = []
    for value, (_, size) in zip(call.arguments, function.params, strict=True):
        if isinstance(value, np.ndarray):
            address = device.upload(value, staging)
            cleanup.callback(device.free, address)
            arguments.append(address.to_bytes(8, "little"))
        else:
            arguments.append(
                np.float64(value).tobytes() if isinstance(value, float) else value.to_bytes(size, "little")
            )
    launch = device.launch(function, (1, 1, 1), (1, 1, 1), arguments)
    device.run(launch)
    found = np.empty_like(call.arguments[call.out])
    device.download(int.from_bytes(arguments[call.out], "little"), found, staging)
    check(found, call, "our device")
    return lambda: call.work / (device.run(launch) / 1e9)


def compare(lab: Lab, name: str, call: Call, native: Callable[[], object], out: Array) -> Iterator[Outcome]:
    """Measures the call on the device and on the host, where it writes `out`."""
    with ExitStack() as cleanup:
        native()
        check(out, call, "the library")
        ours = on_device(lab, lab.device("cpu").device, call, cleanup)
        own, theirs = alternate(lab.samples(15, 5), ours, timed(native, call.work))
    yield outcome(
        name, own, call.unit, "higher", theirs, against=f"the library on the host, {lab.threads} threads", goal=GOAL
    )


@row("builtin_gemm_gflops")
def gemm(lab: Lab) -> Iterator[Outcome]:
    """Product of two matrices of floats."""
    n, rng = GEMM, np.random.default_rng(1)
    a, b = (rng.random((n, n), np.float32) - np.float32(0.5) for _ in range(2))
    out = np.zeros_like(a)
    blas = openblas(lab.threads)
    order, plain, one, none = 101, 111, ctypes.c_float(1), ctypes.c_float(0)
    size = ctypes.c_int64(n)

    def native() -> None:
        blas.scipy_cblas_sgemm64_(
            *(order, plain, plain, size, size, size, one, pointer(a), size, pointer(b), size, none, pointer(out), size)
        )

    arguments = [0, 0, n, n, n, 1.0, a, n, b, n, 0.0, np.zeros_like(a), n, 1, 0, 0, n * n]
    call = Call("blas.gemm_f32", arguments, 11, a.astype(np.float64) @ b, 2 * n**3 / 1e9, "Gflop/s")
    yield from compare(lab, "builtin_gemm_gflops", call, native, out)


def rows_of(lab: Lab, base: str, values: Array, rows: int) -> tuple[Callable[[], object], Array]:
    """Native side of a function of rows, and what it writes."""
    out = np.zeros_like(values)
    function = getattr(native_library(lab), f"base_{base}_rows")
    n = ctypes.c_uint64(values.shape[-1] if values.dtype.kind != "c" else values.shape[1])
    return lambda: function(ctypes.c_uint64(rows), n, pointer(values), pointer(out), ctypes.c_uint(lab.threads)), out


@row("builtin_sort_mkeys")
def sort(lab: Lab) -> Iterator[Outcome]:
    """Rows of floats, each put in order."""
    keys = np.random.default_rng(2).random((lab.threads, ROW), np.float32)
    native, out = rows_of(lab, "sort", keys, lab.threads)
    arguments = [keys, np.zeros_like(keys), lab.threads, ROW, 0]
    call = Call("sort.keys_f32", arguments, 1, np.sort(keys), keys.size / 1e6, "Mkeys/s")
    yield from compare(lab, "builtin_sort_mkeys", call, native, out)


@row("builtin_scan_gbs")
def scan(lab: Lab) -> Iterator[Outcome]:
    """Running sums of rows of doubles; bytes that are read and written."""
    values = np.random.default_rng(3).random((lab.threads, ROW)) - 0.5
    native, out = rows_of(lab, "scan", values, lab.threads)
    arguments = [values, np.zeros_like(values), lab.threads, ROW, 0]
    call = Call("scan.sum_f64", arguments, 1, np.cumsum(values, axis=1), 2 * values.nbytes / 1e9, "GB/s")
    yield from compare(lab, "builtin_scan_gbs", call, native, out)


@row("builtin_fft_gflops")
def fft(lab: Lab) -> Iterator[Outcome]:
    """Fourier transforms of rows of complex floats, 5 n log2(n) operations each."""
    rng = np.random.default_rng(4)
    numbers = (rng.random((TRANSFORMS, POINTS)) + 1j * rng.random((TRANSFORMS, POINTS)) - (0.5 + 0.5j)).astype(
        np.complex64
    )
    native, out = rows_of(lab, "fft", numbers, TRANSFORMS)
    arguments = [numbers, np.zeros_like(numbers), TRANSFORMS, POINTS, 1, 1, 1, 0]
    expected = np.fft.fft(numbers).astype(np.complex64)
    call = Call("fft.c2c_f32", arguments, 1, expected, 5 * numbers.size * np.log2(POINTS) / 1e9, "Gflop/s")
    yield from compare(lab, "builtin_fft_gflops", call, native, out)
