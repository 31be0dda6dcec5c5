"""Three executors of a :class:`~bench.workloads.Workload`: each verifies the result, then times one run at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import cffi
import numpy as np

from bench.device import Device, Span
from bench.native import build
from bench.opencl import OpenCl
from bench.workloads import Workload

Timed = Callable[[], float]
"""Function that runs the work once and returns its time in milliseconds."""


class PlainCpp:
    """Baseline in C++, a library."""

    def __init__(self) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(build.KERNEL_DECLARATIONS)
        self._library: Any = self.ffi.dlopen(str(build.LIBRARY))

    def prepare(self, work: Workload, threads: int) -> Timed:
        """Prepares and verifies a workload.

        :raise ArithmeticError: the result is wrong.
        """
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in work.arguments]
        function = self.function(work.baseline)
        native = [self.argument(a) for a in arguments]  # these keep the buffers alive
        function(*native, threads)
        work.verify(np.asarray(arguments[work.result]), "plain C++")

        def run() -> float:
            start = time.perf_counter()
            function(*native, threads)
            return (time.perf_counter() - start) * 1e3

        return run

    def function(self, baseline: str) -> Any:
        return getattr(self._library, f"base_{baseline}")

    def argument(self, value: Any) -> Any:
        """An argument of a function: a number, or a pointer that must not outlive the array."""
        if not isinstance(value, np.ndarray):
            return value.item()
        kind = "float" if value.dtype == np.float32 else f"{value.dtype}_t"
        return self.ffi.from_buffer(f"{kind}[]", value)


@contextmanager
def on_pocl(pocl: OpenCl, work: Workload) -> Iterator[Timed]:
    """Prepares and verifies a workload on PoCL.

    :raise ArithmeticError: the result is wrong.
    """
    with ExitStack() as buffers:
        arguments: list[Any] = []
        for argument in work.arguments:
            if isinstance(argument, np.ndarray):
                buffer = pocl.buffer(argument)
                buffers.callback(pocl.free, buffer)
                arguments.append(buffer)
            else:
                arguments.append(argument)
        (kernel,) = pocl.kernels(work.text("cl"), [work.name])

        def run() -> float:
            start = time.perf_counter()
            pocl.run(kernel, work.total_threads, work.block, *arguments)
            return (time.perf_counter() - start) * 1e3

        run()
        found = np.empty_like(work.arguments[work.result])
        pocl.read(arguments[work.result], found)
        work.verify(found, "PoCL")
        yield run


@contextmanager
def on_device(
    device: Device, work: Workload, staging: Span, load: Callable[[Device, str], int] = Device.load
) -> Iterator[Timed]:
    """Prepares and verifies a workload on our device, where `load` loads its source.

    :raise ArithmeticError: the result is wrong.
    """
    with ExitStack() as cleanup:
        program = load(device, work.text("cu"))
        cleanup.callback(device.unload, program)
        arguments = []
        for argument in work.arguments:
            if isinstance(argument, np.ndarray):
                address = device.upload(argument, staging)
                cleanup.callback(device.free, address)
                arguments.append(np.uint64(address).tobytes())
            else:
                arguments.append(argument.tobytes())
        launch = device.launch(device.function(program, work.name), work.grid, work.block, arguments)

        def run() -> float:
            return device.run(launch) / 1e6

        run()
        found = np.empty_like(work.arguments[work.result])
        device.download(int.from_bytes(arguments[work.result], "little"), found, staging)
        work.verify(found, "our device")
        yield run
