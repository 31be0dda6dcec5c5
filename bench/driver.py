"""Driver whose requests are prepared in Python and whose loops run in C (:mod:`bench.native`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from bench.frontend import EVENT_IDX, REGION_GPA, REGION_UVA, Frontend
from bench.native.loops import ffi, lib
from tests.fakes.frontend import RingSetup

RING_SIZE = 256
_PAGE = 4096


class DriverError(Exception):
    """A hot loop ended early; the text names the errno."""


def check(code: int, what: str) -> None:
    """Checks the result of a native function.

    :raise DriverError: it is a negative errno.
    """
    if code < 0:
        raise DriverError(f"{what}: {os.strerror(-code)}")


def nanoseconds(count: int) -> tuple[npt.NDArray[np.uint64], Any]:
    """Makes an array for `count` times, and the pointer through which a hot loop fills it."""
    times = np.zeros(count, np.uint64)
    return times, ffi.cast("uint64_t *", times.ctypes.data)


def clock_ns() -> int:
    """Reads the clock of the hot loops."""
    return int(lib.vgcb_clock())


class Sustained:
    """Requests that are kept in flight (:meth:`Driver.sustain`), and when each has ended."""

    _MOST: Final = 1 << 20

    def __init__(self) -> None:
        self._times, pointer = nanoseconds(self._MOST)
        self.native = ffi.new("struct vgcb_sustained *", {"ns": pointer, "capacity": self._MOST})

    def forget(self) -> None:
        """Forgets an earlier run, and that it was stopped."""
        self.native.stop = self.native.done = 0

    def stop(self) -> None:
        """Has no request be sent again; any thread may call it."""
        lib.vgcb_stop(self.native)

    @property
    def times(self) -> npt.NDArray[np.uint64]:
        """Times of :func:`clock_ns`, one for each request that has ended."""
        return self._times[: self.native.done]


class Driver:
    """Started virtqueue of a backend; owns the connection.

    Memory of the region is allocated once and never freed: a driver lives for a few rows.
    """

    def __init__(self, socket_path: Path, region_bytes: int = 16 << 20) -> None:
        self.frontend = Frontend(socket_path, region_bytes)
        self.memory = np.frombuffer(self.frontend.region, np.uint8)
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK  # as QEMU makes them
        self._kick_fd, self._call_fd = os.eventfd(0, flags), os.eventfd(0, flags)
        self._next_free = 0
        try:
            self._queue = self._open()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up. The backend stops the queue; nothing is in flight between two calls of a loop."""
        self.frontend.close()
        os.close(self._kick_fd)
        os.close(self._call_fd)

    def _open(self) -> Any:
        base = self.take(int(lib.vgcb_ring_bytes(RING_SIZE)))
        start = ffi.cast("uint8_t *", self.memory.ctypes.data + base)
        queue = ffi.new("struct vgcb_queue *")
        check(lib.vgcb_queue_open(queue, start, RING_SIZE, False, self._kick_fd, self._call_fd), "open ring")
        avail, used = (base + int(f(RING_SIZE)) for f in (lib.vgcb_avail_offset, lib.vgcb_used_offset))
        desc, avail, used = (REGION_UVA + offset for offset in (base, avail, used))
        ring = RingSetup(0, RING_SIZE, desc, avail, used, self._kick_fd, self._call_fd)
        queue.vq.event_idx = bool(self.frontend.start(ring) & EVENT_IDX)
        return queue

    def take(self, size: int) -> int:
        """Allocates `size` bytes of the region, page-aligned; returns their offset.

        :raise MemoryError: the region is used up.
        """
        offset = self._next_free
        if offset + size > len(self.memory):
            raise MemoryError(f"asked {size} bytes, {len(self.memory) - offset} of the region are free")
        self._next_free = offset + (size + _PAGE - 1) // _PAGE * _PAGE
        return offset

    def view(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        return self.memory[offset : offset + size]

    def requests(self, chains: Sequence[tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]]) -> Any:
        """Makes native requests, one per (readable, writable) pair of lists of (region offset, length)."""
        made = ffi.new("struct vgcb_request[]", len(chains))
        for request, (readable, writable) in zip(made, chains, strict=True):
            request.n_readable, request.n_writable = len(readable), len(writable)
            for index, (offset, length) in enumerate([*readable, *writable]):
                request.sg[index].gpa = REGION_GPA + offset
                request.sg[index].len = length
        return made

    @property
    def kicks(self) -> int:
        """Number of kicks so far: how often the device was asleep and had to be woken."""
        return int(self._queue.kicks)

    def polled(self, requests: Any, count: int) -> npt.NDArray[np.uint64]:
        """Measures `count` round trips (ns), one at a time, while the driver spins."""
        times, pointer = nanoseconds(count)
        check(lib.vgcb_polled(self._queue, requests, count, pointer), "polled round trip")
        return times

    def sleeping(self, requests: Any, count: int, idle_ns: int) -> npt.NDArray[np.uint64]:
        """Measures `count` round trips (ns) with both sides asleep, each after `idle_ns` of rest."""
        times, pointer = nanoseconds(count)
        check(lib.vgcb_sleeping(self._queue, requests, count, idle_ns, pointer), "sleeping round trip")
        return times

    def pipelined(self, requests: Any, count: int) -> float:
        """Measures requests per second with all of `requests` in flight at once."""
        elapsed = ffi.new("uint64_t *")
        check(lib.vgcb_pipelined(self._queue, requests, len(requests), count, elapsed), "pipelined requests")
        return count * 1e9 / float(elapsed[0])

    def batch(self, requests: Any) -> float:
        """Measures the time (ns) of all `requests`, sent at once and in order, while the driver spins."""
        elapsed = ffi.new("uint64_t *")
        check(lib.vgcb_batch(self._queue, requests, len(requests), elapsed), "batch")
        return float(elapsed[0])

    def stream(self, requests: Any) -> float:
        """Measures the time (ns) of all `requests`, sent in order as fast as the ring takes them; the driver sleeps."""
        elapsed = ffi.new("uint64_t *")
        check(lib.vgcb_stream(self._queue, requests, len(requests), elapsed), "stream of requests")
        return float(elapsed[0])

    def throughput(self, requests: Any, from_ns: int, until_ns: int) -> float:
        """Measures requests per second between two times of :func:`clock_ns`, with all `requests` in flight."""
        done = ffi.new("uint64_t *")
        check(lib.vgcb_throughput(self._queue, requests, len(requests), from_ns, until_ns, done), "throughput")
        return float(done[0]) * 1e9 / (until_ns - from_ns)

    def sustain(self, requests: Any, sustained: Sustained) -> None:
        """Keeps all `requests` in flight until `sustained` is stopped; sleeps whenever none has ended."""
        check(lib.vgcb_sustain(self._queue, requests, len(requests), sustained.native), "sustained requests")

    def round_trip(self, requests: Any, spin_ns: int, patience_s: float) -> float:
        """Measures the time (ns) of one request; the driver spins for `spin_ns`, then sleeps until called."""
        elapsed = ffi.new("uint64_t *")
        patience_ns = int(patience_s * 1e9)
        check(lib.vgcb_round_trip(self._queue, requests, spin_ns, patience_ns, elapsed), "round trip")
        return float(elapsed[0])
