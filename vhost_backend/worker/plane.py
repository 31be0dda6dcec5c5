"""Typed Python interface of the data plane, ``vhost_backend/dataplane/vgc_dataplane.h``.

All functions may be called while `DataPlane.run` serves on another thread.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker_protocol.protocol import Limits, MemRegion, VringStart

DEFAULT_SPIN_NS: Final = 50_000
"""Time that the data plane polls before it sleeps."""

DEFAULT_STUCK_NS: Final = 90 * 10**9
"""Time after which a driver's call counts as stuck: longer than any call takes, registration of a large region too."""


class DataPlaneError(Exception):
    """The data plane refused; the text says what is wrong, `number` is the errno."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class PlaneLimits:
    """Limits on what one VM may use at once."""

    num_queues: int
    queue_depth: int
    memory_bytes: int
    deadline_ns: int
    max_contexts: int
    max_streams: int
    generation: int = 0
    allotment: int = 0
    spin_ns: int = DEFAULT_SPIN_NS
    stuck_ns: int = DEFAULT_STUCK_NS


@dataclass(frozen=True, slots=True)
class ColdRequest:
    """A request that Python serves. `token` names it until `DataPlane.complete`."""

    token: int
    opcode: int
    context: int
    engine_context: int
    request_id: int
    readable_len: int
    writable_len: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that the VM holds, and counts of what it has done."""

    memory_used_bytes: int
    requests_done: int
    requests_failed: int
    busy_ns: int
    num_contexts: int
    num_programs: int
    num_allocations: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of the VM beside its usage, since the worker's start."""

    memory_peak_bytes: int
    failures: tuple[int, ...]
    """Requests that were not answered with OK, by status, up to the last that is not 0."""


@dataclass(frozen=True, slots=True)
class FunctionWork:
    """Launches of a function of a registered program."""

    launches: int
    busy_ns: int
    times: tuple[int, ...]
    """Launches that the engine has timed, by latency class, up to the last that is not 0."""


@dataclass(frozen=True, slots=True)
class FunctionTally:
    """Launches of a function since it got its place in the data plane's table."""

    name: str
    launches: int
    busy_ns: int
    times: tuple[int, ...]
    """Launches that the engine has timed, by latency class, up to the last that is not 0."""


@dataclass(frozen=True, slots=True)
class RingFds:
    """Eventfds of a ring; -1 where the driver has none. `DataPlane.start_queue` takes them over."""

    kick: int = -1
    call: int = -1
    err: int = -1


