"""Streams and events."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from guest_driver import errors
from guest_driver._lib import check, ffi, lib

if TYPE_CHECKING:
    from guest_driver.handle import Handle
    from guest_driver.job import Job


class Stream:
    """Work in order, beside the work of other streams. Whatever is given a stream returns at once, with a job."""

    def __init__(self, handle: Handle) -> None:
        out = ffi.new("uint32_t *")
        check(lib.vgc_stream_create(handle.pointer, out))
        self._handle = handle
        self.number = int(out[0])
        self._jobs: list[Job] = []
        self._destroy = handle.on_collect(self, lambda n: lib.vgc_stream_destroy(handle.pointer, n), self.number)

    def __repr__(self) -> str:
        return f"<stream {self.number}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.synchronize()
        finally:
            self.close()

    def track(self, job: Job) -> Job:
        """Has `synchronize` wait for this job too."""
        self._jobs = [known for known in self._jobs if not known.done() or known.failed]
        self._jobs.append(job)
        return job

    def forget(self) -> None:
        """Has `synchronize` wait for nothing that came before; whatever fails of it is not heard of."""
        self._jobs = []

    def synchronize(self) -> None:
        """Waits for everything in the stream.

        :raise errors.VgcError: of the first job that failed since the last time.
        """
        jobs, self._jobs = self._jobs, []
        first: errors.VgcError | None = None
        for job in jobs:
            try:
                job.wait()
            except errors.VgcError as error:
                first = first or error
        if first is not None:
            raise first
        check(lib.vgc_stream_synchronize(self._handle.pointer, self.number))
        self._handle.show_output()

    def wait_for(self, event: Event) -> None:
        """Later work of this stream begins after the event."""
        check(lib.vgc_stream_wait_event(event.pointer, self.number))

    def close(self) -> None:
        """Waits for the stream and gives its number back; a second time does nothing."""
        self._destroy()


class Event:
    """A moment in a stream, by the engine's clock."""

    def __init__(self, handle: Handle) -> None:
        out = ffi.new("struct vgc_event **")
        check(lib.vgc_event_create(handle.pointer, out))
        self._handle = handle
        self._pointer = out[0]
        self._destroy = handle.on_collect(self, lib.vgc_event_destroy, self._pointer)

    @property
    def pointer(self) -> Any:
        """For libvgc's functions.

        :raise ValueError: the event or its device is closed.
        """
        if not self._destroy.alive or not self._handle.is_open:
            raise ValueError("the event was closed, or its device")
        return self._pointer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, stream: Stream | None = None) -> Self:
        """Marks the moment when the stream has come so far."""
        check(lib.vgc_event_record(self.pointer, 0 if stream is None else stream.number))
        return self

    def synchronize(self) -> None:
        """Waits until it has happened."""
        check(lib.vgc_event_synchronize(self.pointer))

    def happened(self) -> bool:
        """Whether it has."""
        result = lib.vgc_event_query(self.pointer)
        if result != lib.VGC_PENDING:
            check(result)
        return bool(result == lib.VGC_OK)

    def elapsed_s(self, end: Event) -> float:
        """Seconds from this event to `end`; waits for both."""
        out = ffi.new("int64_t *")
        check(lib.vgc_event_elapsed(self.pointer, end.pointer, out))
        return int(out[0]) / 1e9

    def close(self) -> None:
        """Gives the event back; it must not be used again."""
        self._destroy()
