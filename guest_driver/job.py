"""Jobs: requests in flight, and their timing."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from guest_driver._lib import check, ffi, lib
from guest_driver.errors import NoAnswer, OutOfMemory, Pending, ResourcesExhausted, VgcError

if TYPE_CHECKING:
    from guest_driver.handle import Handle

SLICE_NS: Final = 100_000_000
"""Longest single wait in libvgc: Python handles Ctrl-C only between calls."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a request."""

    queued_ns: int
    """Time on the host before the work began."""

    exec_ns: int
    """Time on the engine."""

    total_ns: int
    """Time in the guest from sending the request to seeing its answer."""


def _timing(fields: Any) -> Timing:
    return Timing(int(fields.queued_ns), int(fields.exec_ns), int(fields.total_ns))


def last_timing() -> Timing:
    """Timing of this thread's last finished request."""
    fields = ffi.new("struct vgc_timing *")
    lib.vgc_last_timing(fields)
    return _timing(fields)


def _release(place: Any) -> None:
    lib.vgc_job_release(place[0])  # NULL: nothing was sent


class Job:
    """Request under way. Keeps the buffers that the device reads and writes alive until it has ended.

    It is made before its request is sent, so that a request has an owner even if sending is interrupted.
    """

    def __init__(self, handle: Handle, keep: tuple[object, ...] = ()) -> None:
        self._handle = handle
        self._place = ffi.new("struct vgc_job **")
        self._release = handle.on_collect(self, _release, self._place)
        self._keep = keep
        self._timing: Timing | None = None
        self._error: VgcError | None = None

    @property
    def _pointer(self) -> Any:
        return self._place[0]

    @property
    def is_sent(self) -> bool:
        """True if a request was sent and not released yet: it may be under way."""
        return bool(self._pointer != ffi.NULL)

    def send(self, send: Any) -> None:
        """Calls `send` with the place for libvgc's job; to be called once."""
        check(send(self._place))

    def wait(self, timeout_s: float | None = None) -> Timing:
        """Waits until the work is done.

        :raise errors.Pending: the work is not done within `timeout_s`; it continues.
        :raise errors.VgcError: the work failed; raised by every call.
        """
        if self._timing is None and self._error is None:
            self._check_open()
            self._settle(self._wait(timeout_s))
        if self._timing is None:
            assert self._error is not None
            raise copy(self._error)  # its traceback would keep this job, and its callers' buffers, in a circle
        return self._timing

    def _wait(self, timeout_s: float | None) -> int:
        limit_ns = lib.vgc_request_timeout(self._handle.bare_pointer) if timeout_s is None else int(timeout_s * 1e9)
        left_ns = limit_ns
        while (result := lib.vgc_job_wait(self._pointer, min(left_ns, SLICE_NS))) == lib.VGC_PENDING:
            left_ns -= SLICE_NS
            if left_ns > 0:
                continue
            if timeout_s is None:
                raise NoAnswer(f"NO_ANSWER: the device did not answer within {limit_ns / 1e9:.1f} s")
            break
        return int(result)

    def done(self) -> bool:
        """True if the work has ended, successfully or not."""
        if self._timing is None and self._error is None:
            self._check_open()
            result = lib.vgc_job_poll(self._pointer)
            if result == lib.VGC_PENDING:
                return False
            self._settle(result)
        return True

    @property
    def failed(self) -> bool:
        """True if the work is known to have failed."""
        return self._error is not None

    def _check_open(self) -> None:
        assert self._handle.bare_pointer is not None  # raises if the device is closed

    def _settle(self, result: int) -> None:
        if result == lib.VGC_PENDING:
            raise Pending("the work is not done yet")
        self._take_result(result)
        self._handle.show_output()

    def _take_result(self, result: int) -> None:
        try:
            check(result)
        except NoAnswer:
            raise  # the answer may still come
        except VgcError as error:
            self._error = error.with_traceback(None)
        else:
            fields = ffi.new("struct vgc_timing *")
            check(lib.vgc_job_timing(self._pointer, fields))
            self._timing = _timing(fields)
        self._keep = ()
        self._release()


def run(handle: Handle, send: Any, *, asynchronous: bool, keep: tuple[object, ...] = ()) -> Job | Timing:
    """Calls `send` with a place for a job if `asynchronous`, else with NULL, which makes it wait."""
    if not asynchronous:
        try:
            check(send(ffi.NULL))
            return last_timing()
        finally:
            handle.show_output()
    job = Job(handle, keep)
    job.send(send)
    return job


def run_kernel(handle: Handle, send: Any, *, asynchronous: bool, keep: tuple[object, ...] = ()) -> Job | Timing:
    """Calls `send` as `run`, for work that may take long: Ctrl-C ends the wait, but not the work and its buffers."""
    if asynchronous:
        return run(handle, send, asynchronous=True, keep=keep)
    return _interruptible(handle, Job(handle, keep), send)


def _interruptible(handle: Handle, job: Job, send: Any) -> Timing:
    try:
        job.send(send)
        return job.wait()
    except KeyboardInterrupt:
        if job.is_sent:
            handle.stay_open_until(job.done)
        raise


def run_call(handle: Handle, send: Any, *, asynchronous: bool, keep: tuple[object, ...] = ()) -> Job | Timing:
    """Calls `send` as `run_kernel`. A call for whose arrays the shared region has no room goes over device memory, in
    pieces; Ctrl-C has no effect until it is done.

    :raise errors.ResourcesExhausted: the region has no room, and the call is asynchronous.
    """
    if asynchronous:
        return run(handle, send, asynchronous=True, keep=keep)
    job = Job(handle, keep)
    try:
        return _interruptible(handle, job, send)
    except ResourcesExhausted as error:
        if isinstance(error, OutOfMemory) or job.failed:
            raise
    return run(handle, send, asynchronous=False, keep=keep)
