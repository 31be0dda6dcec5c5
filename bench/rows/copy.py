"""Rows of copies between the guest's region and device memory, beside memcpy of equal size from the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from bench.device import Device, Prepared
from bench.driver import nanoseconds
from bench.lab import Lab
from bench.native.loops import ffi, lib
from bench.placement import apart
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.stats import Subject, alternate
from bench.vgcd import OurDevice

KIB, MIB = 1 << 10, 1 << 20
SIZES: Final = {"_4k": 4 * KIB, "_64k": 64 * KIB, "_1m": MIB, "": 16 * MIB, "_64m": 64 * MIB}
"""Sizes by suffix of the row; the row without a suffix is the headline."""

SLICE: Final = 256 * KIB
"""Size of the pieces in which the CPU engine copies. memcpy is faster in such slices too: the harder baseline."""

Direction = Literal["in", "out"]
Bytes = npt.NDArray[np.uint8]


def _names(direction: Direction) -> list[str]:
    names = [f"copy_{direction}{suffix}_gbps" for suffix in SIZES]
    return names + [f"copy_{direction}{suffix}_beside_slices" for suffix, size in SIZES.items() if size > SLICE]


def _repeats(size: int) -> int:
    """Number of copies per sample: about 16 MiB in all, at most 200."""
    return max(1, min(200, 16 * MIB // size))


def gbps(size: int, times: npt.NDArray[np.uint64]) -> float:
    """Median bandwidth of copies of `size` bytes with these times in ns."""
    return size / float(np.median(times))


def _memcpy(device: Device, direction: Direction, offset: int, private: Bytes, slice_bytes: int) -> float:
    """Measures memcpy, `slice_bytes` at a time, between this process's mapping of the region and private memory."""
    size = len(private)
    region = device.driver.view(offset, size)
    to, source = (private, region) if direction == "in" else (region, private)
    times, pointer = nanoseconds(_repeats(size))
    with apart():
        lib.vgcb_memcpy(_pointer(to), _pointer(source), size, slice_bytes, len(times), pointer)
    return gbps(size, times)


def _pointer(array: Bytes) -> object:
    return ffi.cast("uint8_t *", array.ctypes.data)


def copying(ours: OurDevice, copy: Prepared, size: int, repeats: int) -> Subject:
    """Subject that copies through the device, one copy at a time, in GB/s."""

    def run() -> float:
        with apart(ours.pids):
            times = ours.device.driver.polled(copy.native, repeats)
        copy.check()
        return gbps(size, times)

    return run


def _ours(ours: OurDevice, direction: Direction, offset: int, address: int, size: int) -> Subject:
    device = ours.device
    span = (offset, size)
    copy = device.copy_in(address, span) if direction == "in" else device.copy_out(address, span)
    return copying(ours, copy, size, _repeats(size))


def _measure(lab: Lab, direction: Direction) -> Iterator[Outcome]:
    ours = lab.device("cpu")
    device = ours.device
    largest = max(SIZES.values())
    offset = lab.staging(device, largest)[0]
    address = device.alloc(largest)
    for suffix, size in SIZES.items():
        # Separate private memory for each, so that no subject finds it in the cache from a different one's turn.
        whole, sliced = (
            partial(_memcpy, device, direction, offset, np.ones(size, np.uint8), part) for part in (size, SLICE)
        )
        floor, slices, own = alternate(lab.samples(15, 5), whole, sliced, _ours(ours, direction, offset, address, size))
        goal = Goal("ratio", ">=", 0.95) if size >= MIB else None
        name = f"copy_{direction}{suffix}_gbps"
        yield outcome(name, own, "GB/s", "higher", floor, against="memcpy", goal=goal)
        if size > SLICE:
            name = f"copy_{direction}{suffix}_beside_slices"
            yield outcome(name, own, "GB/s", "higher", slices, against="memcpy in slices of 256 KiB")
    device.free(address)


@row(*_names("in"))
def copy_in(lab: Lab) -> Iterator[Outcome]:
    """COPY_IN: from the region to device memory."""
    yield from _measure(lab, "in")


@row(*_names("out"))
def copy_out(lab: Lab) -> Iterator[Outcome]:
    """COPY_OUT: from device memory to the region."""
    yield from _measure(lab, "out")
