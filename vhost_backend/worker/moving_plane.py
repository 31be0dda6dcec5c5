"""The data plane's other face: what saves a VM's work and loads it again ("moving" in ``vgc_dataplane.h``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from vhost_backend.worker.transfer import MAX_ALLOCS, Transfer

MAX_OUTPUT_BYTES: Final = int(lib.VGC_MAX_OUTPUT_BYTES)
NUM_CONTEXTS: Final = int(lib.VGC_MAX_CONTEXTS)


@dataclass(frozen=True, slots=True)
class Objects:
    """Contexts, events, counters and allocations, as the data plane has written them. cffi memory of our own."""

    moved: Any
    """``struct vgc_moved *``"""
    allocs: Any
    """``struct vgc_moved_alloc[]``"""
    num_allocs: int

    @property
    def moved_bytes(self) -> Any:
        return ffi.buffer(self.moved)

    @property
    def allocs_bytes(self) -> Any:
        return ffi.buffer(self.allocs, self.num_allocs * ffi.sizeof("struct vgc_moved_alloc"))

    def contexts(self) -> list[int]:
        """The engine's numbers of those there are."""
        return [index + 1 for index in range(NUM_CONTEXTS) if self.moved.contexts[index].id]

    def ranges(self) -> list[tuple[int, int]]:
        """Address and size of every allocation."""
        return [(self.allocs[i].address, self.allocs[i].size) for i in range(self.num_allocs)]

    @classmethod
    def empty(cls, num_allocs: int) -> Objects:
        return cls(ffi.new("struct vgc_moved *"), ffi.new("struct vgc_moved_alloc[]", max(num_allocs, 1)), num_allocs)

    @classmethod
    def read(cls, transfer: Transfer, objects_at: int, allocs_at: int, num_allocs: int) -> Objects:
        """A copy of what another worker has written.

        :raise TransferError: the file is not so long.
        """
        objects = cls.empty(min(num_allocs, MAX_ALLOCS))
        ffi.memmove(objects.moved, transfer.read(objects_at, len(objects.moved_bytes)), len(objects.moved_bytes))
        size = len(objects.allocs_bytes)
        ffi.memmove(objects.allocs, transfer.read(allocs_at, size), size)
        objects.moved.num_allocs = objects.num_allocs
        return objects


class MovingPlane:
    """A data plane whose work comes or goes. Everything raises `DataPlaneError` as said in ``vgc_dataplane.h``."""

    def __init__(self, plane: DataPlane) -> None:
        self._dp = plane.handle
        self._why = ffi.new("char[]", int(lib.VGC_DP_WHY))

    def hold(self) -> None:
        """Takes no more requests. The notification says when none is in flight."""
        lib.vgc_dp_hold(self._dp)

    def release(self) -> None:
        lib.vgc_dp_release(self._dp)

    @property
    def in_flight(self) -> int:
        """Requests that are not returned yet."""
        return int(lib.vgc_dp_in_flight(self._dp))

    def save(self) -> Objects:
        """All objects but programs; only while held, with nothing in flight."""
        objects = Objects.empty(int(lib.vgc_dp_num_allocs(self._dp)))
        self._check(lib.vgc_dp_save(self._dp, objects.moved, objects.allocs, objects.num_allocs, self._why))
        return objects

    def load(self, objects: Objects) -> None:
        self._check(lib.vgc_dp_load(self._dp, objects.moved, objects.allocs, self._why))

    def load_program(self, program: int, engine_context: int, charged_bytes: int) -> None:
        loaded = lib.vgc_dp_program_load(self._dp, program, engine_context, charged_bytes)
        self._check_plain(loaded, f"program {program}")

    def load_function(self, program: int, function: int, kernel: Any, name: str, short_name: str) -> None:
        loaded = lib.vgc_dp_function_load(self._dp, program, function, kernel, name.encode(), short_name.encode())
        self._check_plain(loaded, f"function {function}")

    def save_contents(self, transfer: Transfer, offset: int, address: int, size: int) -> int:
        """Device memory to the transfer; how many bytes were not zeroes."""
        saved = lib.vgc_dp_save_contents(self._dp, transfer.handle, offset, address, size)
        return self._check_plain(saved, f"{size} bytes at {address:#x}")

    def load_contents(self, transfer: Transfer, offset: int, address: int, size: int, *, fresh: bool) -> None:
        """The other way; `fresh` memory holds zeroes."""
        loaded = lib.vgc_dp_load_contents(self._dp, transfer.handle, offset, address, size, fresh)
        self._check_plain(loaded, f"{size} bytes at {address:#x}")

    def save_output(self, engine_context: int) -> tuple[bytes, int]:
        """What was printed and not taken, and how many bytes of it were lost; it stays there."""
        text, lost = ffi.new("char[]", MAX_OUTPUT_BYTES), ffi.new("uint64_t *")
        size = lib.vgc_dp_save_output(self._dp, engine_context, text, MAX_OUTPUT_BYTES, lost)
        self._check_plain(size, f"output of context {engine_context}")
        return bytes(ffi.buffer(text, size)), int(lost[0])

    def load_output(self, engine_context: int, text: bytes, lost: int) -> None:
        loaded = lib.vgc_dp_load_output(self._dp, engine_context, ffi.from_buffer(text), len(text), lost)
        self._check_plain(loaded, f"output of context {engine_context}")

    def _check(self, result: int) -> None:
        if result < 0:
            raise DataPlaneError(-result, ffi.string(self._why).decode(errors="replace"))

    def _check_plain(self, result: int, what: str) -> int:
        if result < 0:
            raise DataPlaneError(-result, f"{what}: {os.strerror(-result)}")
        return int(result)
