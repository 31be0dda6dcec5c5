"""Migration interface of the data plane: holds a VM, saves its work and loads it (see ``vgc_dataplane.h``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker.migration.file import MAX_ALLOCS, Transfer
from vhost_backend.worker.plane import DataPlane, DataPlaneError

MAX_OUTPUT_BYTES: Final = int(lib.VGC_MAX_OUTPUT_BYTES)
NUM_CONTEXTS: Final = int(lib.VGC_MAX_CONTEXTS)
NUM_GRAPHS: Final = int(lib.VGC_MAX_GRAPHS)


@dataclass(frozen=True, slots=True)
class Objects:
    """Contexts, events, counters and allocations in the data plane's own layout, in cffi memory that this owns."""

    state: Any
    """``struct vgc_migration_state *``"""
    allocs: Any
    """``struct vgc_migration_alloc[]``"""
    num_allocs: int

    @property
    def state_bytes(self) -> Any:
        return ffi.buffer(self.state)

    @property
    def allocs_bytes(self) -> Any:
        return ffi.buffer(self.allocs, self.num_allocs * ffi.sizeof("struct vgc_migration_alloc"))

    def contexts(self) -> list[int]:
        """Engine numbers of the existing contexts."""
        return [index + 1 for index in range(NUM_CONTEXTS) if self.state.contexts[index].id]

    def ranges(self) -> list[tuple[int, int]]:
        """Address and size of every allocation."""
        return [(self.allocs[i].address, self.allocs[i].size) for i in range(self.num_allocs)]

    def graphs(self) -> list[tuple[int, Any]]:
        """Place in the table and entry (``struct vgc_migration_graph``) of every graph."""
        return [(index, self.state.graphs[index]) for index in range(NUM_GRAPHS) if self.state.graphs[index].id]

    @classmethod
    def empty(cls, num_allocs: int) -> Objects:
        return cls(
            ffi.new("struct vgc_migration_state *"),
            ffi.new("struct vgc_migration_alloc[]", max(num_allocs, 1)),
            num_allocs,
        )

    @classmethod
    def read(cls, transfer: Transfer, objects_at: int, allocs_at: int, num_allocs: int) -> Objects:
        """Copies the objects that the other worker has written.

        :raise TransferError: the file is shorter.
        """
        objects = cls.empty(min(num_allocs, MAX_ALLOCS))
        ffi.memmove(objects.state, transfer.read(objects_at, len(objects.state_bytes)), len(objects.state_bytes))
        size = len(objects.allocs_bytes)
        ffi.memmove(objects.allocs, transfer.read(allocs_at, size), size)
        objects.state.num_allocs = objects.num_allocs
        return objects


class MigrationPlane:
    """Data plane of a VM that is migrated. Methods raise `DataPlaneError` as ``vgc_dataplane.h`` says."""

    def __init__(self, plane: DataPlane) -> None:
        self._dp = plane.handle
        self._why = ffi.new("char[]", int(lib.VGC_DP_WHY))

    def hold(self) -> None:
        """Takes no more requests; the data plane notifies when the last request in flight has ended."""
        lib.vgc_dp_hold(self._dp)

    def release(self) -> None:
        lib.vgc_dp_release(self._dp)

    @property
    def in_flight(self) -> int:
        """Number of requests that have not been completed yet."""
        return int(lib.vgc_dp_in_flight(self._dp))

    def save(self) -> Objects:
        """Saves all objects except programs; only while held, with no request in flight."""
        objects = Objects.empty(int(lib.vgc_dp_num_allocs(self._dp)))
        self._check(lib.vgc_dp_save(self._dp, objects.state, objects.allocs, objects.num_allocs, self._why))
        return objects

    def load(self, objects: Objects) -> None:
        self._check(lib.vgc_dp_load(self._dp, objects.state, objects.allocs, self._why))

    def save_graph(self, index: int, size: int) -> bytes:
        """Reads the nodes of a graph, `size` bytes."""
        nodes = ffi.new("char[]", max(size, 1))
        self._check_plain(lib.vgc_dp_save_graph(self._dp, index, nodes, size), f"graph at place {index}")
        return bytes(ffi.buffer(nodes, size))

    def load_graph(self, index: int, graph: Any, nodes: Any) -> None:
        """Adds a graph; its context must be loaded. Its nodes are read when it is launched."""
        loaded = lib.vgc_dp_load_graph(self._dp, index, ffi.addressof(graph), ffi.from_buffer(nodes))
        self._check_plain(loaded, f"graph {graph.id} at place {index}")

    def load_program(self, program: int, engine_context: int, charged_bytes: int) -> None:
        loaded = lib.vgc_dp_program_load(self._dp, program, engine_context, charged_bytes)
        self._check_plain(loaded, f"program {program}")

    def charge_program(self, program: int, charged_bytes: int) -> None:
        """Raises what a program is charged."""
        self._check_plain(lib.vgc_dp_program_charge(self._dp, program, charged_bytes), f"program {program}")

    def load_function(self, program: int, function: int, kernel: Any, name: str, short_name: str) -> None:
        loaded = lib.vgc_dp_function_load(self._dp, program, function, kernel, name.encode(), short_name.encode())
        self._check_plain(loaded, f"function {function}")

    def save_contents(self, transfer: Transfer, offset: int, address: int, size: int) -> int:
        """Copies device memory to the transfer file; returns how many bytes were not zeroes."""
        saved = lib.vgc_dp_save_contents(self._dp, transfer.handle, offset, address, size)
        return self._check_plain(saved, f"{size} bytes at {address:#x}")

    def load_contents(self, transfer: Transfer, offset: int, address: int, size: int, *, fresh: bool) -> None:
        """Copies from the transfer file to device memory; `fresh` memory is known to hold zeroes."""
        loaded = lib.vgc_dp_load_contents(self._dp, transfer.handle, offset, address, size, fresh)
        self._check_plain(loaded, f"{size} bytes at {address:#x}")

    def save_output(self, engine_context: int) -> tuple[bytes, int]:
        """Reads the text that the guest has not fetched yet, and how many bytes of it were lost. Leaves it there."""
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
