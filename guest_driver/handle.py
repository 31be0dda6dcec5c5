"""Device handle of libvgc. It lives while the `Device` is open or memory of the region is in use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from guest_driver import errors
from guest_driver._lib import check, ffi, lib
from guest_driver.output import Output

RECOVERIES: Final = 5
"""Tries of a recovery: the next worker may die, too, while it gets the program's data."""


class Handle:
    """Handle of one open device. Views of the region keep it past `close`, because closing unmaps the region.

    :param restore: called when there is a new context, with nothing in it.
    :param recovers: a lost device gets a new context at its next use; only the thread that opened it may use it.

    """

    def __init__(self, options: Any, output: Output, restore: Callable[[], object], *, recovers: bool = False) -> None:
        self.epoch = 0
        """Number of contexts that the device has had before this one. Objects of an earlier one are gone."""
        self.recovers: Final = recovers
        self._restore = restore
        self._is_restoring = False
        self._thread = threading.get_ident()
        self._output = output
        out = ffi.new("struct vgc_device **")
        check(lib.vgc_open(options, out))
        self._pointer = out[0]
        self._open = True
        self._users = 0
        self._unfinished: list[Callable[[], bool]] = []
        self._lock = threading.RLock()  # a finalizer may run at any point of any thread, inside this lock too

    @property
    def pointer(self) -> Any:
        """Pointer for libvgc's functions that use the device; one that recovers does so first if it is lost.

        Numbers of the context, such as addresses, are read after this: a recovery makes them invalid.

        :raise ValueError: the device is closed, or it recovers and belongs to another thread.
        :raise errors.DeviceLost: it could not recover.
        """
        self.recover()
        return self.bare_pointer

    @property
    def bare_pointer(self) -> Any:
        """Pointer for finalizers and waits, which must not recover the device.

        :raise ValueError: the device is closed.
        """
        if not self._open:
            raise ValueError("the device is closed")
        return self._pointer

    @property
    def is_open(self) -> bool:
        return self._open

    def recover(self) -> None:
        """Makes a new context and restores what belongs there, if the device recovers and is lost.

        :raise ValueError: it recovers and belongs to another thread.
        :raise errors.DeviceLost: worker after worker died.
        """
        if not self.recovers or not self._open:
            return
        if threading.get_ident() != self._thread:
            raise ValueError("a device that recovers, in another thread; allowed: the thread that has opened it")
        if not self._is_restoring and lib.vgc_is_lost(self._pointer):
            self.reset()

    def reset(self) -> None:
        """Makes a new context, and restores what belongs there.

        :raise ValueError: the device is closed, or it is being restored.
        :raise errors.VgcError: there is no context, and the device stays lost. What `restore` raises is passed on.
        """
        if self._is_restoring:
            raise ValueError("a reset in on_recovered; allowed: using the device, whose context is new")
        for left in reversed(range(RECOVERIES if self.recovers else 1)):
            try:
                self._reset_once()
            except errors.ObjectLost:
                raise
            except errors.DeviceLost:
                if left == 0:
                    raise
            else:
                return

    def _reset_once(self) -> None:
        self._is_restoring = True
        try:
            check(lib.vgc_reset(self.bare_pointer))
            self.epoch += 1
            self._restore()
        finally:
            self._is_restoring = False

    def check_epoch(self, epoch: int, what: str) -> None:
        """Checks that something belongs to the present context.

        :param what: the thing, and what to do, for the error.
        :raise errors.ObjectLost: it belongs to an earlier one.
        """
        if epoch != self.epoch:
            raise errors.ObjectLost(
                f"gone with an earlier context (the worker was replaced, or the device reset): {what}"
            )

    def close(self) -> None:
        """Closes the device, at once or when the last view of its region is collected. A second call does nothing.

        While abandoned work is under way, the device stays open until the process ends: closing would wait for it.
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

    def stay_open_until(self, done: Callable[[], bool]) -> None:
        """Keeps the device open for abandoned work until `done()` is true, and alive what `done` refers to."""
        self._unfinished = [*(other for other in self._unfinished if not other()), done]

    def is_busy(self) -> bool:
        """True while abandoned work is under way."""
        return not all(done() for done in self._unfinished)

    def show_output(self, *, asked: bool = False) -> None:
        """Writes text that kernels have printed, if there is any; `asked`: also what no launch has told of."""
        if self._open and (asked or lib.vgc_output_waits(self._pointer)):
            self._output.show(self._pointer, asked=asked)

    def region_buffer(self, size_bytes: int) -> Any:
        """Allocates a writable buffer in the shared region, freed when it is collected."""
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

        return self._finalizer(owner, run)

    def on_collect_number(self, owner: object, release: Any, number: int) -> weakref.finalize[Any, Any]:
        """Calls `release(device, number)` likewise, unless there is another context, whose numbers mean other things."""
        epoch = self.epoch

        def run() -> None:
            if self._open and epoch == self.epoch:
                release(self.bare_pointer, number)

        return self._finalizer(owner, run)

    def _finalizer(self, owner: object, run: Callable[[], None]) -> weakref.finalize[Any, Any]:
        finalizer = weakref.finalize(owner, run)
        finalizer.atexit = False  # the end of the process frees everything
        return finalizer


def key_of(key: bytes) -> Any:
    """Key for libvgc's functions, of the bytes that `export` has returned.

    :raise ValueError: they are no key.
    """
    out = ffi.new("struct vgc_key *")
    if len(key) != ffi.sizeof("struct vgc_key"):
        raise ValueError(f"a key of {len(key)} bytes; allowed: {ffi.sizeof('struct vgc_key')}")
    ffi.memmove(out, key, len(key))
    return out
