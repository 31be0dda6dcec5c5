"""A VM's work as the worker that gives it away sees it: what there is, how large, and into the file slice by slice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from vhost_backend.engines.base import Engine
from vhost_backend.worker.moving_plane import MovingPlane, Objects
from vhost_backend.worker.programs import LoadedEntry, Programs
from vhost_backend.worker.transfer import HEAD, Manifest, MovedOutput, MovedProgram, Transfer, places

SLICE_BYTES: Final = 8 << 20
"""Looked at without a pause: the daemon's messages wait so long."""
SLICE_PIECES: Final = 512


class Saving:
    """Everything of a VM that is held, with nothing in flight, until it takes requests again.

    :raise DataPlaneError: it cannot be moved, or is not held.
    :raise ProgramError: its programs cannot be moved.
    """

    def __init__(self, engine: Engine, plane: MovingPlane, programs: Programs) -> None:
        self._engine = engine
        self._plane = plane
        self._objects = plane.save()
        self._programs = list(programs)
        self._outputs = _outputs(plane, self._objects)
        self._ranges = _ranges(engine, self._objects, self._programs)
        self._lay_out()

    def _lay_out(self) -> None:
        """Decides where everything goes."""
        images = [self._engine.program_image(entry.loaded) for entry in self._programs]
        tables: list[Any] = [self._objects.moved_bytes, self._objects.allocs_bytes]
        tables += [text for _, text, _ in self._outputs] + images
        *starts, end = places(map(len, tables), HEAD.size)
        self._tables = list(zip(starts, tables, strict=True))
        first_image = 2 + len(self._outputs)
        manifest = Manifest(
            engine=self._engine.kind,
            features=self._engine.features,
            objects_at=starts[0],
            allocs_at=starts[1],
            num_allocs=self._objects.num_allocs,
            programs=tuple(
                self._program(entry, at, image)
                for entry, at, image in zip(self._programs, starts[first_image:], images, strict=True)
            ),
            outputs=tuple(
                MovedOutput(context, at, len(text), lost)
                for (context, text, lost), at in zip(self._outputs, starts[2:first_image], strict=True)
            ),
        )
        self._manifest = (end, manifest.pack())
        self._contents_at = next(places((), end + len(self._manifest[1])))
        *self._offsets, self.size_bytes = places((size for _, size in self._ranges), self._contents_at)

    def _program(self, entry: LoadedEntry, image_at: int, image: Any) -> MovedProgram:
        base = self._engine.program_place(entry.loaded).base
        functions = tuple(function.id for function in entry.functions)
        return MovedProgram(entry.id, entry.context, base, image_at, len(image), functions)

    @property
    def memory_bytes(self) -> int:
        """Of `size_bytes`: contents of the guest's allocations, as long as the guest has asked for."""
        return sum(size for _, size in self._objects.ranges())

    def write(self, transfer: Transfer) -> Iterator[int]:
        """Writes everything; comes back after every slice with the number of bytes that were not zeroes in it.

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


def _outputs(plane: MovingPlane, objects: Objects) -> list[tuple[int, bytes, int]]:
    """Context, text and lost bytes, where there is anything."""
    outputs = [(context, *plane.save_output(context)) for context in objects.contexts()]
    return [output for output in outputs if output[1] or output[2]]


def _ranges(engine: Engine, objects: Objects, programs: list[LoadedEntry]) -> list[tuple[int, int]]:
    """Address and size of all that there are contents of, in the order that both workers know."""
    writable = (engine.program_place(entry.loaded).writable for entry in programs)
    return [*objects.ranges(), *chain.from_iterable(writable)]
