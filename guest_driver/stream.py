"""Streams and events."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from guest_driver import errors
from guest_driver._lib import check, ffi, lib
from guest_driver.handle import key_of

if TYPE_CHECKING:
    from guest_driver.handle import Handle
    from guest_driver.job import Job


class Stream:
    """Stream: its work runs in order, concurrently with other streams. Functions that take a stream return a job at
    once.
    """

    def __init__(self, handle: Handle) -> None:
        out = ffi.new("uint32_t *")
        check(lib.vgc_stream_create(handle.pointer, out))
        self._handle = handle
        self._number = int(out[0])
        self._epoch = handle.epoch
        self._jobs: list[Job] = []
        self._destroy = handle.on_collect_number(self, lib.vgc_stream_destroy, self._number)

    @property
    def number(self) -> int:
        """Number for libvgc's functions.

        :raise errors.ObjectLost: the stream went with an earlier context.
        """
        self._handle.check_epoch(self._epoch, f"stream {self._number}; allowed: a new one, Device.stream()")
        return self._number

    def __repr__(self) -> str:
        return f"<stream {self._number}>"

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
        """Registers a job that `synchronize` waits for."""
        self._jobs = [known for known in self._jobs if not known.done() or known.failed]
        self._jobs.append(job)
        return job

    def forget(self) -> None:
        """Drops all registered jobs: `synchronize` no longer waits for them, and does not report their failures."""
        self._jobs = []

    def synchronize(self) -> None:
        """Waits for all work in the stream.

        :raise errors.VgcError: the error of the first job that failed since the last call.
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
        """Makes later work of this stream wait for the event."""
        check(lib.vgc_stream_wait_event(event.pointer, self.number))

    def close(self) -> None:
        """Waits for the stream and frees its number; a second call does nothing."""
        self._destroy()


class Event:
    """Event: a point in a stream, with a time in the engine's clock. With a key, the event of another process."""

    def __init__(self, handle: Handle, key: bytes | None = None) -> None:
        out = ffi.new("struct vgc_event **")
        if key is None:
            check(lib.vgc_event_create(handle.pointer, out))
        else:
            check(lib.vgc_event_open(handle.pointer, key_of(key), out))
        self._handle = handle
        self._pointer = out[0]
        self._destroy = handle.on_collect(self, lib.vgc_event_destroy, self._pointer)

    @property
    def pointer(self) -> Any:
        """Pointer for libvgc's functions.

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
        """Records the event behind the work that the stream has now."""
        check(lib.vgc_event_record(self.pointer, 0 if stream is None else stream.number))
        return self

    def synchronize(self) -> None:
        """Waits until the event has happened."""
        check(lib.vgc_event_synchronize(self.pointer))

    def happened(self) -> bool:
        """True if the event has happened."""
        result = lib.vgc_event_query(self.pointer)
        if result != lib.VGC_PENDING:
            check(result)
        return bool(result == lib.VGC_OK)

    def export(self) -> bytes:
        """Key by which other processes of the VM open the event: see `Device.open_event`."""
        out = ffi.new("struct vgc_key *")
        check(lib.vgc_event_export(self.pointer, out))
        return bytes(ffi.buffer(out))

    def elapsed_s(self, end: Event) -> float:
        """Seconds from this event to `end`; waits for both."""
        out = ffi.new("int64_t *")
        check(lib.vgc_event_elapsed(self.pointer, end.pointer, out))
        return int(out[0]) / 1e9

    def close(self) -> None:
        """Frees the event, which must not be used again."""
        self._destroy()
