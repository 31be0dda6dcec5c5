"""Workloads of the GPU rows, in sizes that fill a GPU, run through our device and natively.

Both sides run the same cubin with the same geometry and verify the result before they measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.cuda.native import NativeGpu, Program
from bench.device import Device, Prepared, Span, together
from bench.workloads import Workload

Array = npt.NDArray[Any]
Times = npt.NDArray[np.uint64]
_NOT_A_RESULT: Final = 0xFF
"""Fill byte of results: floats of such bytes are no numbers, so that unwritten elements are detected."""

_PAGE: Final = 4096
_SAMPLE: Final = 256
"""Number of bodies of the n-body row whose acceleration is checked: numpy takes too long for all of them."""


def stencil(n: int) -> Workload:
    """Makes one step of a stencil over n x n floats."""
    grid = np.random.default_rng(3).random((n, n), np.float32)
    expected = grid.copy()
    expected[1:-1, 1:-1] = (grid[:-2, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:] + grid[2:, 1:-1]) / 4
    args = (np.uint64(n), grid.reshape(-1), np.zeros(n * n, np.float32))
    return Workload("stencil", "stencil", "", (-(-n // 32), -(-n // 8)), (32, 8), args, 2, expected.reshape(-1))


def nbody(n: int) -> Workload:
    """Makes the computation of the accelerations of n bodies."""
    body = np.random.default_rng(4).random((n, 4), np.float32)
    chosen = np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64)
    expected = np.zeros((len(chosen), 4))
    for row, i in enumerate(chosen):
        away = body[:, :3].astype(np.float64) - body[i, :3]
        pull = body[:, 3] * (np.sum(away * away, axis=1) + 1e-3) ** -1.5
        expected[row, :3] = pull @ away
    checked = (4 * chosen[:, None] + np.arange(4)).reshape(-1)
    args = (np.uint64(n), body.reshape(-1), np.zeros(4 * n, np.float32))
    return Workload("nbody", "nbody", "", (n // 256,), (256,), args, 2, expected.reshape(-1), checked=checked)


def busy(blocks: int, rounds: int) -> Workload:
    """Makes a kernel of arithmetic only: its time is inversely proportional to the processing elements it runs on."""
    a, b = np.float32(0.99), np.float32(0.01)
    reached = float(b) * (1 - float(a) ** rounds) / (1 - float(a))
    args = (np.uint32(rounds), a, b, np.zeros(blocks, np.float32))
    return Workload("busy", "busy", "", (blocks,), (256,), args, 3, np.full(blocks, reached, np.float32))


def _arrays(work: Workload) -> dict[int, Array]:
    """Arguments that are arrays, by index."""
    return {i: argument for i, argument in enumerate(work.arguments) if isinstance(argument, np.ndarray)}


def _inputs(work: Workload) -> list[int]:
    """Indices of the arrays that the kernel reads."""
    return [i for i in _arrays(work) if i != work.result or work.adds]


def _bytes_of(array: Any) -> npt.NDArray[np.uint8]:
    return np.asarray(array).reshape(-1).view(np.uint8)


def _arguments(work: Workload, addresses: dict[int, int]) -> list[bytes]:
    values = (addresses.get(index, argument) for index, argument in enumerate(work.arguments))
    return [np.uint64(v).tobytes() if isinstance(v, int) else v.tobytes() for v in values]


class OnDevice:
    """Workload on our device, with its arrays in the region and in device memory; made by :func:`on_device`."""

    def __init__(self, device: Device, work: Workload, room: Span, cleanup: ExitStack) -> None:
        self._device, self._work = device, work
        self._free, self._end = room[0], room[0] + room[1]
        program = device.load(work.text("cu"))
        cleanup.callback(device.unload, program)
        self._function = device.function(program, work.name)
        addresses = {}
        for index, array in _arrays(work).items():
            addresses[index] = device.alloc(array.nbytes)
            cleanup.callback(device.free, addresses[index])
        self._packed = _arguments(work, addresses)
        copies = []
        for index in _inputs(work):
            span = self._place(_arrays(work)[index].nbytes)
            device.driver.view(*span)[:] = _bytes_of(work.arguments[index])
            copies.append(device.copy_in(addresses[index], span))
        self._result = self._place(_arrays(work)[work.result].nbytes)
        self._out = device.copy_out(addresses[work.result], self._result)
        self.launch = self.launches(1)
        self._whole = together(device.driver, *copies, self.launch, self._out)

    def _place(self, size: int) -> Span:
        """Allocates `size` bytes of the region."""
        span = (self._free, size)
        self._free += -(-size // _PAGE) * _PAGE
        if self._free > self._end:
            raise MemoryError(f"{self._work.name} needs more of the region than this row has")
        return span

    def launches(self, count: int, streams: int = 1) -> Prepared:
        """Prepares launches of the kernel that can be in flight at once, `count` in each stream."""
        work = (self._function, self._work.grid, self._work.block, self._packed)
        return together(
            self._device.driver, *(self._device.launches(count, *work, stream=number) for number in range(streams))
        )

    def whole(self) -> float:
        """Copies in, computes, copies out; returns the time in ns."""
        return self._device.run_batch(self._whole)

    def compute(self) -> float:
        """Runs only the kernel; returns the time in ns."""
        return self._device.run_batch(self.launch)

    def round_trips(self, count: int) -> Times:
        """Measures launches of the kernel (ns), waiting for each."""
        times = self._device.driver.polled(self.launch.native, count)
        self.launch.check()
        return times

    def prove(self) -> None:
        """Does the whole work once and verifies the result. :raise ArithmeticError: it is wrong."""
        found = self._device.driver.view(*self._result)
        found[:] = _NOT_A_RESULT
        self.whole()
        self._work.verify(found.view(_arrays(self._work)[self._work.result].dtype), "our device")


@contextmanager
def on_device(device: Device, work: Workload, room: Span) -> Iterator[OnDevice]:
    """Prepares and verifies a workload; frees its device memory at the end.

    :param room: part of the region for all arrays of the work.
    :raise ArithmeticError: the result is wrong.
    """
    with ExitStack() as cleanup:
        made = OnDevice(device, work, room, cleanup)
        made.prove()
        yield made


class Native:
    """Workload through the driver: one cubin, page-locked host arrays. Verifies the result when it is made."""

    def __init__(self, gpu: NativeGpu, work: Workload, cubin: bytes) -> None:
        self._gpu, self._work = gpu, work
        function = gpu.function(cubin, work.name)
        addresses = {index: gpu.alloc(array.nbytes) for index, array in _arrays(work).items()}
        self._result = gpu.pinned(_arrays(work)[work.result].nbytes)
        self._launch = Program().launch(function, work.grid, work.block, _arguments(work, addresses))
        self._whole = Program()
        for index in _inputs(work):
            host = gpu.pinned(_arrays(work)[index].nbytes)
            host[:] = _bytes_of(work.arguments[index])
            self._whole.copy_in(addresses[index], host)
        self._whole.launch(function, work.grid, work.block, _arguments(work, addresses))
        self._whole.copy_out(addresses[work.result], self._result)
        self.prove()

    def whole(self) -> float:
        """Copies in, computes, copies out; returns the time in ns."""
        return float(self._gpu.round_trips(self._whole)[0])

    def compute(self) -> float:
        """Runs only the kernel; returns the time in ns."""
        return float(self.round_trips(1)[0])

    def round_trips(self, count: int) -> Times:
        """Measures launches of the kernel (ns), waiting for each."""
        return self._gpu.round_trips(self._launch, count)

    def per_second(self, count: int) -> float:
        """Measures launches of the kernel per second, issuing `count` of them without waiting in between."""
        return self._gpu.per_second(self._launch, count)

    def prove(self) -> None:
        """Does the whole work once and verifies the result. :raise ArithmeticError: it is wrong."""
        self._result[:] = _NOT_A_RESULT
        self.whole()
        self._work.verify(self._result.view(_arrays(self._work)[self._work.result].dtype), "the native side")