class DataPlane:
    """Data plane of one VM over an engine's handle. `run` blocks; `stop` ends it; then `close`.

    :raise DataPlaneError: limits are out of range, or the host lacks memory.
    """

    def __init__(self, engine: Any, limits: PlaneLimits, inflight_fd: int = -1) -> None:
        self.num_queues = limits.num_queues
        self.memory_bytes = limits.memory_bytes
        self._why = ffi.new("char[]", int(lib.VGC_DP_WHY))
        config = ffi.new("struct vgc_dp_config *")
        config.engine = engine
        config.inflight_fd = inflight_fd
        for name in PlaneLimits.__slots__:
            setattr(config, name, getattr(limits, name))
        self._dp = lib.vgc_dp_create(config, self._why)
        if self._dp == ffi.NULL:
            raise DataPlaneError(errno.EINVAL, self._text())
        self.notify_fd = int(lib.vgc_dp_notify_fd(self._dp))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancels running operations and frees everything; `run` must have returned. A second call does nothing."""
        if self._dp != ffi.NULL:
            lib.vgc_dp_destroy(self._dp)
            self._dp = ffi.NULL

    def cancel(self) -> None:
        """Cancels running operations and waits for their end, so that programs can be unloaded; `run` must have
        returned.
        """
        lib.vgc_dp_cancel(self._dp)

    def run(self) -> None:
        """Serves until `stop`, without the GIL."""
        lib.vgc_dp_run(self._dp)

    def stop(self) -> None:
        lib.vgc_dp_stop(self._dp)

    @property
    def handle(self) -> Any:
        """``struct vgc_dp *``, for other interfaces of the same data plane."""
        return self._dp

    def set_limits(self, message: Limits) -> None:
        """Changes the limits. Work and memory beyond the new ones stay; what asks for more is refused.

        :raise DataPlaneError: the engine cannot change the number of its elements, or the host lacks memory: nothing
            has changed.
        """
        limits = ffi.new("struct vgc_dp_limits *")
        limits.queue_depth, limits.memory_bytes = message.quota.queue_depth, message.quota.memory_bytes
        limits.num_pes, limits.deadline_ns = message.quota.pes, message.deadline_ns
        limits.max_contexts, limits.max_streams = message.max_contexts, message.max_streams
        limits.allotment = message.allotment
        self._check(lib.vgc_dp_set_limits(self._dp, limits, self._why))
        self.memory_bytes = message.quota.memory_bytes

    # ---- memory and queues -----------------------------------------------------------------------

    def set_memory(self, regions: Sequence[MemRegion], fds: Sequence[int], region_address: int = 0) -> None:
        """Replaces the memory table; `fds` stay the caller's.

        `region_address`, if not 0, is the device address at which kernels must see the largest region.

        :raise DataPlaneError: a file is too short, or requests in flight use memory that would go: nothing has changed.
            Or the region cannot be mapped at `region_address`.
        """
        largest = max((region.size for region in regions), default=0)
        table = ffi.new("struct vgc_dp_region[]", len(regions))
        for entry, region, fd in zip(table, regions, fds, strict=True):
            entry.gpa, entry.uva, entry.size, entry.offset = region.gpa, region.uva, region.size, region.offset
            entry.fd = fd
            if region.size == largest:
                entry.at, region_address = region_address, 0
        self._check(lib.vgc_dp_set_memory(self._dp, table, len(regions), self._why))

    @property
    def region_address(self) -> int:
        """Device address of the region's first byte; 0: kernels do not see the region."""
        return int(lib.vgc_dp_region_address(self._dp))

    def start_queue(self, message: VringStart, fds: RingFds) -> None:
        """Starts a ring; takes its fds over even if it fails.

        :raise DataPlaneError: the ring is misplaced, runs already, or has requests of an earlier ring in flight.
        """
        ring = ffi.new("struct vgc_dp_ring *")
        for name in ("size", "base", "desc_uva", "avail_uva", "used_uva", "event_idx", "indirect", "enabled"):
            setattr(ring, name, getattr(message, name))
        ring.recover = message.recover
        ring.kick_fd, ring.call_fd, ring.err_fd = fds.kick, fds.call, fds.err
        self._check(lib.vgc_dp_queue_start(self._dp, message.index, ring, self._why))

    def stop_queue(self, index: int) -> int:
        """Stops a ring and returns the avail index at which it must be started again.

        :raise DataPlaneError: the ring does not run.
        """
        base = int(lib.vgc_dp_queue_stop(self._dp, index))
        if base < 0:
            raise DataPlaneError(-base, f"vring {index} does not run")
        return base

    def enable_queue(self, index: int, enabled: bool) -> None:
        self._check_plain(lib.vgc_dp_queue_enable(self._dp, index, enabled), f"vring {index}")

    def set_kick(self, index: int, fd: int) -> None:
        """Takes `fd` over."""
        self._check_plain(lib.vgc_dp_queue_set_kick(self._dp, index, fd), f"vring {index}")

    def set_call(self, index: int, fd: int) -> None:
        """Takes `fd` over."""
        self._check_plain(lib.vgc_dp_queue_set_call(self._dp, index, fd), f"vring {index}")

    def take_broken(self) -> tuple[int, str] | None:
        """Index and reason of a queue that broke since the last call, or None."""
        index = ffi.new("uint32_t *")
        if not lib.vgc_dp_broken_take(self._dp, index, self._why):
            return None
        return int(index[0]), self._text()

    # ---- requests --------------------------------------------------------------------------------

    def clear_notification(self) -> None:
        """Resets the notification. To be called before `take_*`: whatever arrives later notifies again."""
        try:
            os.eventfd_read(self.notify_fd)
        except BlockingIOError:
            return

    def take_cold(self) -> ColdRequest | None:
        """Next request that Python must serve, or None."""
        cold = ffi.new("struct vgc_cold *")
        if not lib.vgc_dp_cold_take(self._dp, cold):
            return None
        return ColdRequest(
            cold.token,
            cold.opcode,
            cold.context,
            cold.engine_context,
            cold.request_id,
            cold.readable_len,
            cold.writable_len,
            bytes(ffi.buffer(cold.body)),
        )

    def read(self, token: int, offset: int, length: int) -> bytes:
        """Copies readable bytes; `offset` counts from the request's first byte.

        :raise DataPlaneError: the request is shorter.
        """
        buffer = ffi.new("uint8_t[]", max(length, 1))
        self._check_plain(lib.vgc_dp_cold_read(self._dp, token, offset, buffer, length), "the request's bytes")
        return bytes(ffi.buffer(buffer, length))

    def write(self, token: int, payload: bytes, offset: int = 0) -> None:
        """Writes payload behind the response header.

        :raise DataPlaneError: the payload does not fit.
        """
        result = lib.vgc_dp_cold_write(self._dp, token, offset, ffi.from_buffer(payload), len(payload))
        self._check_plain(result, "the response's payload")

    def complete(
        self, token: int, status: int = 0, *, value: int = 0, aux: int = 0, payload_len: int = 0, text: str = ""
    ) -> None:
        """Completes a request; with a status other than OK, `text` is its payload."""
        raw = text.encode(errors="replace").replace(b"\0", b"?")
        result = lib.vgc_dp_cold_complete(self._dp, token, status, value, aux, payload_len, raw or ffi.NULL)
        self._check_plain(result, f"request {token}")

    # ---- programs --------------------------------------------------------------------------------

    def add_program(self, engine_context: int, charged_bytes: int = 0) -> int:
        """Registers a program and returns its id. `charged_bytes` of the quota are its own until it is removed.

        :raise DataPlaneError: the VM has too many programs; with number EDQUOT, the quota has too little left.
        """
        added = lib.vgc_dp_program_add(self._dp, engine_context, charged_bytes)
        return self._check_plain(added, "too many programs" if added != -errno.EDQUOT else "the quota")

    def charge_program(self, program: int, charged_bytes: int) -> None:
        """Raises what a program is charged; it is never lowered.

        :raise DataPlaneError: with number EDQUOT, the quota has too little left.
        """
        self._check_plain(lib.vgc_dp_program_charge(self._dp, program, charged_bytes), f"program {program}")

    def add_function(self, program: int, kernel: Any, name: str, short_name: str) -> int:
        """Registers a function and returns its id. `kernel` must live until `remove_program`."""
        added = lib.vgc_dp_function_add(self._dp, program, kernel, name.encode(), short_name.encode())
        return self._check_plain(added, f"function {short_name:.100}")

    def add_global(self, program: int, address: int, size: int) -> None:
        self._check_plain(lib.vgc_dp_global_add(self._dp, program, address, size), "too many allocations")

    def publish_programs(self) -> None:
        """Lets functions that were added since the last call be launched by name."""
        self._check_plain(lib.vgc_dp_program_publish(self._dp), "function names")

    def remove_program(self, program: int) -> None:
        self._check_plain(lib.vgc_dp_program_remove(self._dp, program), f"program {program}")

    def free_context(self, engine_context: int) -> None:
        """Frees everything that a dying context holds, except programs."""
        self._check_plain(lib.vgc_dp_context_free(self._dp, engine_context), f"context {engine_context}")

    # ---- figures ---------------------------------------------------------------------------------

    def arm(self) -> None:
        """Has the data plane notify once, when its next work arrives."""
        lib.vgc_dp_arm(self._dp)

    @property
    def is_armed(self) -> bool:
        """True if no work has arrived since `arm`."""
        return bool(lib.vgc_dp_is_armed(self._dp))

    def echo(self) -> None:
        """Has the data plane's loop count `echoes` up, and notify."""
        lib.vgc_dp_echo(self._dp)

    @property
    def echoes(self) -> int:
        """Number of echoes, which the loop has made since the data plane was created, modulo 2**32."""
        return int(lib.vgc_dp_echoes(self._dp))

    def usage(self) -> Usage:
        usage = ffi.new("struct vgc_usage *")
        lib.vgc_dp_usage(self._dp, usage)
        return Usage(**{name: int(getattr(usage, name)) for name in Usage.__slots__})

    def counts(self) -> Counts:
        counts = ffi.new("struct vgc_dp_counts *")
        lib.vgc_dp_counts(self._dp, counts)
        return Counts(int(counts.memory_peak_bytes), _trimmed(counts.failures))

    def functions(self) -> tuple[FunctionTally, ...]:
        """Work by function, of a bounded number of functions; a look may give the places of idle ones to others."""
        tallies = ffi.new("struct vgc_function_tally[]", lib.VGC_NUM_TALLIES)
        count = lib.vgc_dp_functions(self._dp, tallies)
        return tuple(
            FunctionTally(
                ffi.string(tally.name).decode("ascii", errors="replace"),
                int(tally.work.launches),
                int(tally.work.busy_ns),
                _trimmed(tally.work.times),
            )
            for tally in tallies[0:count]
        )

    def builtins(self) -> Iterator[tuple[int, Any]]:
        """Id and kernel (``struct vgc_kernel *``) of each built-in function of the engine. Kernels live as long as the plane."""
        function_id = ffi.new("uint32_t *")
        for number in itertools.count():
            kernel = lib.vgc_dp_builtin(self._dp, number, function_id)
            if kernel == ffi.NULL:
                return
            yield int(function_id[0]), kernel

    def function_work(self, function: int) -> FunctionWork:
        """Work of a function of a registered program, or of one that is built in.

        :raise DataPlaneError: there is no such function.
        """
        work = ffi.new("struct vgc_function_work *")
        self._check_plain(lib.vgc_dp_function_work(self._dp, function, work), f"function {function}")
        return FunctionWork(int(work.launches), int(work.busy_ns), _trimmed(work.times))

    def latency(self) -> tuple[int, ...]:
        """Counts of the engine's operations by latency class (`virtio_proto.control.latency`), up to the last that is not 0."""
        counts = ffi.new("uint64_t[]", lib.VGC_LATENCY_CLASSES)
        lib.vgc_dp_latency(self._dp, counts)
        return _trimmed(counts)

    def sleeps(self) -> int:
        """Number of times that the data plane has gone to sleep."""
        return int(lib.vgc_dp_sleeps(self._dp))

    def _text(self) -> str:
        return str(ffi.string(self._why).decode(errors="replace"))

    def _check(self, result: int) -> None:
        if result < 0:
            raise DataPlaneError(-result, self._text())

    def _check_plain(self, result: int, what: str) -> int:
        if result < 0:
            raise DataPlaneError(-result, f"{what}: {os.strerror(-result)}")
        return result


def _trimmed(counts: Any) -> tuple[int, ...]:
    """Counts up to the last that is not 0."""
    found = [int(count) for count in counts]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)
