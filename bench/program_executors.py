"""Three executors of a :class:`~bench.programs.Program`: each verifies the results, then times one run at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from bench.device import Device, Prepared, Span, together
from bench.executors import PlainCpp, Timed
from bench.opencl import OpenCl
from bench.programs import Program
from bench.programs.program import Argument


def plain_cpp(cpp: PlainCpp, program: Program, threads: int) -> Timed:
    """Prepares and verifies a program's C++ baseline.

    :raise ArithmeticError: a result is wrong.
    """
    arrays = {name: array.copy() for name, array in program.arrays.items()}
    function = cpp.function(program.name)
    native = [cpp.argument(arrays[a] if isinstance(a, str) else a) for a in program.native]

    def run() -> float:
        for name in program.restored:
            arrays[name][...] = program.arrays[name]
        start = time.perf_counter()
        function(*native, threads)
        return (time.perf_counter() - start) * 1e3

    run()
    for name in program.expected:
        program.verify(name, arrays[name][: program.expected[name].size], "plain C++")
    return run


@contextmanager
def on_pocl(pocl: OpenCl, program: Program) -> Iterator[Timed]:
    """Prepares and verifies a program on PoCL.

    :raise ArithmeticError: a result is wrong.
    """
    with ExitStack() as cleanup:
        buffers = {name: pocl.buffer(array) for name, array in program.arrays.items()}
        for buffer in buffers.values():
            cleanup.callback(pocl.free, buffer)
        text = program.text("cl")
        # a kernel object per launch: its arguments are set once
        launches = [
            pocl.prepare(
                kernel,
                step.total_threads,
                step.block,
                *(buffers[a] if isinstance(a, str) else a for a in step.arguments),
            )
            for kernel, step in zip(
                pocl.kernels(text, [step.kernel for step in program.steps]), program.steps, strict=True
            )
        ]

        def run() -> float:
            for name in program.restored:
                pocl.write(buffers[name], program.arrays[name])
            start = time.perf_counter()
            pocl.run_all(launches)
            return (time.perf_counter() - start) * 1e3

        run()
        for name, expected in program.expected.items():
            found = np.empty_like(program.arrays[name])
            pocl.read(buffers[name], found)
            program.verify(name, found[: expected.size], "PoCL")
        yield run


@contextmanager
def on_device(
    device: Device, program: Program, staging: Span, load: Callable[[Device, str], int] = Device.load
) -> Iterator[Timed]:
    """Prepares and verifies a program on our device, where `load` loads its source; its launches are all sent at once.

    :raise ArithmeticError: a result is wrong.
    """
    with ExitStack() as cleanup:
        loaded = load(device, program.text("cu"))
        cleanup.callback(device.unload, loaded)
        addresses = {}
        for name, array in program.arrays.items():
            addresses[name] = device.upload(array, staging)
            cleanup.callback(device.free, addresses[name])

        def raw(argument: Argument) -> bytes:
            return np.uint64(addresses[argument]).tobytes() if isinstance(argument, str) else argument.tobytes()

        functions = {kernel: device.function(loaded, kernel) for kernel in program.kernels}
        parts: list[Prepared] = [
            device.launch(functions[step.kernel], step.grid, step.block, [raw(a) for a in step.arguments])
            for step in program.steps
        ]
        launches = together(device.driver, *parts)

        def run() -> float:
            for name in program.restored:
                device.fill(addresses[name], program.arrays[name], staging)
            return device.run_all(launches) / 1e6

        run()
        for name, expected in program.expected.items():
            found = np.empty_like(program.arrays[name])
            device.download(addresses[name], found, staging)
            program.verify(name, found[: expected.size], "our device")
        yield run
