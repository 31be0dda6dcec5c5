"""Rows of device memory that the engine maps at chosen addresses (`memory: mapped`), beside the driver's pool.

They measure two VMs of one daemon alternately.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from bench.device import Device, Prepared, pack
from bench.lab import Lab
from bench.placement import apart
from bench.registry import Outcome, row
from bench.results import outcome
from bench.rows.copy import Direction
from bench.rows.cuda import device_copy
from bench.rows.null import Percentiles, Times
from bench.stats import Subject
from bench.vgcd import OurDevice
from bench.workloads import KERNELS
from virtio_proto.schema import Opcode

KIB, MIB = 1 << 10, 1 << 20
SIZES: Final = {"64k": 64 * KIB, "16m": 16 * MIB, "256m": 256 * MIB}
SMOKE_LIMIT: Final = 4 * MIB
DIRECTIONS: Final[tuple[Direction, Direction]] = ("in", "out")
POOL: Final = "memory: pool"


# ---- allocations -------------------------------------------------------------------------------


class Allocations:
    """Prepared requests ALLOC and FREE of one size."""

    def __init__(self, ours: OurDevice, size: int) -> None:
        self._ours = ours
        device = ours.device
        self._alloc = device.prepare(Opcode.ALLOC, pack("vgc_body_alloc", size=size))
        self._free = device.prepare(Opcode.FREE, pack("vgc_body_free", address=0))
        offset, length = self._free.chains[0][0][0]
        self._address = device.driver.view(offset, length)[-len(pack("vgc_body_free", address=0)) :]

    def once(self) -> tuple[float, float]:
        """Sends both, one after the other; returns the time (us) of each."""
        taken = self._send(self._alloc)
        body = pack("vgc_body_free", address=self._alloc.response().value)
        self._address[:] = np.frombuffer(body, np.uint8)
        return taken, self._send(self._free)

    def _send(self, request: Prepared) -> float:
        times = self._ours.device.driver.polled(request.native, 1)
        request.check()
        return float(times[0]) / 1e3


def _again(ours: OurDevice, size: int, count: int) -> Subject:
    """Subject of ALLOC and FREE together (us), of memory that the engine has kept since the last FREE."""
    allocations = Allocations(ours, size)

    def run() -> float:
        with apart(ours.pids):
            return float(np.median([sum(allocations.once()) for _ in range(count)]))

    return run


def _first(ours: OurDevice, size: int) -> float:
    """Measures the VM's first ALLOC (us), for which the engine must get memory from the GPU."""
    with apart(ours.pids):
        return Allocations(ours, size).once()[0]


# ---- use of the memory -------------------------------------------------------------------------


def _copy(ours: OurDevice, direction: Direction, size: int) -> Subject:
    """Subject of copies from and to the region (GB/s), checked first. The memory is freed with the VM."""
    device = ours.device
    return device_copy(ours, direction, device.driver.take(size), size, device.alloc(size))


def _filled(device: Device) -> int:
    """Allocates 4 KiB of device memory, zeroed; returns its address."""
    address = device.alloc(4 * KIB)
    device.run(device.prepare(Opcode.FILL, pack("vgc_body_fill", dst=address, size=4 * KIB, unit=4, value=0)))
    return address


def _launch(ours: OurDevice, count: int) -> Percentiles:
    """Subject of round trips of a kernel of one block that reads and writes device memory."""
    device = ours.device
    program = device.load((KERNELS / "saxpy.cu").read_text())
    numbers = np.uint64(_filled(device)).tobytes()
    arguments = [np.uint64(256).tobytes(), np.float32(2).tobytes(), numbers, numbers]
    saxpy = device.launch(device.function(program, "saxpy"), (1,), (256,), arguments)

    def run() -> Times:
        with apart(ours.pids):
            times = device.driver.polled(saxpy.native, count)
        saxpy.check()
        return times

    return Percentiles(run)


# ---- rows --------------------------------------------------------------------------------------


@row(
    "cuda_mapped_first_alloc_us",
    *(f"cuda_mapped_alloc_free_{name}_us" for name in SIZES),
    *(f"cuda_mapped_copy_{direction}_{name}_gbps" for direction in DIRECTIONS for name in SIZES),
    "cuda_mapped_launch_us_p50",
)
def mapped(lab: Lab) -> Iterator[Outcome]:
    """Allocations (the first, and repeated ones), copies, launches."""
    sizes = {name: lab.cuda.size(size, min(size, SMOKE_LIMIT)) for name, size in SIZES.items()}
    plans = [lab.cuda.plan(kind, memory=kind) for kind in ("pool", "mapped")]
    with lab.cuda.vms(plans) as (pool, ours):
        largest = max(sizes.values())
        with lab.cuda.measured():
            base, first = _first(pool, largest), _first(ours, largest)
        yield outcome("cuda_mapped_first_alloc_us", first, "us", "lower", base, against=POOL)
        yield from _allocations(lab, pool, ours, sizes)
        yield from _copies(lab, pool, ours, sizes)
        count = lab.cuda.size(lab.samples(5_000, 2_000), 64)
        theirs, own = lab.cuda.alternate(lab.samples(15, 7), _launch(pool, count), _launch(ours, count))
        yield outcome("cuda_mapped_launch_us_p50", own, "us", "lower", theirs, against=POOL)


def _allocations(lab: Lab, pool: OurDevice, ours: OurDevice, sizes: dict[str, int]) -> Iterator[Outcome]:
    count = lab.cuda.size(lab.samples(200, 100), 8)
    for name, size in sizes.items():
        theirs, own = lab.cuda.alternate(lab.samples(11, 5), _again(pool, size, count), _again(ours, size, count))
        yield outcome(f"cuda_mapped_alloc_free_{name}_us", own, "us", "lower", theirs, against=POOL)


def _copies(lab: Lab, pool: OurDevice, ours: OurDevice, sizes: dict[str, int]) -> Iterator[Outcome]:
    for name, size in sizes.items():
        for direction in DIRECTIONS:
            row_name = f"cuda_mapped_copy_{direction}_{name}_gbps"
            theirs, own = lab.cuda.alternate(
                lab.samples(11, 5), _copy(pool, direction, size), _copy(ours, direction, size)
            )
            yield outcome(row_name, own, "GB/s", "higher", theirs, against=POOL)
