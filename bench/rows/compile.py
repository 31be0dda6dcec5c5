"""Rows of loading programs, compiled for the first time or cached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Final

import numpy as np

from bench.device import Device
from bench.lab import Lab
from bench.opencl import OpenCl
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.stats import Subject, alternate, attempt
from bench.workloads import KERNELS

_serial = count(time.time_ns())
"""Serial numbers that make sources which no cache has."""

_PIECE: Final = 256


def fresh(language: str) -> str:
    """Source of saxpy that was never compiled before."""
    return (KERNELS / f"saxpy.{language}").read_text() + f"/* {next(_serial)} */\n"


def load_ms(device: Device, source: str) -> float:
    """Measures one PROGRAM_LOAD; unloads the program afterwards, unmeasured."""
    start = time.perf_counter()
    program = device.load(source)
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


def _first_run(pocl: OpenCl) -> Subject:
    return lambda: _pocl_ms(pocl)


@row("compile_cached_ms")
def cached(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a source that is in the cache."""
    device = lab.device("cpu").device
    source = fresh("cu")
    (own,) = alternate(lab.samples(51, 21), lambda: load_ms(device, source))
    yield outcome("compile_cached_ms", own, "ms", "lower", goal=Goal("value", "<", 1.0))
