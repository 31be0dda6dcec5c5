"""Rows of loading programs, compiled for the first time or cached."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from typing import Final

import numpy as np

from bench.device import Device
from bench.lab import Lab
from bench.native import build as native
from bench.opencl import OpenCl
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.stats import Subject, alternate, attempt
from bench.workloads import KERNELS
from virtio_proto.schema import ProgramKind

_serial = count(time.time_ns())
"""Serial numbers that make sources which no cache has."""

_PIECE: Final = 256
_PROGRAMS: Final = (
    *("bfs", "gaussian", "histogram", "hotspot", "lavamd", "lud", "matmul", "nbody", "nw", "reduce", "saxpy", "scan"),
    *("spmv", "stencil", "transpose"),
)
"""Benchmarks' programs that include nothing: 21 kernels together."""
_COPIES: Final = 3


def fresh(language: str) -> str:
    """Source of saxpy that was never compiled before."""
    return (KERNELS / f"saxpy.{language}").read_text() + f"/* {next(_serial)} */\n"


def large(copies: int) -> str:
    """Source with so many copies of the benchmarks' kernels that was never compiled before, C++ but for CUDA's words."""
    texts = {name: (KERNELS / f"{name}.cu").read_text().replace('extern "C" ', "") for name in _PROGRAMS}
    spaces = (f"namespace {name}_{copy} {{\n{text}}}\n" for copy in range(copies) for name, text in texts.items())
    return "".join(spaces) + f"/* {next(_serial)} */\n"


def _native_ms(copies: int) -> float:
    """Measures a C++ compiler with the same source, each kernel a function of one thread."""
    argv = [native.compiler(), "-std=c++17", "-O2", "-march=native", "-Wno-invalid-feature-combination"]
    argv += ["-include", str(native.HERE / "plain_cuda.h"), "-x", "c++", "-c", "-o", os.devnull, "-"]
    start = time.perf_counter()
    subprocess.run(argv, input=large(copies), text=True, check=True)
    return (time.perf_counter() - start) * 1e3


def load_ms(device: Device, source: str, kind: ProgramKind = ProgramKind.CUDA_SOURCE) -> float:
    """Measures one PROGRAM_LOAD; unloads the program afterwards, unmeasured."""
    start = time.perf_counter()
    program = device.load(source, kind)
    elapsed = time.perf_counter() - start
    device.unload(program)
    return elapsed * 1e3


def _pocl_ms(pocl: OpenCl) -> float:
    """Measures until a kernel that is new to PoCL has run for the first time, because PoCL compiles at the launch."""
    vector = pocl.buffer(np.zeros(_PIECE, np.float32))
    source = fresh("cl")
    start = time.perf_counter()
    (kernel,) = pocl.kernels(source, ["saxpy"])
    pocl.run(kernel, (_PIECE,), (_PIECE,), np.uint64(_PIECE), np.float32(1), vector, vector)
    elapsed = time.perf_counter() - start
    pocl.free(vector)
    return elapsed * 1e3


@row("compile_cold_ms")
def cold(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a source that was never compiled before: saxpy with a unique comment."""
    device = lab.device("cpu").device
    pocl = attempt(lambda: _first_run(lab.pocl()))
    own, theirs = alternate(lab.samples(7, 3), lambda: load_ms(device, fresh("cu")), pocl)
    yield outcome("compile_cold_ms", own, "ms", "lower", theirs, against="PoCL, until the first launch is done")


@row("compile_cold_medium_ms")
def cold_medium(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a source of a few hundred lines, 21 kernels, that was never compiled before."""
    yield _of_size(lab, "compile_cold_medium_ms", 1)


@row("compile_cold_large_ms")
def cold_large(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a source with 63 kernels that was never compiled before."""
    yield _of_size(lab, "compile_cold_large_ms", _COPIES)


@row("compile_cold_thrust_ms")
def cold_thrust(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a small source with Thrust's vectors that was never compiled before."""
    device = lab.device("cpu").device
    include = "#include <thrust/device_vector.h>\n"
    hidden = f"#if 1\n{include}#endif\n"  # of which no prelude is made
    own, theirs = alternate(
        lab.samples(5, 2),
        lambda: load_ms(device, include + fresh("cu")),
        lambda: load_ms(device, hidden + fresh("cu")),
    )
    yield outcome("compile_cold_thrust_ms", own, "ms", "lower", theirs, against="the same, Thrust not precompiled")


def _of_size(lab: Lab, name: str, copies: int) -> Outcome:
    device = lab.device("cpu").device
    own, theirs = alternate(lab.samples(5, 2), lambda: load_ms(device, large(copies)), lambda: _native_ms(copies))
    return outcome(name, own, "ms", "lower", theirs, against="clang -O2, the kernels as functions of one thread")


def _first_run(pocl: OpenCl) -> Subject:
    return lambda: _pocl_ms(pocl)


@row("compile_cached_ms")
def cached(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a source that is in the cache."""
    device = lab.device("cpu").device
    source = fresh("cu")
    (own,) = alternate(lab.samples(51, 21), lambda: load_ms(device, source))
    yield outcome("compile_cached_ms", own, "ms", "lower", goal=Goal("value", "<", 1.0))
