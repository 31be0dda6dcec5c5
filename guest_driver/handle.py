"""Libvgc's device handle and how long it lives: as long as the `Device` is open or memory of the region is in use."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from guest_driver._lib import check, ffi, lib
from guest_driver.output import Output

if TYPE_CHECKING:
    from guest_driver.job import Job


class Handle:
    """One open device. Views of the region hold it open past `close`, since closing unmaps the region."""

    def __init__(self, options: Any, output: Output) -> None:
        self._output = output
        out = ffi.new("struct vgc_device **")
        check(lib.vgc_open(options, out))
        self._pointer = out[0]
        self._open = True
        self._users = 0
        self._left_behind: list[Job] = []
        self._lock = threading.RLock()  # finalizers run in the middle of anything, on the same thread too

    @property
    def pointer(self) -> Any:
        """For libvgc's functions.

        :raise ValueError: the device is closed.
        """
        if not self._open:
            raise ValueError("the device is closed")
        return self._pointer

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        """Ends the device, now or when the last view of its region is gone. A second time does nothing.

        With a kernel under way that nobody waits for any more, it is left to the end of the process, as if that had
        been killed: closing would wait for the kernel.
        """
        with self._lock:
            if self._open and self.is_busy():
                self._users += 1
            self._open = False
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self._open and self._users == 0 and self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            lib.vgc_close(pointer)

    def leave_behind(self, job: Job) -> None:
        """Keeps a job, and what it uses, that nobody waits for."""
        self._left_behind = [*(known for known in self._left_behind if not known.done()), job]

    def is_busy(self) -> bool:
        """Whether a job that nobody waits for is still under way."""
        return not all(job.done() for job in self._left_behind)

    def show_output(self) -> None:
        """Writes what kernels printed, if there is something."""
        if self._open and lib.vgc_output_waits(self._pointer):
            self._output.show(self._pointer)

    def region_buffer(self, size_bytes: int) -> Any:
        """A writable buffer in the shared region, freed when nothing refers to it any more."""
        out = ffi.new("void **")
        check(lib.vgc_region_alloc(self.pointer, size_bytes, out))
        with self._lock:
            self._users += 1
        owner = ffi.gc(ffi.cast("char *", out[0]), self._free_region)
        return ffi.buffer(owner, size_bytes)

    def _free_region(self, pointer: Any) -> None:
        with self._lock:
            lib.vgc_region_free(self._pointer, pointer)
            self._users -= 1
            self._close_if_unused()

    def on_collect(self, owner: object, release: Any, pointer: Any) -> weakref.finalize[Any, Any]:
        """Calls `release(pointer)` once, when `owner` is collected or the result is called, if the device is open."""

        def run() -> None:
            if self._open:
                release(pointer)

        finalizer = weakref.finalize(owner, run)
        finalizer.atexit = False  # the process's end frees everything of it
        return finalizer
