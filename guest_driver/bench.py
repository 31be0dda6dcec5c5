"""``vgc bench``: time of a request, a copy and a launch on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from guest_driver.device import Device
from guest_driver.errors import VgcError

COPY_BYTES: Final = 8 << 20
POLL_S: Final = 3600.0
SLEEP_AT_ONCE_S: Final = 1e-9
EMPTY_KERNEL: Final = 'extern "C" __global__ void empty() {}'
WARM_UP: Final = 10


def times_of(action: Callable[[], Any], seconds: float) -> list[float]:
    """Repeats `action` for `seconds`, at least once; returns the time that each repetition took, in seconds."""
    for _ in range(WARM_UP):
        action()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return taken


def _latency(name: str, taken: list[float]) -> str:
    ordered = sorted(taken)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{name:<32} {statistics.median(ordered) * 1e6:>10.1f} us   p99 {p99 * 1e6:.1f} us"


def _bandwidth(name: str, taken: list[float], size: int) -> str:
    return f"{name:<32} {size / statistics.median(taken) / 1e9:>10.2f} GB/s"


def _null_rows(address: str | None, seconds: float) -> Iterator[str]:
    for name, spin_s in (("null request, polling", POLL_S), ("null request, sleeping", SLEEP_AT_ONCE_S)):
        with Device(address=address, spin_s=spin_s) as device:
            yield _latency(name, times_of(device.nop, seconds))


def _copy_rows(device: Device, seconds: float) -> Iterator[str]:
    size = min(COPY_BYTES, device.info().region_bytes // 4)
    memory, plain, shared = device.alloc(size), bytearray(size), device.region_buffer(size)
    for name, buffer in (("", plain), (", from the region", shared)):
        yield _bandwidth(f"copy in{name}", times_of(lambda b=buffer: memory.write(b), seconds), size)  # type: ignore[misc]
    for name, buffer in (("", plain), (", to the region", shared)):
        yield _bandwidth(f"copy out{name}", times_of(lambda b=buffer: memory.read_into(b), seconds), size)  # type: ignore[misc]


def _launch_row(device: Device, seconds: float) -> str:
    try:
        kernel = device.compile(EMPTY_KERNEL)["empty"]
    except VgcError as error:
        return f"{'launch of an empty kernel':<32} not measured: {str(error).splitlines()[0]}"
    return _latency("launch of an empty kernel", times_of(lambda: kernel.launch(1, 1), seconds))


def run(address: str | None, seconds: float) -> str:
    """Measures all rows; returns them as a table."""
    rows = list(_null_rows(address, seconds))
    with Device(address=address) as device:
        rows += _copy_rows(device, seconds)
        rows.append(_launch_row(device, seconds))
        rows.insert(0, f"{device.info().engine_name}, from Python; bench/ measures without it\n")
    return "\n".join(rows)
