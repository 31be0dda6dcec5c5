"""Saving a VM's work: what there is to save, its size, and writing it to the transfer file slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from vhost_backend.engines.base import Engine
from vhost_backend.worker.migration.file import (
    HEAD,
    Manifest,
    MigratedOutput,
    MigratedProgram,
    MigratedRegistration,
    Transfer,
    places,
)
from vhost_backend.worker.migration.plane import MigrationPlane, Objects
from vhost_backend.worker.programs import LoadedEntry, Programs
from vhost_backend.worker.registrations import Registration, Registrations

SLICE_BYTES: Final = 8 << 20
"""Bytes of device memory that are examined in one go, while messages of the daemon wait."""
SLICE_PIECES: Final = 512
"""Allocations that are examined in one go."""


class Saver:
    """Snapshot of a held VM's work, valid until the VM takes requests again.

    :raise DataPlaneError: the work cannot be migrated, or the VM is not held with no request in flight.
    :raise ProgramError: its programs cannot be migrated.
    """

    def __init__(self, engine: Engine, plane: MigrationPlane, programs: Programs, registrations: Registrations) -> None:
        self._registrations = tuple(_registration(one) for one, _ in registrations)
        self._engine = engine
        self._plane = plane
        self._objects = plane.save()
        self._programs = list(programs)
        self._outputs = _outputs(plane, self._objects)
        graphs = (plane.save_graph(index, graph.nodes_len) for index, graph in self._objects.graphs())
        self._graphs = b"".join(graphs)
        self._ranges = _ranges(engine, self._objects, self._programs)
        self._lay_out()

    def _lay_out(self) -> None:
        """Chooses the offset of everything in the file."""
        images = [self._engine.program_image(entry.loaded) for entry in self._programs]
        tables: list[Any] = [self._objects.state_bytes, self._objects.allocs_bytes, self._graphs]
        tables += [text for _, text, _ in self._outputs] + images
        *starts, end = places(map(len, tables), HEAD.size)
        self._tables = list(zip(starts, tables, strict=True))
        first_image = 3 + len(self._outputs)
        manifest = Manifest(
            engine=self._engine.kind,
            features=self._engine.features,
            objects_at=starts[0],
            allocs_at=starts[1],
            num_allocs=self._objects.num_allocs,
            graphs_at=starts[2],
            programs=tuple(
                self._program(entry, at, image)
                for entry, at, image in zip(self._programs, starts[first_image:], images, strict=True)
            ),
            outputs=tuple(
                MigratedOutput(context, at, len(text), lost)
                for (context, text, lost), at in zip(self._outputs, starts[3:first_image], strict=True)
            ),
            registrations=self._registrations,
        )
        self._manifest = (end, manifest.pack())
        self._contents_at = next(places((), end + len(self._manifest[1])))
        *self._offsets, self.size_bytes = places((size for _, size in self._ranges), self._contents_at)

    def _program(self, entry: LoadedEntry, image_at: int, image: Any) -> MigratedProgram:
        base = self._engine.program_place(entry.loaded).base
        functions = tuple(function.id for function in entry.functions)
        return MigratedProgram(entry.id, entry.context, base, image_at, len(image), functions)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the guest's allocations, in the sizes that it asked for; part of `size_bytes`."""
        return sum(size for _, size in self._objects.ranges())

    def write(self, transfer: Transfer) -> Iterator[int]:
        """Writes everything; yields after every slice the number of its bytes that were not zeroes.

        :raise TransferError: the file is too short.
        :raise DataPlaneError: the engine cannot read its memory.
        """
        manifest_at, packed = self._manifest
        transfer.write(0, HEAD.pack(manifest_at, len(packed), self._contents_at))
        transfer.write(manifest_at, packed)
        for at, table in self._tables:
            transfer.write(at, table)
        yield len(packed) + sum(len(table) for _, table in self._tables)
        yield from self._write_contents(transfer)

    def _write_contents(self, transfer: Transfer) -> Iterator[int]:
        copied = seen = pieces = 0
        for (address, size), offset in zip(self._ranges, self._offsets, strict=True):
            for start in range(0, size, SLICE_BYTES):
                length = min(SLICE_BYTES, size - start)
                copied += self._plane.save_contents(transfer, offset + start, address + start, length)
                seen, pieces = seen + length, pieces + 1
                if seen >= SLICE_BYTES or pieces >= SLICE_PIECES:
                    yield copied
                    copied = seen = pieces = 0
        yield copied


def _registration(one: Registration) -> MigratedRegistration:
    return MigratedRegistration(one.number, one.program, one.digest, one.keep, one.problem, one.signatures)


def _outputs(plane: MigrationPlane, objects: Objects) -> list[tuple[int, bytes, int]]:
    """Context, text and lost bytes of every context that has printed."""
    outputs = [(context, *plane.save_output(context)) for context in objects.contexts()]
    return [output for output in outputs if output[1] or output[2]]


def _ranges(engine: Engine, objects: Objects, programs: list[LoadedEntry]) -> list[tuple[int, int]]:
    """Address and size of all memory whose contents are saved, in the order that the loader expects."""
    writable = (engine.program_place(entry.loaded).writable for entry in programs)
    return [*objects.ranges(), *chain.from_iterable(writable)]
